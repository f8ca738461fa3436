"""Engines of vLLM, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
LIMIT = 400

Write = Callable[..., dict[str, Any]]


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


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes texts with an engine: the job's `engine`, `runs`, and what else `write.py` reads."""

    def written(runs: list[list[dict[str, Any]]], *, ours: bool = True, processes: bool = False, runner: int = 1, trace: bool = False, poison: list[int] | None = None, **engine: Any) -> dict[str, Any]:
        file = tmp_path_factory.mktemp("vllm") / "written.json"
        if not processes:
            engine["distributed_executor_backend"] = "uni"
        if ours:
            engine["additional_config"] = {"onedraw": {"sampler": True, **engine.pop("onedraw", {})}}
        job = {"engine": engine, "runs": runs, "runner": runner, "trace": trace, "poison": poison}
        done = subprocess.run(
            [sys.executable, HERE / "write.py", file],
            input=json.dumps(job),
            text=True,
            capture_output=True,
            timeout=LIMIT,
            cwd=HERE,
            env=environment(processes, preload=runner == 1),
        )
        assert file.exists(), done.stderr[-3000:]
        read: dict[str, Any] = json.loads(file.read_text())
        return read

    return written
