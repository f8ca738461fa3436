"""Engines of vLLM, each in a process of its own."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from engines import Write, run
from kinds import NEIGHBOURS, requests

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Writes texts with an engine: the job's `engine`, `runs`, and what else `write.py` reads."""

    def written(
        runs: list[list[dict[str, Any]]], *, ours: bool = True, processes: bool = False, runner: int = 1, trace: bool = False, watched: dict[str, Any] | None = None, emulated: Path | None = None, **engine: Any
    ) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("vllm")
        file, traces = folder / "written.json", folder / "traces"
        if trace:
            traces.mkdir()
            watched = {"trace": str(traces), **(watched or {})}
        if not processes:
            engine["distributed_executor_backend"] = "uni"
        if ours:
            engine["additional_config"] = {"onedraw": {"sampler": True, **engine.pop("onedraw", {})}}
        job = {"engine": engine, "runs": runs, "runner": runner, "emulated": emulated is not None}
        said = run(HERE / "write.py", str(file), given=json.dumps(job), processes=processes, preload=runner == 1, watched=watched, emulated=emulated)
        assert file.exists(), said[-3000:]
        read: dict[str, Any] = json.loads(file.read_text())
        read["said"] = said
        read["folder"] = traces
        # By rank, what was drawn from which row.
        read["traces"] = [[json.loads(line) for line in one.read_text().splitlines()] for one in sorted(traces.glob("rank*"))]
        return read

    return written


@pytest.fixture(scope="session")
def expected(write: Write) -> dict[str, Any]:
    """The texts of all kinds in one batch, and alone, in a shuffled order, and with many neighbours."""
    asked = requests()
    shuffled = random.Random(5).sample(range(len(asked)), len(asked))
    crowd = asked + [{**one, "params": {**one["params"], "seed": NEIGHBOURS}} for one in asked * 3][: 64 - len(asked)]
    alone = [[one] for one in asked]
    return write([asked, [asked[place] for place in shuffled], crowd, *alone], trace=True, max_num_seqs=64) | {"shuffled": shuffled}


@pytest.fixture(scope="session")
def together(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The texts of all kinds in one batch."""
    texts: list[dict[str, Any]] = expected["runs"][0]
    return texts
