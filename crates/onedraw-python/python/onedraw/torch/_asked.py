"""What a call of `kept_logprobs` asks for, read once, and what can be wrong with a row.

The passes over the logits (`_chunks`, `_triton`) see only an `Asked`. They report the first row that is wrong as one
number, so that a device needs a single synchronisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from ..kept import KeptSets

IGNORED: int = -100
"""The token of a row that is not trained on; the number that PyTorch's losses and Hugging Face's trainers use."""

SPAN: int = 16
"""A problem is reported as row * SPAN + Problem; SPAN is above every `Problem`."""

NO_PROBLEM: int = 1 << 62
"""Reported if every row is right. Above every report."""


class Problem(IntEnum):
    """What can be wrong with a row. Of several problems of a row, the smallest is reported."""

    OFFSETS = 1
    NO_PREFIX = 2
    EMPTY = 3
    OUTSIDE = 4
    ORDER = 5
    TEMPERATURE = 6
    TOKEN_OUTSIDE = 7
    NAN = 8
    BORDER = 9
    COUNT = 10
    INFINITE = 11
    NOT_KEPT = 12
    TOKEN_LOGIT = 13


@dataclass(frozen=True)
class Ids:
    """Kept sets as lists of ids: row r has `token_ids[offsets[r]:offsets[r + 1]]`, in ascending order."""

    token_ids: torch.Tensor
    offsets: torch.Tensor
    taken: int
    """The bytes that the call took for the ids; 0 if they were on the device."""


@dataclass(frozen=True)
class Borders:
    """Kept sets as prefixes of the order: row r has the `counts[r]` tokens up to `last_tokens[r]`."""

    counts: torch.Tensor
    last_tokens: torch.Tensor
    last_logits: torch.Tensor
    offsets: torch.Tensor | None
    """Where the ids of each row go, where they are few enough to be written down."""
    total: int
    """How many ids there are."""


@dataclass(frozen=True)
class Asked:
    """The arguments of a call, checked as far as the values of tensors are not needed for it."""

    tokens: torch.Tensor
    temperatures: torch.Tensor
    """One for each row, float64."""
    sets: Ids | Borders
    entropy: bool
    chunk: int
    """Rows that are worked on at a time where memory depends on it."""


@dataclass(frozen=True)
class Known:
    """What the backward pass needs to know of the rows."""

    entropies: torch.Tensor
    """Only right where they were asked for."""
    peaks: torch.Tensor
    """The highest kept logits."""
    log_masses: torch.Tensor
    """The logarithms of the sums of exp((logit - peak) / temperature) over the kept tokens."""
    sets: Ids | Borders
    """The kept sets, in the form that is read."""
    values: torch.Tensor | None = None
    """The kept logits in the order of the ids, where they were written down."""


FEW: int = 128
"""Summaries that keep at most one token in so many are turned into ids on a device, which the backward pass then reads
in place of the logits. Of bfloat16 logits they are at most 1.6 % in memory."""

BESIDE: float = 0.04
"""The most that ids and kept logits may take on a device, of the memory of the logits. Up to this, the forward pass writes
down the kept logits for the backward pass, which then need not be gathered again."""

CHUNK: int = 1 << 20
"""Logits that are worked on at a time by default: 8 MiB as float64, about the size of a CPU's caches, and enough that
the calls themselves cost little."""


def read(logits: Any, tokens: Any, kept: Any, temperature: Any, *, entropy: bool, inplace: bool, chunk: int | None) -> Asked:
    """Checks the arguments of `kept_logprobs` and brings them to the device of the logits."""
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"logits: a tensor of PyTorch, not an object of the type {type(logits).__name__}")
    if logits.dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise TypeError(f"logits: float32, bfloat16, float16 or float64, not {logits.dtype}")
    if logits.layout != torch.strided:
        raise TypeError(f"logits: a dense tensor, not one of the layout {logits.layout}")
    if logits.device.type not in ("cpu", "cuda"):
        raise ValueError(f"logits: on the CPU or a CUDA device, not on {logits.device.type}")
    if logits.dim() != 2:
        raise ValueError(f"logits: [tokens, vocabulary], not {logits.dim()} dimensions; logits.flatten(0, -2) joins those before the last")
    rows, vocabulary = logits.shape
    if inplace and any(stride == 0 and size > 1 for stride, size in zip(logits.stride(), logits.shape, strict=True)):
        raise ValueError("inplace: rows of these logits share memory (they were expanded), so the gradient does not fit there")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk: at least 1 row, not {chunk}")
    drawn = _integers("tokens", tokens, logits.device)
    if len(drawn) != rows:
        raise ValueError(f"tokens: {len(drawn)} for {rows} rows of logits")
    temperatures = _temperatures(temperature, rows, logits.device)
    return Asked(drawn, temperatures, _sets(kept, rows, vocabulary, logits.device), entropy, chunk or max(1, CHUNK // max(vocabulary, 1)))


def _sets(kept: Any, rows: int, vocabulary: int, device: torch.device) -> Ids | Borders:
    if isinstance(kept, KeptSets):
        if kept.token_ids is None or kept.offsets is None:
            if len(kept) != rows:
                raise ValueError(f"kept: {len(kept)} sets for {rows} rows of logits")
            # One copy for all, which does not wait for what the device does before.
            joined = torch.from_numpy(np.stack([kept.counts, kept.last_tokens, kept.last_logits.view(np.int32)]))
            counts, last_tokens, last_logits = (joined.pin_memory() if device.type == "cuda" else joined).to(device, non_blocking=True)
            total = int(kept.counts.sum(dtype=np.int64))
            offsets = None
            if total * FEW <= rows * vocabulary:
                offsets = torch.zeros(rows + 1, dtype=torch.int64, device=device)
                torch.cumsum(counts, 0, out=offsets[1:])
            return Borders(counts, last_tokens, last_logits.view(torch.float32), offsets, total)
        kept = (kept.token_ids, kept.offsets)
    if not isinstance(kept, (tuple, list)) or len(kept) != 2:
        raise TypeError(f"kept: KeptSets or a pair of token_ids and offsets, not an object of the type {type(kept).__name__}")
    token_ids, offsets = _integers("kept.token_ids", kept[0], device), _integers("kept.offsets", kept[1], device)
    if len(offsets) != rows + 1:
        raise ValueError(f"kept.offsets: {len(offsets)} for {rows} rows of logits; there is one more than rows")
    is_given = isinstance(kept[0], torch.Tensor) and kept[0].data_ptr() == token_ids.data_ptr()
    return Ids(token_ids, offsets, 0 if is_given else token_ids.nbytes)


def _tensor(value: Any, device: torch.device) -> torch.Tensor:
    if isinstance(value, np.ndarray) and not value.flags.writeable:
        value = value.copy()  # PyTorch warns of arrays that it could write to and must not.
    return torch.as_tensor(value, device=device).detach()


def _integers(name: str, value: Any, device: torch.device) -> torch.Tensor:
    """A list of integers as a contiguous tensor of int32 or int64."""
    tensor = _tensor(value, device)
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"{name}: integers, not {tensor.dtype}")
    if tensor.dim() != 1:
        raise ValueError(f"{name}: one dimension, not {tensor.dim()}")
    return (tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.long()).contiguous()


def _temperatures(value: Any, rows: int, device: torch.device) -> torch.Tensor:
    if isinstance(value, torch.Tensor) and value.requires_grad:
        raise ValueError("temperature: there is no gradient with respect to it; give it detached")
    if isinstance(value, (int, float)):
        if not 0 < value < math.inf:
            raise ValueError(f"temperature: {_TEMPERATURE}, not {value}")
        return torch.full((rows,), value, dtype=torch.float64, device=device)
    tensor = _tensor(value, device)
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise TypeError(f"temperature: a number or one for each row, not {tensor.dtype}")
    if tensor.dim() == 0:
        return tensor.to(torch.float64).expand(rows).contiguous()
    if tensor.shape != (rows,):
        raise ValueError(f"temperature: a number or one for each of the {rows} rows, not {list(tensor.shape)}")
    return tensor.to(torch.float64).contiguous()


_TEMPERATURE = "finite and above 0 (a greedy row keeps one token, whose logprob is 0 at any temperature)"
_SAME_BITS = "a summary needs the logits that were drawn from, with the same bits; where they may differ, keep ids"


def error(report: int, logits: torch.Tensor, asked: Asked) -> ValueError:
    """The words for a row that is wrong."""
    row, problem = report // SPAN, Problem(report % SPAN)
    vocabulary, sets = logits.shape[1], asked.sets
    token, temperature = int(asked.tokens[row]), float(asked.temperatures[row])
    if problem == Problem.TEMPERATURE:
        return ValueError(f"temperature: {_TEMPERATURE}, not {temperature} as in row {row}")
    if problem == Problem.TOKEN_OUTSIDE:
        return ValueError(f"tokens: token {token} of row {row} is outside the vocabulary of {vocabulary}")
    if problem == Problem.NAN:
        return ValueError(f"logits: row {row} has NaN" + (" among its kept tokens" if isinstance(sets, Ids) else ""))
    if problem == Problem.INFINITE:
        return ValueError(f"logits: row {row} has +inf among its kept tokens")
    if problem == Problem.TOKEN_LOGIT:
        return ValueError(f"logits: token {token} of row {row} was drawn, and its logit is -inf")
    if problem == Problem.NOT_KEPT:
        return ValueError(f"tokens: token {token} of row {row} is not in the row's kept set, so it cannot have been drawn from it")
    if isinstance(sets, Ids):
        begin, end = int(sets.offsets[row]), int(sets.offsets[row + 1])
        if problem == Problem.OFFSETS:
            total = len(sets.token_ids)
            return ValueError(f"kept.offsets: {begin} and {end} at row {row}; they begin with 0, never fall, and end with the number of token_ids, {total}")
        if problem == Problem.EMPTY:
            return ValueError(f"kept: row {row} has no tokens; the token of a row that is not trained on is {IGNORED}")
        ids = sets.token_ids[begin:end]
        if problem == Problem.OUTSIDE:
            outside = int(ids[(ids < 0) | (ids >= vocabulary)][0])
            return ValueError(f"kept.token_ids: {outside} of row {row} is outside the vocabulary of {vocabulary}")
        at = int((ids[1:] <= ids[:-1]).nonzero()[0])
        return ValueError(f"kept.token_ids: {int(ids[at])} comes before {int(ids[at + 1])} in row {row}; the ids of a row ascend")
    last, count = int(sets.last_tokens[row]), int(sets.counts[row])
    if problem == Problem.NO_PREFIX:
        return ValueError(f"kept: row {row} has no summary, because its chain keeps no prefix of the order; keep ids")
    if problem == Problem.EMPTY:
        return ValueError(f"kept: row {row} has no tokens; the token of a row that is not trained on is {IGNORED}")
    if problem == Problem.OUTSIDE:
        return ValueError(f"kept.last_tokens: {last} of row {row} is outside the vocabulary of {vocabulary}")
    if problem == Problem.BORDER:
        was, found = float(sets.last_logits[row]), float(logits[row, last])
        return ValueError(f"kept: row {row} is another one: the logit of token {last} is {found!r} here and was {was!r}; {_SAME_BITS}")
    return ValueError(f"kept: row {row} is another one: not {count} tokens are up to token {last}; {_SAME_BITS}")
