"""vLLM's second runner (V2): gives it our sampler by the door that it has for that."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from vllm.logger import init_logger

from .settings import settings_of
from .versions import check

logger = init_logger(__name__)


def install(module: ModuleType) -> None:
    """Lets the state of a model choose our sampler where the engine asks for it."""
    state: Any = module.ModelState
    original = state.custom_sampler

    @functools.wraps(original)
    def custom_sampler(self: Any, sampler: Any) -> Any:
        custom = original(self, sampler)
        settings = settings_of(self.vllm_config)
        if not settings.sampler:
            return custom
        if custom is not None:
            raise RuntimeError("this model brings its own sampler, which onedraw cannot replace; leave `sampler` off")
        check(type(sampler).__call__, ("self", "logits", "input_batch"))
        check(type(sampler).add_request, ("self", "req_idx", "sampling_params"))
        speculation, parallel = self.vllm_config.speculative_config, self.vllm_config.parallel_config
        if speculation is not None and speculation.enable_adaptive_verification:
            raise RuntimeError("onedraw verifies every guess; leave `enable_adaptive_verification` or `sampler` off")
        if parallel.enable_batch_sharded_sampling:
            raise RuntimeError("onedraw draws all rows on every rank; leave `enable_batch_sharded_sampling` or `sampler` off")
        if settings.shards:
            logger.warning("onedraw: the logits are gathered, although `shards` is on: runner V2 gathers them")
        ours = _sampler(sampler, self.vllm_config, settings.threads)
        return ours, ours.verify

    state.custom_sampler = custom_sampler


def _sampler(sampler: Any, vllm_config: Any, threads: int) -> Any:
    """Our sampler for the device that the runner works on."""
    # Only now, because these import what imports this module of vLLM.
    if sampler.req_states.device.type == "cuda":
        from .sampler_v2_device import DeviceSampler

        return DeviceSampler(sampler, vllm_config)
    from .sampler_v2_host import HostSampler

    return HostSampler(sampler, vllm_config, threads)
