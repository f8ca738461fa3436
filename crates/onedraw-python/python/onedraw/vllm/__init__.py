"""onedraw as vLLM's sampler: one seed gives one text, alone or in a crowd.

With this package installed, `additional_config={"onedraw": {"sampler": True}}` of an engine, or the environment
variable `ONEDRAW_VLLM='{"sampler": true}'`, lets onedraw draw every token. Without either, vLLM is left as it is.

>>> from vllm import LLM, SamplingParams  # doctest: +SKIP
>>> llm = LLM("gpt2", additional_config={"onedraw": {"sampler": True}})  # doctest: +SKIP
>>> warm = SamplingParams(temperature=0.8, seed=7, extra_args={"onedraw": {"top_n_sigma": 1.5}})  # doctest: +SKIP
>>> llm.generate("Once upon a time", warm)[0].outputs[0].text  # doctest: +SKIP

vLLM's parameters mean what they mean there; those that only onedraw has are given in `extra_args["onedraw"]`, as a
dict or, over HTTP (`vllm_xargs`), as JSON in a string. A value that cannot be used is an error of its request. A
request without a seed gets one from the seed of the engine and the id of the request.

vLLM finds this package by itself: `register` is an entry point of its group `vllm.general_plugins`.
"""

from .hooks import extends, replaces, when_imported

__all__ = ["register"]

# Where each part of vLLM is loaded, and what is done there. A process loads only what it needs.
_PARTS = {
    "vllm.v1.engine.input_processor": extends("InputProcessor", "frontend:Checked"),
    "vllm.v1.core.sched.scheduler": extends("Scheduler", "scheduler:Ending"),
    "vllm.v1.worker.gpu_model_runner": extends("GPUModelRunner", "runner_v1:Drawing"),
    "vllm.v1.worker.gpu.model_runner": replaces("GPUModelRunner", "finish_requests", "runner_v2:finished"),
    "vllm.v1.worker.gpu.model_states.interface": replaces("ModelState", "custom_sampler", "runner_v2:custom_sampler"),
}


def register() -> None:
    """Prepares vLLM in this process. vLLM calls it in each of its processes."""
    for module, install in _PARTS.items():
        when_imported(module, install)
