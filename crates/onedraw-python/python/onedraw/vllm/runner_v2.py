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
    vllm_config = state.vllm_config
    settings = settings_of(vllm_config)
    if custom is not None:
        raise RuntimeError("this model brings its own sampler, which onedraw cannot replace; leave `sampler` off")
    check(type(sampler).__call__, ("self", "logits", "input_batch"))
    check(type(sampler).add_request, ("self", "req_idx", "sampling_params"))
    refuse(vllm_config)
    if settings.shards:
        logger.warning("onedraw: the logits are gathered, although `shards` is on: runner V2 gathers them")
    ours = _sampler(sampler, vllm_config, settings.threads)
    return ours, ours.verify


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
