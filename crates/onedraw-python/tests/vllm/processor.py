"""A processor of logits as a user of vLLM writes one: it leaves a single token."""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor


class Only(LogitsProcessor):
    """Leaves the token 300."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        pass

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        pass

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        kept = logits[:, 300].clone()
        logits.fill_(float("-inf"))
        logits[:, 300] = kept
        return logits
