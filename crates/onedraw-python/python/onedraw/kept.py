"""The kept sets of many rows in a few arrays, as trainers, vLLM and SGLang exchange them.

A draw's kept set holds the tokens that its chain left to be drawn. A trainer that normalises over the same tokens
gets the probabilities that the sampler had. The parameter `kept` lets each result carry its set; `KeptSets.of` joins
those of many results:

>>> import onedraw
>>> from onedraw.kept import KeptSets
>>> params = onedraw.SamplingParams(top_p=0.9, seed=42, kept="ids")
>>> sets = KeptSets.of(onedraw.sample(row, params) for row in ([1.5, 0.2, 3.1, -4.0], [0.0, 9.0, 0.0, 0.0]))
>>> sets
KeptSets(2 rows, 3 ids)
>>> sets.token_ids.tolist(), sets.offsets.tolist(), sets.ids(0).tolist()
([0, 2, 1], [0, 2, 3], [0, 2])
>>> KeptSets.from_sglang(sets.to_sglang()).ids(1).tolist()
[1]

The converters are written for vLLM 0.32 (`SamplingMask`, vLLM pull request 49577) and for SGLang 0.5.18
(`output_token_sampling_mask`, SGLang pull requests 27408 and 33593). This module imports neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from ._onedraw import Kept, Sampled

__all__ = ["KeptSets"]

SGLANG_MASK = "output_token_sampling_mask"
"""Where SGLang's `meta_info` has the sets of a request, one list of ids for each output token."""

_KINDS: dict[str, type[np.int32] | type[np.int64] | type[np.float32] | type[np.float64]] = {
    "token_ids": np.int32,
    "offsets": np.int64,
    "counts": np.int32,
    "last_tokens": np.int32,
    "last_logits": np.float32,
    "ln_masses": np.float64,
}
_NO_PREFIX = -1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KeptSets:
    """The kept sets of many rows: their ids one row after the other, their summaries, or both.

    Arrays of another type are converted. A ValueError names the field that cannot be right."""

    token_ids: NDArray[np.int32] | None
    """The ids of all rows, ascending in each row. None if only summaries are known."""
    offsets: NDArray[np.int64] | None
    """Where each row begins in `token_ids`, and finally where the last one ends. None if there are no ids."""
    counts: NDArray[np.int32]
    """How many tokens each row keeps, at least one."""
    last_tokens: NDArray[np.int32]
    """The last kept token of each row in the order. -1 if the set is no prefix of the order, or if it is not known."""
    last_logits: NDArray[np.float32]
    """The logits of these tokens, after all edits. NaN where there is none."""
    ln_masses: NDArray[np.float64]
    """The logarithm of each row's kept mass, see `Kept.ln_mass`. NaN if it is not known."""

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not None or name not in ("token_ids", "offsets"):
                object.__setattr__(self, name, _array(name, value, kind))
        self._check_offsets()
        self._check_summaries()
        self._check_ids()

    @classmethod
    def of(cls, results: Iterable[Sampled | Kept]) -> KeptSets:
        """The sets of results, one row each. They have ids where all results have them, and none where none has.

        ValueError if a result has no kept set, or if some have ids and others do not."""
        kept: list[Kept] = []
        for row, result in enumerate(results):
            one: Any = getattr(result, "kept", result)
            if one is None:
                raise ValueError(f'results: row {row} has no kept set; draw with kept="summary" or kept="ids"')
            kept.append(one)
        ids = [one.ids for one in kept]
        lacking = [row for row, one in enumerate(ids) if one is None]
        if 0 < len(lacking) < len(kept):
            raise ValueError(f"results: row {lacking[0]} has no ids, and others have")
        has_ids = not lacking
        return cls(
            token_ids=_joined(ids, np.int32) if has_ids else None,
            offsets=_offsets([one.count for one in kept]) if has_ids else None,
            counts=np.array([one.count for one in kept], np.int32),
            last_tokens=np.array([_NO_PREFIX if one.last_token is None else one.last_token for one in kept], np.int32),
            last_logits=np.array([np.nan if one.last_logit is None else one.last_logit for one in kept], np.float32),
            ln_masses=np.array([one.ln_mass for one in kept], np.float64),
        )

    @classmethod
    def from_ids(cls, token_ids: ArrayLike, offsets: ArrayLike) -> KeptSets:
        """Sets of which nothing but the ids is known."""
        ends = _array("offsets", offsets, np.int64)
        rows = max(len(ends) - 1, 0)
        return cls(
            token_ids=_array("token_ids", token_ids, np.int32),
            offsets=ends,
            counts=np.diff(ends),
            last_tokens=np.full(rows, _NO_PREFIX, np.int32),
            last_logits=np.full(rows, np.nan, np.float32),
            ln_masses=np.full(rows, np.nan),
        )

    @classmethod
    def concatenate(cls, parts: Iterable[KeptSets]) -> KeptSets:
        """The rows of several in one, such as those of all requests of a training step.

        ValueError if there are no parts, or if some have ids and others do not."""
        given = list(parts)
        if not given:
            raise ValueError("parts: nothing to concatenate")
        # A part without rows fits all others.
        used = [part for part in given if len(part)] or given[:1]
        has_ids = used[0].token_ids is not None
        if any((part.token_ids is not None) != has_ids for part in used):
            raise ValueError("token_ids: some parts have ids, and others do not")
        joined = {name: _joined([getattr(part, name) for part in used], _KINDS[name]) for name in ("counts", "last_tokens", "last_logits", "ln_masses")}
        ids = _joined([part.token_ids for part in used], np.int32) if has_ids else None
        return cls(token_ids=ids, offsets=_offsets(joined["counts"]) if has_ids else None, **joined)

    def select(self, rows: slice | Sequence[int] | NDArray[Any]) -> KeptSets:
        """Some of the rows, in the given order: a slice, the numbers of rows, or a boolean for each row.

        IndexError if there is no such row."""
        # A list of none would be read as an array of floats.
        places = np.arange(len(self))[rows if isinstance(rows, slice) or len(rows) else slice(0)]
        counts, ids, offsets = self.counts[places], None, None
        if self.token_ids is not None and self.offsets is not None:
            offsets = _offsets(counts)
            ids = self.token_ids[np.repeat(self.offsets[places] - offsets[:-1], counts) + np.arange(offsets[-1])]
        return KeptSets(
            token_ids=ids,
            offsets=offsets,
            counts=counts,
            last_tokens=self.last_tokens[places],
            last_logits=self.last_logits[places],
            ln_masses=self.ln_masses[places],
        )

    def ids(self, row: int) -> NDArray[np.int32]:
        """The ids of a row, ascending, without a copy. ValueError if the ids are not known."""
        token_ids, offsets = self._with_ids()
        place = range(len(self))[row]
        return token_ids[offsets[place] : offsets[place + 1]]

    def to_vllm(self) -> Any:
        """The sets as vLLM's `CompletionOutput.sampling_mask`. Needs vLLM. ValueError if the ids are not known."""
        outputs: Any = import_module("vllm.outputs")
        return outputs.SamplingMask(self.to_sglang())

    @classmethod
    def from_vllm(cls, mask: Any) -> KeptSets:
        """Reads vLLM's `CompletionOutput.sampling_mask`, or the lists of ids that its server sends in its place."""
        return cls._from_lists(getattr(mask, "token_ids", mask))

    def to_sglang(self) -> list[list[int]]:
        """The sets as in SGLang's `meta_info["output_token_sampling_mask"]`: one list of ids for each row, here
        ascending. ValueError if the ids are not known."""
        token_ids, offsets = self._with_ids()
        ids, bounds = token_ids.tolist(), offsets.tolist()
        return [ids[begin:end] for begin, end in zip(bounds, bounds[1:], strict=False)]

    @classmethod
    def from_sglang(cls, masks: Mapping[str, Any] | Sequence[Sequence[int] | None]) -> KeptSets:
        """Reads SGLang's `meta_info` of a request, or its `output_token_sampling_mask`. SGLang lists the most likely
        tokens first; here they are sorted.

        ValueError if a token has no mask."""
        rows = masks.get(SGLANG_MASK) if isinstance(masks, Mapping) else masks
        if rows is None:
            raise ValueError(f"{SGLANG_MASK}: is not in this meta_info; ask with return_sampling_mask")
        for row, ids in enumerate(rows):
            if ids is None:
                raise ValueError(f"{SGLANG_MASK}: row {row} has no mask")
        return cls._from_lists([sorted(ids) for ids in rows if ids is not None])

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.counts)

    def __len__(self) -> int:
        return self.rows

    def __eq__(self, other: object) -> bool:
        """Whether all arrays are equal. What is not known is equal to what is not known."""
        if not isinstance(other, KeptSets):
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in _KINDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KeptSets({self.rows} rows, {'no' if self.token_ids is None else len(self.token_ids)} ids)"

    @classmethod
    def _from_lists(cls, rows: Sequence[Sequence[int]]) -> KeptSets:
        return cls.from_ids(np.array(list(chain.from_iterable(rows))), _offsets([len(ids) for ids in rows]))

    def _with_ids(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        if self.token_ids is None or self.offsets is None:
            raise ValueError('token_ids: only summaries are known; draw with kept="ids"')
        return self.token_ids, self.offsets

    def _check_offsets(self) -> None:
        if self.token_ids is None or self.offsets is None:
            if (self.token_ids is None) != (self.offsets is None):
                raise ValueError("offsets: are there if token_ids are, and only then")
            return
        ids, offsets = self.token_ids, self.offsets
        if len(offsets) != self.rows + 1:
            raise ValueError(f"offsets: has {len(offsets)} entries, and {self.rows} rows need {self.rows + 1}")
        _refuse("offsets", np.diff(offsets) < 1, "ends where it begins, or before; a draw keeps at least one token")
        if offsets[0] != 0 or offsets[-1] != len(ids):
            raise ValueError(f"offsets: go from {offsets[0]} to {offsets[-1]}, and token_ids from 0 to {len(ids)}")
        _refuse("counts", np.diff(offsets) != self.counts, "has another number of tokens than offsets says")

    def _check_summaries(self) -> None:
        for name in ("last_tokens", "last_logits", "ln_masses"):
            if len(getattr(self, name)) != self.rows:
                raise ValueError(f"{name}: has {len(getattr(self, name))} rows, and counts has {self.rows}")
        _refuse("counts", self.counts < 1, "has no tokens; a draw keeps at least one")
        _refuse("last_tokens", self.last_tokens < _NO_PREFIX, "is negative; -1 is for a set that is no prefix")
        _refuse("last_logits", np.isnan(self.last_logits) != (self.last_tokens == _NO_PREFIX), "is NaN where last_tokens has a token, or a number where it has none")
        _refuse("last_logits", np.isinf(self.last_logits), "is infinite")
        _refuse("ln_masses", np.isinf(self.ln_masses), "is infinite")

    def _check_ids(self) -> None:
        if self.token_ids is None or self.offsets is None or not len(self.token_ids):
            return
        ids, offsets = self.token_ids, self.offsets
        # Neighbours must ascend, unless the second one begins a row.
        is_wrong = ids < 0
        is_wrong[:-1] |= ids[1:] <= ids[:-1]
        ends = offsets[1:] - 1
        is_wrong[ends] = ids[ends] < 0
        if is_wrong.any():
            place = int(is_wrong.argmax())
            row = int(np.searchsorted(offsets, place, side="right")) - 1
            why = "is negative" if ids[place] < 0 else f"comes before {ids[place + 1]}; ids ascend, and none is there twice"
            raise ValueError(f"token_ids: {ids[place]} in row {row} {why}")


def _array(name: str, values: ArrayLike, kind: type[np.generic]) -> NDArray[Any]:
    """An array of one dimension and of that type."""
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name}: must have one dimension, not {array.ndim}")
    # An empty list is an array of floats.
    if array.dtype == kind or not array.size:
        return array.astype(kind, copy=False)
    if array.dtype.kind not in ("iu" if issubclass(kind, np.integer) else "iuf"):
        raise ValueError(f"{name}: must be {np.dtype(kind)}, not {array.dtype}")
    if issubclass(kind, np.integer) and not np.iinfo(kind).min <= int(array.min()) <= int(array.max()) <= np.iinfo(kind).max:
        raise ValueError(f"{name}: has a value that {np.dtype(kind)} cannot hold")
    return array.astype(kind)


def _joined(arrays: Iterable[NDArray[Any] | None], kind: type[np.generic]) -> NDArray[Any]:
    """Arrays one after the other."""
    return np.concatenate([np.empty(0, kind), *(array for array in arrays if array is not None)], dtype=kind, casting="unsafe")


def _offsets(counts: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int64]:
    """Where rows of such lengths begin, and where the last one ends."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.asarray(counts, np.int64), out=offsets[1:])
    return offsets


def _equal(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def _refuse(name: str, is_wrong: NDArray[np.bool_], why: str) -> None:
    """An error that names the first wrong row, if there is one."""
    if is_wrong.any():
        raise ValueError(f"{name}: row {int(is_wrong.argmax())} {why}")
