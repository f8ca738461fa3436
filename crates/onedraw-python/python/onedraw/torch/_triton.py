"""The passes as Triton kernels, for CUDA devices."""

from __future__ import annotations

import contextlib
import os

import torch

from . import _kernels
from ._asked import BESIDE, NO_PROBLEM, Asked, Borders, Ids, Known

GATHERED: int = 256
"""Ids that the forward pass reads at a time."""
FILLED: int = 4096
"""Zeros that are written at a time, and the most ids that a program holds in registers."""
READ: int = 512
"""Logits that are read at a time with summaries."""
# Sizes and warps are the fastest of some on an H200: bench/results/2026-11-18-kept-logprobs.md.


def runs(logits: torch.Tensor) -> bool:
    """Whether the kernels run where these logits are. Triton's interpreter, which tests use, runs them anywhere."""
    return logits.is_cuda or (logits.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1")


def forward(logits: torch.Tensor, asked: Asked) -> tuple[torch.Tensor, Known, int]:
    """As `_chunks.forward`, but in the arithmetic of the kernels, and logarithms of masses are to the base 2."""
    rows, vocabulary = logits.shape
    wide = torch.float64 if logits.dtype == torch.float64 else torch.float32
    logprobs, entropies, peaks, log_masses = (torch.empty(rows, dtype=wide, device=logits.device) for _ in range(4))
    sets = asked.sets
    if not rows:
        return logprobs, Known(entropies, peaks, log_masses, sets), NO_PROBLEM
    report = torch.full((1,), NO_PROBLEM, dtype=torch.int64, device=logits.device)
    rest = (asked.temperatures, logprobs, entropies, peaks, log_masses, report)
    values: torch.Tensor | None = None
    with _on(logits):
        read = (logits, *logits.stride(), vocabulary, asked.tokens)
        if isinstance(sets, Borders) and sets.offsets is not None:
            ids = Ids(torch.empty(sets.total, dtype=torch.int32, device=logits.device), sets.offsets, 4 * sets.total)
            _kernels.list_ids[(rows,)](*read, report, sets.counts, sets.last_tokens, sets.last_logits, ids.token_ids, ids.offsets, BLOCK=READ, num_warps=1)
            sets = ids
        if isinstance(sets, Ids):
            total = len(sets.token_ids)
            if logits.requires_grad and sets.taken + total * logits.element_size() <= BESIDE * logits.element_size() * rows * vocabulary:
                values = torch.empty(total, dtype=logits.dtype, device=logits.device)
            places = (sets.token_ids, sets.offsets, logits if values is None else values, total, rows)
            _kernels.forward_ids[(rows,)](*read, *rest, *places, VALUES=values is not None, ENTROPY=asked.entropy, BLOCK=GATHERED, num_warps=1)
        else:
            _kernels.forward_borders[(rows,)](*read, *rest, sets.counts, sets.last_tokens, sets.last_logits, ENTROPY=asked.entropy, BLOCK=READ, num_warps=1)
    number = int(report)
    return logprobs, Known(entropies, peaks, log_masses, sets, values), number if number > 0 else number + NO_PROBLEM


def backward(gradient: torch.Tensor, logits: torch.Tensor, asked: Asked, known: Known, logprobs: torch.Tensor, entropies: torch.Tensor | None) -> None:
    """As `_chunks.backward`."""
    rows, vocabulary = logits.shape
    if not rows:
        return
    logprobs = logprobs.contiguous()
    slopes = (logprobs, logprobs if entropies is None else entropies.contiguous())
    common = (gradient, *gradient.stride(), logits, *logits.stride(), vocabulary, asked.tokens, asked.temperatures)
    common += (known.entropies, known.peaks, known.log_masses, *slopes)
    sets, entropy = known.sets, entropies is not None
    with _on(logits):
        if isinstance(sets, Ids):
            places = (sets.token_ids, sets.offsets, logits if known.values is None else known.values)
            _kernels.backward_ids[(rows,)](*common, *places, VALUES=known.values is not None, ENTROPY=entropy, BLOCK=FILLED, num_warps=8)
        else:
            _kernels.backward_borders[(rows,)](*common, sets.last_tokens, sets.last_logits, ENTROPY=entropy, BLOCK=READ, num_warps=1)


def _on(logits: torch.Tensor) -> contextlib.AbstractContextManager[object]:
    """Triton launches on the current device."""
    return torch.cuda.device(logits.device) if logits.is_cuda else contextlib.nullcontext()
