"""Writes texts with vLLM: a job as JSON on standard input, the texts as JSON in the file that is its argument."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import watching

MODEL = str(Path(__file__).parents[4] / "models/stories")


def main() -> None:
    job = json.load(sys.stdin)
    if job["runner"] == 2:
        os.environ.update(TRITON_INTERPRET="1", VLLM_USE_V2_MODEL_RUNNER="1")
        offer_triton()
    if job["emulated"]:
        draw_on_device()
    from vllm import LLM

    # Requests that stop early make room for others, which is what a server sees.
    settings = {"model": MODEL, "dtype": "float32", "enforce_eager": True, "max_model_len": 256, "block_size": 32, "disable_log_stats": False, **job["engine"]}
    try:
        llm = LLM(**settings)
    except (RuntimeError, ValueError) as error:
        Path(sys.argv[1]).write_text(json.dumps({"refused": str(error)}))
        raise
    written: dict[str, Any] = {"runs": [run(llm, requests) for requests in job["runs"]]}
    written["metrics"] = {metric.name: metric.value for metric in llm.get_metrics() if hasattr(metric, "value")}
    if "distributed_executor_backend" in job["engine"]:
        runner = llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
        written["classes"] = names(runner)
        written["sampler"] = names(getattr(runner, "sampler", None))
    Path(sys.argv[1]).write_text(json.dumps(written))
    # Nothing is left to do, and vLLM's threads take seconds to end.
    sys.stdout.flush()
    os._exit(0)


def names(one: Any) -> list[str]:
    """The classes of an object."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(one).__mro__]


def run(llm: Any, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The texts of requests that arrive together."""
    from vllm import SamplingParams
    from vllm.exceptions import VLLMClientError
    from vllm.sampling_params import RepetitionDetectionParams, StructuredOutputsParams
    from vllm.v1.engine.exceptions import EngineDeadError

    params = []
    for request in requests:
        given = dict(request["params"])
        if "structured_outputs" in given:
            given["structured_outputs"] = StructuredOutputsParams(json=given["structured_outputs"])
        if "repetition_detection" in given:
            given["repetition_detection"] = RepetitionDetectionParams(**given["repetition_detection"])
        if "logit_bias" in given:
            given["logit_bias"] = {int(token): bias for token, bias in given["logit_bias"].items()}
        params.append(SamplingParams(**given))
    texts = []
    try:
        for output in llm.generate([request["prompt"] for request in requests], params, use_tqdm=False):
            prompt = listed(output.prompt_logprobs)
            texts += [{**text(one), **({"prompt_logprobs": prompt} if prompt else {})} for one in output.outputs]
    except (VLLMClientError, EngineDeadError) as error:
        return [{"error": str(error)}]
    return texts


def text(one: Any) -> dict[str, Any]:
    """A text as JSON, with the sets that it was drawn from if the engine reports them: in our layout and back in
    vLLM's."""
    from onedraw.kept import KeptSets

    mask = {} if one.sampling_mask is None else {"sampling_mask": KeptSets.from_vllm(one.sampling_mask).to_vllm().token_ids}
    return {"text": one.text, "tokens": list(one.token_ids), "finish_reason": one.finish_reason, "stop_reason": one.stop_reason, "logprobs": listed(one.logprobs), **mask}


def listed(logprobs: Any) -> list[dict[int, list[float]]]:
    """The value and the rank of each token that is listed at a position. There is none at the first one of a prompt."""
    return [{token: [entry.logprob, entry.rank] for token, entry in (position or {}).items()} for position in logprobs or []]


def draw_on_device() -> None:
    """Draws with the kernels for CUDA: the driver of this process is one that runs them on the CPU."""
    from onedraw.vllm import runner_v2

    def sampler(original: Any, vllm_config: Any, threads: int) -> Any:
        from onedraw.vllm.sampler_v2_device import DeviceSampler

        class Emulated(DeviceSampler):
            def _stream(self) -> int:
                return 0

        ours = Emulated(original, vllm_config)
        full = json.loads(os.environ[watching.VARIABLE]).get("full")
        if full is not None:
            ours._requests = Full(ours._requests, full)
        return ours

    runner_v2._sampler = sampler


class Full:
    """Requests on a device that has no memory for the one with a seed."""

    def __init__(self, requests: Any, seed: int) -> None:
        self._requests, self._seed = requests, seed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._requests, name)

    def add(self, slot: int, name: str, params: Any, *others: Any, **named: Any) -> None:
        from onedraw import CudaError

        if params.seed == self._seed:
            raise CudaError("out of memory")
        self._requests.add(slot, name, params, *others, **named)


def offer_triton() -> None:
    """Runner V2 needs Triton, whose interpreter runs on the CPU; vLLM asks whether it has a backend for that."""
    from triton.backends import backends

    backends["cpu"] = type("Backend", (), {"driver": type("Driver", (), {"is_active": staticmethod(lambda: False)})})


# The processes of an engine import this module, too, with the environment that the first one has set.
if os.environ.get("TRITON_INTERPRET") == "1":
    offer_triton()
watching.begin()
if __name__ == "__main__":
    main()
