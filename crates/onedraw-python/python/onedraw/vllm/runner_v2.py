"""vLLM's second runner (V2): gives it our sampler through the method by which a model may bring its own."""

from __future__ import annotations

from typing import Any

from vllm.logger import init_logger

from .settings import settings_of
from .versions import check

logger = init_logger(__name__)


def custom_sampler(state: Any, custom: Any, sampler: Any) -> Any:
    """Our sampler and its function for guesses, in the place of vLLM's `sampler`. `custom` is what the state of the model
    has chosen itself."""
    # It calls this function, and is there by now.
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner

    vllm_config = state.vllm_config
    settings = settings_of(vllm_config)
    if custom is not None:
        raise RuntimeError("this model brings its own sampler, which onedraw cannot replace; leave `sampler` off")
    check(type(sampler).__call__, ("self", "logits", "input_batch"))
    check(type(sampler).add_request, ("self", "req_idx", "sampling_params"))
    check(GPUModelRunner.finish_requests, ("self", "scheduler_output"))
    refuse(vllm_config)
    if settings.shards:
        logger.warning("onedraw: the logits are gathered, although `shards` is on: runner V2 gathers them")
    ours = _sampler(sampler, vllm_config, settings.threads)
    return ours, ours.verify


def finished(runner: Any, returned: Any, scheduler_output: Any) -> Any:
    """Tells our sampler which requests have ended. vLLM takes preempted ones away by the same method."""
    # Only the last stage of a pipeline has a sampler, and a trial run has another one.
    if hasattr(runner.sampler, "forget"):
        runner.sampler.forget(scheduler_output.finished_req_ids)
    return returned


def refuse(vllm_config: Any) -> None:
    """An error if the engine has an option that our samplers do not carry out."""
    speculation = vllm_config.speculative_config
    if speculation is not None and speculation.enable_adaptive_verification:
        raise RuntimeError("onedraw verifies every guess; leave `enable_adaptive_verification` or `sampler` off")
    if vllm_config.parallel_config.enable_batch_sharded_sampling:
        raise RuntimeError("onedraw draws all rows on every rank; leave `enable_batch_sharded_sampling` or `sampler` off")


def _sampler(sampler: Any, vllm_config: Any, threads: int) -> Any:
    """Our sampler for the device that the runner works on."""
    # Only now, because a device needs the one, and the CPU the other.
    if sampler.req_states.device.type == "cuda":
        from .sampler_v2_device import DeviceSampler

        return DeviceSampler(sampler, vllm_config)
    from .sampler_v2_host import HostSampler

    return HostSampler(sampler, vllm_config, threads)
