"""What `kept_logprobs` refuses, and in which words. Nothing is read outside of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from onedraw.kept import KeptSets

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch", reason="onedraw.torch needs PyTorch")

from test_torch import IS_INTERPRETED, device, made  # noqa: E402, F401

from onedraw.torch import IGNORED, kept_logprobs  # noqa: E402

LOGITS = [[1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 4.0, 3.0, 2.0, 1.0], [0.0, 1.0, 0.0, 1.0, 0.0]]
TOKENS, IDS, OFFSETS = [4, 0, 1], [3, 4, 0, 1, 2, 1, 3], [0, 2, 5, 7]
SUMMARIES = {"counts": [2, 3, 2], "last_tokens": [3, 2, 3], "last_logits": [4.0, 3.0, 1.0], "ln_masses": [0.0, 0.0, 0.0]}


def asked(device: Any, *, logits: Any = None, tokens: Any = None, kept: Any = None, temperature: Any = 1.0, **options: Any) -> Any:  # noqa: F811
    """A call that is right but for what is given."""
    given = torch.tensor(LOGITS) if logits is None else logits
    given = given.to(device) if isinstance(given, torch.Tensor) and given.device.type == "cpu" else given
    drawn = torch.tensor(TOKENS if tokens is None else tokens)
    return kept_logprobs(given, drawn.to(device), (torch.tensor(IDS), torch.tensor(OFFSETS)) if kept is None else kept, temperature, **options)


def summaries(**fields: Any) -> KeptSets:
    return KeptSets(token_ids=None, offsets=None, **{name: np.array(value) for name, value in (SUMMARIES | fields).items()})


def pair(ids: Any = IDS, offsets: Any = OFFSETS) -> Any:  # noqa: B008
    return torch.tensor(ids), torch.tensor(offsets)


def changed(row: int, token: int, value: float) -> Any:
    logits = torch.tensor(LOGITS)
    logits[row, token] = value
    return logits


def test_what_is_right_is_taken(device: Any) -> None:  # noqa: F811
    assert torch.allclose(asked(device), asked(device, kept=summaries()), atol=1e-6)


OF_TYPE: dict[str, tuple[dict[str, Any], str]] = {
    "no tensor": ({"logits": np.zeros((3, 5))}, "logits: a tensor of PyTorch, not an object of the type ndarray"),
    "integer logits": ({"logits": torch.zeros(3, 5, dtype=torch.int32)}, "logits: float32, bfloat16, float16 or float64, not torch.int32"),
    "float8": ({"logits": torch.zeros(3, 5).to(torch.float8_e5m2)}, "logits: float32, bfloat16, float16 or float64, not torch.float8_e5m2"),
    "tokens as floats": ({"tokens": [4.0, 0.0, 1.0]}, "tokens: integers, not torch.float32"),
    "tokens as booleans": ({"tokens": [True, False, True]}, "tokens: integers, not torch.bool"),
    "ids as floats": ({"kept": pair(ids=[1.0] * 7)}, "kept.token_ids: integers, not torch.float32"),
    "offsets as floats": ({"kept": (torch.tensor(IDS), np.array(OFFSETS, "f8"))}, "kept.offsets: integers, not torch.float64"),
    "no sets": ({"kept": "ids"}, "kept: KeptSets or a pair of token_ids and offsets, not an object of the type str"),
    "three arrays": ({"kept": (*pair(), torch.tensor([1]))}, "kept: KeptSets or a pair of token_ids and offsets, not an object of the type tuple"),
    "complex": ({"temperature": torch.ones(3, dtype=torch.complex64)}, "temperature: a number or one for each row, not torch.complex64"),
}

OF_SHAPE: dict[str, tuple[dict[str, Any], str]] = {
    "one dimension": ({"logits": torch.zeros(5)}, "logits: [tokens, vocabulary], not 1 dimensions"),
    "no device": ({"logits": torch.zeros(3, 5, device="meta")}, "logits: on the CPU or a CUDA device, not on meta"),
    "three dimensions": ({"logits": torch.zeros(1, 3, 5)}, "logits: [tokens, vocabulary], not 3 dimensions; logits.flatten(0, -2) joins"),
    "too few tokens": ({"tokens": [4, 0]}, "tokens: 2 for 3 rows of logits"),
    "tokens in two dimensions": ({"tokens": [[4, 0, 1]]}, "tokens: one dimension, not 2"),
    "too few offsets": ({"kept": pair(offsets=[0, 2, 7])}, "kept.offsets: 3 for 3 rows of logits; there is one more than rows"),
    "too few sets": ({"kept": KeptSets.from_ids([3, 4, 0], [0, 2, 3])}, "kept.offsets: 3 for 3 rows of logits"),
    "too few summaries": ({"kept": summaries().select([0, 1])}, "kept: 2 sets for 3 rows of logits"),
    "two temperatures": ({"temperature": torch.ones(2)}, "temperature: a number or one for each of the 3 rows, not [2]"),
    "a temperature with a gradient": ({"temperature": torch.ones(3, requires_grad=True)}, "temperature: there is no gradient with respect to it"),
    "temperature 0": ({"temperature": 0.0}, "temperature: finite and above 0 (a greedy row keeps one token, whose logprob is 0 at any temperature), not 0.0"),
    "temperature nan": ({"temperature": float("nan")}, "temperature: finite and above 0"),
    "chunk": ({"chunk": 0}, "chunk: at least 1 row, not 0"),
}

OF_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "offsets begin late": ({"kept": pair(offsets=[1, 2, 5, 7])}, "kept.offsets: 1 and 2 at row 0; they begin with 0, never fall, and end with the number of token_ids, 7"),
    "offsets fall": ({"kept": pair(offsets=[0, 5, 2, 7])}, "kept.offsets: 5 and 2 at row 1; "),
    "offsets go too far": ({"kept": pair(offsets=[0, 2, 9, 7])}, "kept.offsets: 2 and 9 at row 1; "),
    "offsets end early": ({"kept": pair(offsets=[0, 2, 5, 6])}, "kept.offsets: 5 and 6 at row 2; "),
    "offsets are negative": ({"kept": pair(offsets=[-(10**12), 2, 5, 7])}, "kept.offsets: -1000000000000 and 2 at row 0; "),
    "offsets are far away": ({"kept": pair(offsets=[0, 10**15, 10**15, 7])}, "kept.offsets: 0 and 1000000000000000 at row 0; "),
    "an empty set": ({"kept": pair(offsets=[0, 5, 5, 7])}, "kept.token_ids: 4 comes before 0 in row 0; the ids of a row ascend"),
    "a row that keeps nothing": ({"kept": pair([3, 4, 1, 3], [0, 2, 2, 4])}, "kept: row 1 has no tokens; the token of a row that is not trained on is -100"),
    "an id after the vocabulary": ({"kept": pair([3, 4, 0, 1, 5, 1, 3])}, "kept.token_ids: 5 of row 1 is outside the vocabulary of 5"),
    "an id far away": ({"kept": pair([3, 4, 0, 1, 2, 1, 2**40])}, f"kept.token_ids: {2**40} of row 2 is outside the vocabulary of 5"),
    "a negative id": ({"kept": pair([-3, 4, 0, 1, 2, 1, 3])}, "kept.token_ids: -3 of row 0 is outside the vocabulary of 5"),
    "ids that fall": ({"kept": pair([3, 4, 0, 2, 1, 1, 3])}, "kept.token_ids: 2 comes before 1 in row 1; the ids of a row ascend"),
    "an id twice": ({"kept": pair([3, 4, 0, 1, 1, 1, 3])}, "kept.token_ids: 1 comes before 1 in row 1; the ids of a row ascend"),
    "a token after the vocabulary": ({"tokens": [4, 5, 1]}, "tokens: token 5 of row 1 is outside the vocabulary of 5"),
    "a token far away": ({"tokens": [4, 0, 2**50]}, f"tokens: token {2**50} of row 2 is outside the vocabulary of 5"),
    "a negative token": ({"tokens": [-1, 0, 1]}, "tokens: token -1 of row 0 is outside the vocabulary of 5"),
    "a token that was cut": ({"tokens": [4, 3, 1]}, "tokens: token 3 of row 1 is not in the row's kept set, so it cannot have been drawn from it"),
    "the first of two": ({"tokens": [4, 3, 0]}, "tokens: token 3 of row 1 is not in"),
    "NaN": ({"logits": changed(1, 2, torch.nan)}, "logits: row 1 has NaN among its kept tokens"),
    "inf": ({"logits": changed(2, 3, torch.inf)}, "logits: row 2 has +inf among its kept tokens"),
    "a drawn token of -inf": ({"logits": changed(0, 4, -torch.inf)}, "logits: token 4 of row 0 was drawn, and its logit is -inf"),
    "all of -inf": ({"logits": torch.full((3, 5), -torch.inf)}, "logits: token 4 of row 0 was drawn, and its logit is -inf"),
    "one temperature of 0": ({"temperature": torch.tensor([1.0, 0.0, 1.0])}, "temperature: finite and above 0 (a greedy row keeps one token, whose logprob is 0 at any temperature), not 0.0 as in row 1"),
    "one temperature of NaN": ({"temperature": torch.tensor([1.0, 1.0, torch.nan])}, "not nan as in row 2"),
    "a temperature below 0": ({"temperature": torch.tensor(-1.0)}, "not -1.0 as in row 0"),
    "no vocabulary": ({"logits": torch.zeros(3, 0)}, "kept.token_ids: 3 of row 0 is outside the vocabulary of 0"),
    "summary: no prefix": ({"kept": summaries(last_tokens=[3, -1, 3], last_logits=[4, np.nan, 1])}, "kept: row 1 has no summary, because its chain keeps no prefix of the order; keep ids"),
    "summary: a token after the vocabulary": ({"kept": summaries(last_tokens=[3, 2, 5])}, "kept.last_tokens: 5 of row 2 is outside the vocabulary of 5"),
    "summary: another logit": ({"logits": changed(0, 3, float(np.nextafter(np.float32(4), np.float32(5))))}, "kept: row 0 is another one: the logit of token 3 is 4.000000476837158 here and was 4.0; a summary needs the logits that were drawn from, with the same bits; where they may differ, keep ids", ),
    "summary: another count": ({"logits": changed(1, 4, 9.0)}, "kept: row 1 is another one: not 3 tokens are up to token 2; a summary needs the logits"),
    "summary: NaN": ({"logits": changed(2, 0, torch.nan)}, "logits: row 2 has NaN"),
    "summary: inf": ({"logits": changed(2, 1, torch.inf)}, "logits: row 2 has +inf among its kept tokens"),
    "summary: a token that was cut": ({"tokens": [2, 0, 1]}, "tokens: token 2 of row 0 is not in the row's kept set"),
    "summary: a tie that was cut": ({"tokens": [4, 0, 3], "kept": summaries(counts=[2, 3, 1], last_tokens=[3, 2, 1])}, "tokens: token 3 of row 2 is not in the row's kept set"),
    "summary: a token after the vocabulary was drawn": ({"tokens": [4, 0, 99]}, "tokens: token 99 of row 2 is outside the vocabulary of 5"),
}  # fmt: skip


@pytest.mark.parametrize("case", OF_TYPE)
def test_types(case: str) -> None:
    given, words = OF_TYPE[case]
    with pytest.raises(TypeError) as raised:
        asked("cpu", **given)
    assert words in str(raised.value)


@pytest.mark.parametrize("case", OF_SHAPE)
def test_shapes(case: str) -> None:
    given, words = OF_SHAPE[case]
    with pytest.raises(ValueError) as raised:
        asked("cpu", **given)
    assert words in str(raised.value)


@pytest.mark.parametrize("case", OF_ROWS)
def test_rows(device: Any, case: str) -> None:  # noqa: F811
    given, words = OF_ROWS[case]
    if case.startswith("summary"):
        given = {"kept": summaries(), **given}
    for chunk in [3] if IS_INTERPRETED else [1, 2, 3]:
        with pytest.raises(ValueError) as raised:
            asked(device, chunk=chunk, **given)
        assert words in str(raised.value)
        assert "\n" not in str(raised.value)
    # The device works as before.
    assert asked(device).shape == (3,)


@pytest.mark.parametrize("case", [case for case in OF_ROWS if case.startswith("summary") and "vocabulary" not in case])
def test_rows_of_a_large_vocabulary(device: Any, case: str) -> None:  # noqa: F811
    """Of few tokens among many a device makes ids."""
    given, words = OF_ROWS[case]
    given = {"kept": summaries(), "logits": torch.tensor(LOGITS), **given}
    given["logits"] = torch.nn.functional.pad(given["logits"], (0, 995), value=-50.0)
    with pytest.raises(ValueError) as raised:
        asked(device, **given)
    assert words in str(raised.value)


def test_a_row_that_is_ignored_may_be_wrong(device: Any) -> None:  # noqa: F811
    expected = asked(device)
    kept = pair([3, 4, 1, 3], [0, 2, 2, 4])
    temperature = torch.tensor([1.0, -1.0, 1.0])
    for wrong in (kept, pair([3, 4, 99, -1, 2, 1, 3]), summaries(last_tokens=[3, 99, 3])):
        found = asked(device, logits=changed(1, 2, torch.nan), tokens=[4, IGNORED, 1], kept=wrong, temperature=temperature)
        assert found.tolist() == pytest.approx([expected[0].item(), 0, expected[2].item()])


def test_sparse_logits() -> None:
    with pytest.raises(TypeError, match="logits: a dense tensor, not one of the layout torch.sparse_coo"):
        asked("cpu", logits=torch.zeros(3, 5).to_sparse())


def test_a_summary_of_float64_is_compared_exactly(device: Any) -> None:  # noqa: F811
    rows = made(device, dtype=torch.float64)
    kept = rows.kept["summaries"]
    assert kept_logprobs(rows.logits, rows.tokens, kept).isfinite().all()
    moved = rows.logits.clone()
    moved[4, kept.last_tokens[4]] += 1e-12
    with pytest.raises(ValueError, match=f"row 4 is another one: the logit of token {kept.last_tokens[4]} is"):
        kept_logprobs(moved, rows.tokens, kept)
