"""The rows of the grid in vLLM, with its own sampler and its own guesses: what it wrote, as JSON.

    rows.py FILE

It runs in the environment that bench/vllm/install makes. Each way to guess has an engine and a process of its own, and
requests come one by one, so that nothing but the guesses differs. After a row at which an engine stops, a new one goes
on.
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

REPAIRED = ", repaired"
GUESSERS = ("drafter", "EAGLE", "n-gram")
WAYS = ("none", *GUESSERS, *(f"{way}{REPAIRED}" for way in GUESSERS))
ABOUT = (
    "Run on the CPU by its V1 engine. There is no early exit. In this version the CPU's `_expand_kernel_impl` (`utils/cpu_triton_utils.py`) "
    "writes temperature, top-k and top-p into a copy, so that the sampler of guesses reads memory that nobody has set: its texts are broken, or "
    "an index is out of bounds. *Repaired* has that one function as the GPU's kernel is, and shows what the method itself gives."
)
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


def repair() -> None:
    """Lets vLLM give every guess the parameters of its request, as its kernel for GPUs does."""
    import torch
    from vllm.utils import cpu_triton_utils

    def expand(output: Any, input_val: Any, cu_num_tokens: Any, replace_from: int, replace_to: int, MAX_NUM_TOKENS: int | None = None) -> None:
        values = torch.where(input_val == replace_from, torch.full_like(input_val, replace_to), input_val)
        output.copy_(values.repeat_interleave(torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))))

    cpu_triton_utils._expand_kernel_impl = expand


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
    """The texts of a row, or why there are none: what vLLM refuses, or what stopped its engine."""
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
    except Exception as error:  # noqa: BLE001 (whatever a forward pass or a sampler raises)
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    drafted, accepted = (now - then for now, then in zip(counted(llm), before, strict=True))
    return {"texts": texts, "drafted": drafted, "accepted": accepted}


def write(way: str, first: int, file: Path) -> None:
    """Writes the rows from a place on with an engine, as far as it gets."""
    import torch
    import vllm

    if way.endswith(REPAIRED):
        repair()
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
            speculative_config=speculation(way.removesuffix(REPAIRED), Path(folder)),
        )
        cells: list[dict[str, Any]] = []
        for row in asked["rows"][first:]:
            cells.append(cell(llm, asked, row))
            if "failed" in cells[-1]:
                break
    file.write_text(json.dumps({"system": f"vLLM {vllm.__version__} on PyTorch {torch.__version__}", "cells": cells}))
    sys.stdout.flush()
    # Nothing is left to do, and vLLM's threads take seconds to end.
    os._exit(0)


def cells_of(way: str, rows: int, environment: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    """vLLM's name, and what it wrote for all rows."""
    system, cells = "", []
    while len(cells) < rows:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "cells.json")
            command = [sys.executable, __file__, way, str(len(cells)), file]
            program = subprocess.run(command, env=environment, timeout=LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if not file.exists():
                sys.exit(f"{way}:\n{program.stdout[-3000:]}")
            written = json.loads(file.read_text())
        system = written["system"]
        cells += written["cells"]
        print(f"vLLM: {way}, {len(cells)} rows", file=sys.stderr)
    return system, cells


def main() -> None:
    if len(sys.argv) == 4:
        write(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    asked = json.loads((ROOT / "bench/grid/rows.json").read_text())
    # vLLM as it is, without plugins.
    environment = engines.environment() | {"VLLM_PLUGINS": ""}
    written = [cells_of(way, len(asked["rows"]), environment) for way in WAYS]
    rows = [{"name": row["name"], "cells": [cells[place] for _, cells in written]} for place, row in enumerate(asked["rows"])]
    Path(sys.argv[1]).write_text(json.dumps({"system": written[0][0], "about": ABOUT, "columns": WAYS, "rows": rows}))


main()
