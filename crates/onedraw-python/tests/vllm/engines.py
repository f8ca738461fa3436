"""How engines of vLLM are started here."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import watching

LIMIT = 400
"""Seconds after which a program with an engine is taken to hang."""

Write = Callable[..., dict[str, Any]]
"""What the fixture `write` gives."""


def environment(processes: bool = False, preload: bool = True) -> dict[str, str]:
    """The environment of an engine on this machine."""
    library = Path(sysconfig.get_path("data"), "lib/libiomp5.so")
    return {
        **os.environ,
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes)),
        "VLLM_CPU_OMP_THREADS_BIND": "0|1" if processes else "auto",
        **({"LD_PRELOAD": str(library)} if preload and library.exists() else {}),
    }


def run(script: Path, *arguments: str, given: str = "", processes: bool = False, preload: bool = True, watched: dict[str, Any] | None = None, cwd: Path | None = None, emulated: Path | None = None) -> str:
    """What a script with an engine says. The processes of its engine end with it; its output is a file, because they
    would keep a pipe open. `emulated` has a driver for CUDA that shares the memory of the CPU."""
    driver = {} if emulated is None else {"LD_LIBRARY_PATH": str(emulated), "EMULATED_SHARED": "1"}
    with tempfile.TemporaryFile("w+") as said:
        program = subprocess.Popen(
            [sys.executable, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=cwd or script.parent,
            env=environment(processes, preload) | {watching.VARIABLE: json.dumps(watched or {})} | driver,
        )
        try:
            program.communicate(given, LIMIT)
        finally:
            end(program)
            said.seek(0)
            text = said.read()
        return text


def end(program: subprocess.Popen[str]) -> None:
    """Ends a program that has a session of its own, and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
        for _ in range(200):
            time.sleep(0.1)
            program.poll()
            os.killpg(program.pid, 0)
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
