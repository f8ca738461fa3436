"""Kept sets of many rows: what they hold, what is refused, and what other engines' lists become."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import row

import onedraw
from onedraw.kept import KeptSets

CHAINS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.7},
    "greedy": {"temperature": 0.0},
    "top-k": {"top_k": 40},
    "top-p": {"top_p": 0.9, "temperature": 1.3},
    "min-p": {"min_p": 0.05},
    "typical": {"typical_p": 0.3},
    "XTC": {"xtc_probability": 1.0, "xtc_threshold": 0.01},
}


def sets(**changed: Any) -> KeptSets:
    """Three rows, of which the second one keeps no prefix, with some arrays in the place of others."""
    given = {
        "token_ids": [1, 4, 9, 0, 4],
        "offsets": [0, 2, 3, 5],
        "counts": [2, 1, 2],
        "last_tokens": [4, -1, 0],
        "last_logits": [0.5, np.nan, -2.0],
        "ln_masses": [0.25, 0.0, np.nan],
    }
    return KeptSets(**{**given, **changed})


SUMMARIES = {"token_ids": None, "offsets": None}


def test_arrays_have_one_layout() -> None:
    made = sets()
    types = {name: getattr(made, name).dtype.name for name in ("token_ids", "offsets", "counts", "last_tokens", "last_logits", "ln_masses")}
    assert types == {"token_ids": "int32", "offsets": "int64", "counts": "int32", "last_tokens": "int32", "last_logits": "float32", "ln_masses": "float64"}
    assert len(made) == made.rows == 3
    assert [made.ids(place).tolist() for place in range(3)] == [[1, 4], [9], [0, 4]]
    assert made.ids(-1).tolist() == [0, 4]
    assert repr(made) == "KeptSets(3 rows, 5 ids)"
    assert repr(sets(**SUMMARIES)) == "KeptSets(3 rows, no ids)"
    # An array of the right type is not copied.
    ids = np.array([1, 4, 9, 0, 4], np.int32)
    assert sets(token_ids=ids).token_ids is ids


def test_equal_sets_are_equal() -> None:
    assert sets() == sets() == pickle.loads(pickle.dumps(sets()))
    for other in (sets(**SUMMARIES), sets(ln_masses=[0.25, 0.0, 0.0]), sets(token_ids=[1, 4, 8, 0, 4]), sets().select([0, 1]), 7):
        assert sets() != other
    assert sets(**SUMMARIES) == sets(**SUMMARIES)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"offsets": [0, 3, 2, 5]}, "offsets: row 1 ends where it begins, or before"),
        ({"offsets": [0, 2, 2, 5]}, "offsets: row 1 ends where it begins, or before"),
        ({"offsets": [0, 2, 3, 4]}, "offsets: go from 0 to 4, and token_ids from 0 to 5"),
        ({"offsets": [1, 2, 3, 5]}, "offsets: go from 1 to 5"),
        ({"offsets": [0, 2, 5]}, "offsets: has 3 entries, and 3 rows need 4"),
        ({"offsets": None}, "offsets: are there if token_ids are, and only then"),
        ({"token_ids": None}, "offsets: are there if token_ids are, and only then"),
        ({"offsets": [0.0, 2.0, 3.0, 5.0]}, "offsets: must be int64, not float64"),
        ({"counts": [2, 2, 1]}, "counts: row 1 has another number of tokens than offsets says"),
        ({"counts": [2, 0, 2], **SUMMARIES}, "counts: row 1 has no tokens"),
        ({"counts": [[2, 1, 2]]}, "counts: must have one dimension, not 2"),
        ({"counts": None}, "counts: must have one dimension, not 0"),
        ({"token_ids": [4, 1, 9, 0, 4]}, "token_ids: 4 in row 0 comes before 1; ids ascend"),
        ({"token_ids": [1, 4, 9, 4, 4]}, "token_ids: 4 in row 2 comes before 4; ids ascend"),
        ({"token_ids": [-3, 4, 9, 0, 4]}, "token_ids: -3 in row 0 is negative"),
        ({"token_ids": [1, 4, -1, 0, 4]}, "token_ids: -1 in row 1 is negative"),
        ({"token_ids": [1, 4, 2**31, 0, 4]}, "token_ids: has a value that int32 cannot hold"),
        ({"token_ids": [1, 4, np.nan, 0, 4]}, "token_ids: must be int32, not float64"),
        ({"last_tokens": [4, -1]}, "last_tokens: has 2 rows, and counts has 3"),
        ({"last_tokens": [4, -2, 0]}, "last_tokens: row 1 is negative"),
        ({"last_logits": [np.nan, np.nan, -2.0]}, "last_logits: row 0 is NaN where last_tokens has a token"),
        ({"last_logits": [0.5, 0.5, -2.0]}, "last_logits: row 1 is NaN where last_tokens has a token, or a number where it has none"),
        ({"last_logits": [0.5, np.nan, -np.inf]}, "last_logits: row 2 is infinite"),
        ({"ln_masses": [0.0, 0.0, np.inf]}, "ln_masses: row 2 is infinite"),
        ({"ln_masses": [0.0, 0.0, 0.0, 0.0]}, "ln_masses: has 4 rows, and counts has 3"),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        sets(**changed)
    assert str(error.value).startswith(message)


def test_rows_are_selected_and_joined() -> None:
    made = sets()
    assert made.select([2, 0]).to_sglang() == [[0, 4], [1, 4]]
    assert made.select(slice(1, None)).to_sglang() == made.select(np.array([False, True, True])).to_sglang() == [[9], [0, 4]]
    assert made.select([0, 0, -1]) == KeptSets.concatenate([made.select([0]), made.select([0]), made.select([2])])
    assert KeptSets.concatenate(made.select([place]) for place in range(3)) == made
    assert sets(**SUMMARIES).select([2]).last_tokens.tolist() == [0]
    empty = made.select([])
    assert (len(empty), empty.to_sglang()) == (0, [])
    # No rows have no ids, and do not disturb others without.
    assert KeptSets.concatenate([empty, sets(**SUMMARIES)]) == sets(**SUMMARIES)
    assert KeptSets.concatenate([empty, empty]) == empty
    with pytest.raises(IndexError):
        made.select([3])
    with pytest.raises(ValueError, match=r"^token_ids: some parts have ids, and others do not$"):
        KeptSets.concatenate([made, sets(**SUMMARIES)])
    with pytest.raises(ValueError, match=r"^parts: nothing to concatenate$"):
        KeptSets.concatenate([])


def test_summaries_have_no_ids() -> None:
    for asked in (lambda one: one.ids(0), KeptSets.to_sglang):
        with pytest.raises(ValueError, match='^token_ids: only summaries are known; draw with kept="ids"$'):
            asked(sets(**SUMMARIES))
    with pytest.raises(IndexError):
        sets().ids(3)


@pytest.mark.parametrize("chain", CHAINS)
def test_the_sets_of_draws(chain: str) -> None:
    """Each is what the distribution of the draw holds, and the parts add up to the probabilities of the draws."""
    rows = [row(seed, size=500) for seed in range(6)]
    drawn = [onedraw.sample(one, **CHAINS[chain], seed=7, kept="ids", logprobs=0, logprobs_mode="processed_logprobs") for one in rows]
    made = KeptSets.of(drawn)
    assert made == KeptSets.of(one.kept for one in drawn) == KeptSets.of(onedraw.Samples(drawn))
    temperature = CHAINS[chain].get("temperature", 1.0)
    for place, (logits, one) in enumerate(zip(rows, drawn, strict=True)):
        kept = np.sort(onedraw.distribution(logits, **CHAINS[chain], seed=7).tokens)
        assert made.ids(place).tolist() == kept.tolist()
        assert made.counts[place] == len(kept)
        assert one.token in kept
        if temperature > 0:
            largest = logits[kept].max().astype("f8")
            assert one.logprob == pytest.approx((logits[one.token] - largest) / temperature - made.ln_masses[place], abs=1e-5)
        if chain in ("typical", "XTC"):
            assert made.last_tokens[place] == -1 and np.isnan(made.last_logits[place])
        else:
            # The last of a prefix has the smallest logit.
            assert made.last_logits[place] == logits[made.last_tokens[place]] == logits[kept].min()


def test_summaries_of_draws_are_those_of_their_ids() -> None:
    rows = [row(seed, size=500) for seed in range(4)]
    full, short = (KeptSets.of(onedraw.sample(one, top_p=0.9, seed=3, kept=mode) for one in rows) for mode in ("ids", "summary"))
    assert short.token_ids is None and short.offsets is None
    assert (full.counts > 1).any()
    for name in ("counts", "last_tokens", "last_logits", "ln_masses"):
        assert getattr(short, name).tolist() == getattr(full, name).tolist()


def test_results_without_a_set_are_refused() -> None:
    full, short, none = (onedraw.sample(row(1), top_p=0.9, kept=mode) for mode in ("ids", "summary", "none"))
    with pytest.raises(ValueError, match=r'^results: row 1 has no kept set; draw with kept="summary" or kept="ids"$'):
        KeptSets.of([full, none])
    with pytest.raises(ValueError, match=r"^results: row 2 has no ids, and others have$"):
        KeptSets.of([full, full, short])
    nothing = KeptSets.of([])
    assert (len(nothing), nothing.to_sglang()) == (0, [])


@dataclass
class SamplingMask:
    """vLLM's class, field by field; `tests/vllm` uses the real one."""

    token_ids: list[list[int]]


def test_vllm_s_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("vllm.outputs")
    module.SamplingMask = SamplingMask  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.outputs", module)
    mask = sets().to_vllm()
    assert mask == SamplingMask([[1, 4], [9], [0, 4]])
    read = KeptSets.from_vllm(mask)
    # Its server sends the lists alone.
    assert read == KeptSets.from_vllm(mask.token_ids) == KeptSets.from_ids([1, 4, 9, 0, 4], [0, 2, 3, 5])
    assert (read.counts.tolist(), read.last_tokens.tolist()) == ([2, 1, 2], [-1, -1, -1])
    assert np.isnan(read.last_logits).all() and np.isnan(read.ln_masses).all()
    assert len(KeptSets.from_vllm(SamplingMask([]))) == 0
    for wrong, message in [
        ([[1], []], "offsets: row 1 ends where it begins"),
        ([[1], [3, 2]], "token_ids: 3 in row 1 comes before 2"),
        ([[1], [-1]], "token_ids: -1 in row 1 is negative"),
        ([["a"]], "token_ids: must be int32"),
    ]:
        with pytest.raises(ValueError) as error:
            KeptSets.from_vllm(wrong)
        assert str(error.value).startswith(message)


def test_sglang_s_masks() -> None:
    """It lists the likeliest token first."""
    information = {"output_token_sampling_mask": [[4, 1], [9], [4, 0]], "output_token_sampling_mask_length": 3, "completion_tokens": 3}
    read = KeptSets.from_sglang(information)
    assert read == KeptSets.from_sglang([[4, 1], [9], [4, 0]]) == KeptSets.from_ids([1, 4, 9, 0, 4], [0, 2, 3, 5])
    assert read.to_sglang() == [[1, 4], [9], [0, 4]]
    for wrong, message in [
        ({"completion_tokens": 3}, "output_token_sampling_mask: is not in this meta_info"),
        ([[1], None], "output_token_sampling_mask: row 1 has no mask"),
        ([[1], [2, 3, 2]], "token_ids: 2 in row 1 comes before 2"),
    ]:
        with pytest.raises(ValueError) as error:
            KeptSets.from_sglang(wrong)  # type: ignore[arg-type]
        assert str(error.value).startswith(message)


def test_no_engine_is_imported() -> None:
    program = "import sys, onedraw.kept; sys.exit(bool({'vllm', 'sglang', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
