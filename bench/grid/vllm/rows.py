"""The rows of the grid in vLLM, with its own sampler and its own guesses: what it wrote, as JSON.

    rows.py FILE

It runs in the environment that bench/vllm/install makes. Each way to guess has an engine and a process of its own, and
requests come one by one, so that nothing but the guesses differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
MODELS = ROOT / "models"
sys.path.insert(0, str(ROOT / "crates/onedraw-python/tests/vllm"))

import eagle  # noqa: E402 (the story model's head in vLLM's form)
import engines  # noqa: E402 (the environment of an engine on this machine)
from kinds import N_GRAM  # noqa: E402

WAYS = ("none", "drafter", "EAGLE", "n-gram")
LIMIT = 1800
"""Seconds after which an engine is taken to hang."""
DRAFTED, ACCEPTED = "vllm:spec_decode_num_draft_tokens", "vllm:spec_decode_num_accepted_tokens"


def speculation(way: str, folder: Path) -> dict[str, Any] | None:
    """vLLM's settings for a way to guess."""
    if way == "drafter":
        return {"method": "draft_model", "model": str(MODELS / "stories-drafters/drafter"), "num_speculative_tokens": 4}
    if way == "EAGLE":
        return {"method": "eagle", "model": str(eagle.convert(MODELS, folder)), "num_speculative_tokens": 4}
    return N_GRAM if way == "n-gram" else None


def parameters(row: dict[str, Any], length: int, seed: int) -> Any:
    """The parameters of a row. vLLM has the same names."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    given = dict(row["params"])
    if "logit_bias" in given:
        given["logit_bias"] = {int(token): bias for token, bias in given["logit_bias"].items()}
    if "schema" in row:
        given["structured_outputs"] = StructuredOutputsParams(json=json.loads((ROOT / row["schema"]).read_text()))
    return SamplingParams(max_tokens=row.get("length", length), seed=seed, **given)


def text(one: Any) -> dict[str, Any]:
    listed = [[[token, entry.logprob, entry.rank] for token, entry in position.items()] for position in one.logprobs or []]
    return {"text": one.text, "tokens": list(one.token_ids), "finish": one.finish_reason, "logprobs": listed}


def counted(llm: Any) -> list[int]:
    """Guesses so far, and how many of them were accepted."""
    metrics = {metric.name: getattr(metric, "value", 0) for metric in llm.get_metrics()}
    return [int(metrics.get(name, 0)) for name in (DRAFTED, ACCEPTED)]


def cell(llm: Any, asked: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """The texts of a row, or why there are none."""
    from vllm.exceptions import VLLMClientError

    before = counted(llm)
    texts = []
    try:
        for batch in asked["batches"]:
            for one in batch:
                [output] = llm.generate([one["prompt"]], parameters(row, asked["length"], one["seed"]), use_tqdm=False)
                texts.append(text(output.outputs[0]))
    except (TypeError, ValueError, VLLMClientError) as error:
        return {"refused": str(error).splitlines()[0]}
    drafted, accepted = (now - then for now, then in zip(counted(llm), before, strict=True))
    return {"texts": texts, "drafted": drafted, "accepted": accepted}


def write(way: str, file: Path) -> None:
    """Writes all rows with an engine."""
    import torch
    import vllm

    asked = json.loads((ROOT / "bench/grid/rows.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        llm = vllm.LLM(
            model=str(MODELS / "stories"),
            dtype="float32",
            enforce_eager=True,
            max_model_len=256,
            block_size=32,
            disable_log_stats=False,
            distributed_executor_backend="uni",
            speculative_config=speculation(way, Path(folder)),
        )
        cells = [cell(llm, asked, row) for row in asked["rows"]]
    file.write_text(json.dumps({"system": f"vLLM {vllm.__version__} on PyTorch {torch.__version__}", "cells": cells}))
    sys.stdout.flush()
    # Nothing is left to do, and vLLM's threads take seconds to end.
    os._exit(0)


def main() -> None:
    if len(sys.argv) == 3:
        write(sys.argv[1], Path(sys.argv[2]))
    asked = json.loads((ROOT / "bench/grid/rows.json").read_text())
    # vLLM as it is, without plugins.
    environment = engines.environment() | {"VLLM_PLUGINS": ""}
    written = []
    with tempfile.TemporaryDirectory() as folder:
        for way in WAYS:
            file = Path(folder, "cells.json")
            file.unlink(missing_ok=True)
            program = subprocess.run([sys.executable, __file__, way, file], env=environment, timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if not file.exists():
                sys.exit(f"{way}:\n{program.stdout[-3000:]}")
            written.append(json.loads(file.read_text()))
            print(f"vLLM: {way}", file=sys.stderr)
    rows = [{"name": row["name"], "cells": [one["cells"][place] for one in written]} for place, row in enumerate(asked["rows"])]
    Path(sys.argv[1]).write_text(json.dumps({"system": written[0]["system"], "columns": WAYS, "rows": rows}))


main()
