"""Writes texts with vLLM: a job as JSON on standard input, the texts as JSON in the file that is its argument."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

MODEL = str(Path(__file__).parents[4] / "models/stories")


def main() -> None:
    job = json.load(sys.stdin)
    if job.get("runner") == 2:
        offer_triton()
    from vllm import LLM

    trace: list[list[Any]] = []
    if job.get("trace"):
        record(trace)
    # Requests that stop early make room for others, which is what a server sees.
    llm = LLM(**{"model": MODEL, "dtype": "float32", "enforce_eager": True, "max_model_len": 256, "block_size": 32, "disable_log_stats": False, **job["engine"]})
    written: dict[str, Any] = {"runs": [run(llm, requests) for requests in job["runs"]]}
    written["metrics"] = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    written["trace"] = trace
    Path(sys.argv[1]).write_text(json.dumps(written))
    # Nothing is left to do, and vLLM's threads take seconds to end.
    sys.stdout.flush()
    os._exit(0)


def run(llm: Any, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The texts of requests that arrive together."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    params = []
    for request in requests:
        given = dict(request["params"])
        if "structured_outputs" in given:
            given["structured_outputs"] = StructuredOutputsParams(json=given["structured_outputs"])
        if "logit_bias" in given:
            given["logit_bias"] = {int(token): bias for token, bias in given["logit_bias"].items()}
        params.append(SamplingParams(**given))
    texts = []
    try:
        for output in llm.generate([request["prompt"] for request in requests], params, use_tqdm=False):
            texts += [text(one) for one in output.outputs]
    except ValueError as error:
        return [{"error": str(error)}]
    return texts


def text(one: Any) -> dict[str, Any]:
    """A text as JSON."""
    logprobs = [{token: [entry.logprob, entry.rank] for token, entry in position.items()} for position in one.logprobs or []]
    return {"text": one.text, "tokens": list(one.token_ids), "finish_reason": one.finish_reason, "stop_reason": one.stop_reason, "logprobs": logprobs}


def record(trace: list[list[Any]]) -> None:
    """Notes of every row what it was and what was drawn from it."""
    from onedraw.vllm import draws

    draw = draws.draw

    def noted(requests: Any, turns: Any, logits: Any) -> Any:
        drawn = draw(requests, turns, logits)
        for turn, (tokens, _) in zip(turns, drawn, strict=True):
            for place, one in enumerate(tokens):
                row = logits[turn.row + place].contiguous().view(dtype=__import__("torch").uint8).numpy().tobytes()
                trace.append([one.seed, one.position, hashlib.blake2b(row, digest_size=8).hexdigest(), one.token])
        return drawn

    draws.draw = noted


def offer_triton() -> None:
    """Runner V2 needs Triton, whose interpreter runs on the CPU; vLLM asks whether it has a backend for that."""
    os.environ.update(TRITON_INTERPRET="1", VLLM_USE_V2_MODEL_RUNNER="1")
    from triton.backends import backends

    backends["cpu"] = type("Backend", (), {"driver": type("Driver", (), {"is_active": staticmethod(lambda: False)})})


if __name__ == "__main__":
    main()
