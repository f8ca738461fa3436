"""What a transformers model has read, with its cache, and the logits after it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch


class Memory:
    """The tokens that a model has read, one row per text, and its cache, if it has one."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows: list[list[int]] = []
        self.cache: Any = None
        # Many models can leave out the logits of a prompt, which are large and not needed.
        self.can_keep = "logits_to_keep" in inspect.signature(model.forward).parameters

    def logits(self, texts: Sequence[list[int]], count: int = 1) -> torch.Tensor:
        """The logits after each of the last `count` tokens of texts of one length, [texts, count, V]. Only
        new tokens are read."""
        known = min((common(row, text) for row, text in zip(self.rows, texts, strict=True)), default=0) if self.rows else 0
        self._cut(min(known, len(texts[0]) - count))
        begin = len(self.rows[0]) if self.cache is not None else 0
        new = torch.tensor([text[begin:] for text in texts], device=self.model.device)
        output = self.model(new, past_key_values=self.cache, use_cache=True, **({"logits_to_keep": count} if self.can_keep else {}))
        self.rows, self.cache = [list(text) for text in texts], getattr(output, "past_key_values", None)
        return on_cpu(output.logits[:, -count:])

    def follow(self, rows: Sequence[int]) -> None:
        """Continues with these rows; a row may be continued several times."""
        self.rows = [self.rows[row] for row in rows]
        self._change(lambda cache: cache.reorder_cache(torch.tensor(rows, device=self.model.device)))

    def _cut(self, length: int) -> None:
        if self.rows and length < len(self.rows[0]):
            surplus = len(self.rows[0]) - length
            self.rows = [row[:length] for row in self.rows]
            self._change(lambda cache: cache.crop(-surplus), is_possible=getattr(self.cache, "is_croppable", True) and length > 0)

    def _change(self, change: Callable[[Any], object], is_possible: bool = True) -> None:
        """Changes the cache. A cache that cannot be changed in this way, such as a sliding window or a
        recurrent state, is forgotten, and the text is read again."""
        try:
            if self.cache is not None and is_possible:
                change(self.cache)
                return
        except (AttributeError, NotImplementedError, RuntimeError, ValueError):
            pass
        self.cache = None


def common(first: list[int], second: list[int]) -> int:
    """The length of the common beginning of two texts."""
    if second[: len(first)] == first:
        return len(first)
    return next((place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), min(len(first), len(second)))


def on_cpu(logits: torch.Tensor) -> torch.Tensor:
    """Logits on the CPU, in the type of the model if onedraw reads that type."""
    is_read = logits.dtype in (torch.float32, torch.float16, torch.bfloat16)
    return (logits if is_read else logits.float()).detach().cpu()
