"""Engines of vLLM, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engines import Write, environment

HERE = Path(__file__).parent
LIMIT = 400


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes texts with an engine: the job's `engine`, `runs`, and what else `write.py` reads."""

    def written(runs: list[list[dict[str, Any]]], *, ours: bool = True, processes: bool = False, runner: int = 1, trace: bool = False, poison: list[int] | None = None, emulated: Path | None = None, **engine: Any) -> dict[str, Any]:
        file = tmp_path_factory.mktemp("vllm") / "written.json"
        if not processes:
            engine["distributed_executor_backend"] = "uni"
        if ours:
            engine["additional_config"] = {"onedraw": {"sampler": True, **engine.pop("onedraw", {})}}
        job = {"engine": engine, "runs": runs, "runner": runner, "trace": trace, "poison": poison, "emulated": emulated is not None}
        done = subprocess.run(
            [sys.executable, HERE / "write.py", file],
            input=json.dumps(job),
            text=True,
            capture_output=True,
            timeout=LIMIT,
            cwd=HERE,
            env=environment(processes, preload=runner == 1) | ({} if emulated is None else {"LD_LIBRARY_PATH": str(emulated), "EMULATED_SHARED": "1"}),
        )
        assert file.exists(), done.stderr[-3000:]
        read: dict[str, Any] = json.loads(file.read_text())
        return read

    return written
