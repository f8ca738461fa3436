"""What a decode loop needs: ends of texts, grammars, beams, contrast."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from conftest import row

import onedraw

PIECES = ["", "y", "n", "yes", "no", "e", "es", "o", "s", "maybe", "{", "}", '"a"', ":", "1", "2"]


def test_stop_strings_across_tokens() -> None:
    matcher = onedraw.StopMatcher(stop=["END", "."], max_tokens=10)
    assert [matcher.push(1, "an E").text, matcher.push(1, b"N").text] == [b"an ", b""]
    assert matcher.held_back == b"EN"
    other = copy.copy(matcher)
    ended = matcher.push(1, "D and more")
    assert (ended.text, ended.finish_reason, ended.stop_string, ended.stop_token, ended.rewind) == (b"", "stop", 0, None, None)
    assert other.push(1, "ough").text == b"ENough"
    assert onedraw.StopMatcher(stop="x", include_stop_str_in_output=True).push(1, "axb").text == b"ax"


def test_ids_and_lengths() -> None:
    matcher = onedraw.StopMatcher(eos_token_id=2, stop_token_ids=[5], max_tokens=3, min_tokens=1)
    assert matcher.push(2, "").finish_reason is None, "not before min_tokens are written"
    eos = copy.deepcopy(matcher).push(2, "")
    assert (eos.finish_reason, eos.stop_token) == ("eos", 2)
    assert copy.copy(matcher).push(5, "").finish_reason == "stop"
    assert [matcher.push(1, "a").finish_reason, matcher.push(1, "b").finish_reason] == [None, "length"]
    left = onedraw.StopMatcher(stop="abc")
    left.push(1, bytearray(b"xab"))
    assert left.finish() == b"ab"


def test_a_banned_string_is_taken_back() -> None:
    params = onedraw.SamplingParams(banned_strings=["bad"], temperature=0)
    sampler, matcher = onedraw.Sampler(params), onedraw.StopMatcher(params)
    pieces = ["ba", "d", "good"]
    logits = np.array([3.0, 2.0, 1.0], "f4")
    text = b""
    script = [logits, logits[[1, 0, 2]]]
    for step in range(2):
        sampled = sampler.sample(script[step])
        progress = matcher.push(sampled.token, pieces[sampled.token])
        text += progress.text
    rewind = progress.rewind
    assert rewind is not None
    assert (rewind.length, rewind.token, rewind.phrase) == (0, 0, 0)
    sampler.take_back(rewind)
    assert (sampler.output, text) == ([], b"")
    assert sampler.sample(logits).token == 1, "the token that began it is banned there"
    assert repr(rewind) == "Rewind(length=0, token=0, phrase=0)"
    assert rewind == onedraw.Rewind(0, 0) != onedraw.Rewind(1, 0)
    with pytest.raises(TypeError, match="a token's text is a string or bytes, not an object of the type NoneType"):
        matcher.push(1, None)  # type: ignore[arg-type]


def test_bytes_become_characters() -> None:
    stream = onedraw.Utf8Stream()
    word = "naïve 🦀".encode()
    assert "".join(stream.push(word[i : i + 1]) for i in range(len(word))) == "naïve 🦀"
    assert stream.push(b"\xf0\x9f") == ""
    assert stream.finish() == "\ufffd"


@pytest.fixture(scope="module")
def vocabulary() -> onedraw.Vocabulary:
    return onedraw.Vocabulary(PIECES, eos=[0])


def bits(mask: np.ndarray) -> list[str]:
    return [PIECES[token] for token in range(len(PIECES)) if mask[token // 32] >> token % 32 & 1]


def test_a_grammar_masks_what_it_does_not_go_on_with(vocabulary: onedraw.Vocabulary) -> None:
    assert (len(vocabulary), vocabulary.eos) == (16, [0])
    assert onedraw.Vocabulary([piece.encode() for piece in PIECES], eos=0, special=[9]).eos == [0]
    matcher = onedraw.Grammar.choices(vocabulary, ["yes", "no"]).start()
    mask = matcher.mask()
    assert mask.dtype == np.uint32
    assert bits(mask) == ["y", "n", "yes", "no"]
    matcher.accept(1)
    assert bits(matcher.mask()) == ["e", "es"]
    fork = copy.copy(matcher)
    fork.accept(6)
    assert (bits(fork.mask()), fork.tokens, matcher.tokens) == ([""], [1, 6], [1])
    with pytest.raises(onedraw.ConstraintError, match="token 9 .* cannot come at 1"):
        matcher.accept(9)
    matcher.rollback(1)
    assert (bits(matcher.mask()), matcher.tokens) == (["y", "n", "yes", "no"], [])
    with pytest.raises(onedraw.ConstraintError, match="3 tokens cannot be taken back: there are 0"):
        matcher.rollback(3)


def test_grammars_of_all_kinds(vocabulary: onedraw.Vocabulary) -> None:
    assert bits(onedraw.Grammar.regex(vocabulary, "[12]+").start().mask()) == ["1", "2"]
    assert bits(onedraw.Grammar.lark(vocabulary, 'start: "n" "o"').start().mask()) == ["n", "no"]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
    for given in (schema, json.dumps(schema)):
        matcher = onedraw.Grammar.json_schema(vocabulary, given).start()
        for token in (10, 12, 13, 15, 14):
            matcher.accept(token)
        assert bits(matcher.mask()) == ["}", "1", "2"]


def test_grammars_that_cannot_be(vocabulary: onedraw.Vocabulary) -> None:
    with pytest.raises(onedraw.GrammarError) as raised:
        onedraw.Grammar.json_schema(vocabulary, '{\n  "type": oops}')
    assert (raised.value.line, raised.value.column) == (2, 11)
    with pytest.raises(onedraw.GrammarError) as unsatisfiable:
        onedraw.Grammar.json_schema(vocabulary, {"type": "integer", "minimum": 5, "maximum": 3})
    assert unsatisfiable.value.line is None
    with pytest.raises(onedraw.GrammarError, match="no token ends a text"):
        onedraw.Vocabulary(["a"], eos=[])


def test_beams_find_the_best_text_of_all() -> None:
    """Against every text of a small model, without eos: the widest search is exhaustive."""
    size, longest = 4, 3
    table = row(3, size * size).reshape(size, size)
    logprobs = table - np.log(np.exp(table.astype("f8")).sum(axis=1, keepdims=True))

    def logprob(text: tuple[int, ...]) -> float:
        return float(sum(logprobs[current, after] for current, after in zip((0, *text), text, strict=False)))

    texts = sorted(np.ndindex(*[size] * longest), key=logprob, reverse=True)
    search = onedraw.BeamSearch(width=size, n=2, max_tokens=longest, length_penalty=0.0)
    widest = onedraw.BeamSearch(width=4, n=4, max_tokens=longest)
    while not search.is_done:
        rows = np.stack([table[(beam.tokens or [0])[-1]] for beam in search.beams])
        expansion = search.step(rows)
        widest.step(rows if len(widest) == len(rows) else rows[: len(widest)])
        assert len(expansion) == len(search)
        kept = [(beam, token) for beam, token, _, _, fate in expansion.candidates if fate == "kept"]
        assert kept == list(zip(expansion.beams.tolist(), expansion.tokens.tolist(), strict=True))
    assert {outcome for *_, outcome in expansion.candidates} == {"cut", "dropped"}
    found = search.finish()
    assert tuple(found[0].tokens) == texts[0]
    assert found[0].logprob == pytest.approx(logprob(texts[0]), abs=1e-5)
    assert (found[0].finish_reason, found[0].text, found[0].inclusion) == ("length", None, None)
    assert (search.is_done, len(search), repr(search)) == (True, 0, "BeamSearch(over)")
    with pytest.raises(RuntimeError, match="the search is over"):
        search.finish()


def test_a_continuation_may_forbid_and_end() -> None:
    logits = np.array([3.0, 2.0, 1.0], "f4")
    search = onedraw.BeamSearch(width=2, n=2, max_tokens=2)
    said = {0: "forbidden", 1: "ends", 2: None}
    search.step(logits, continuation=lambda beam, token: said[token])
    assert [beam.tokens for beam in search.beams] == [[2]]
    with pytest.raises(ValueError, match='a continuation is None, "goes", "ends" or "forbidden", not "x"'):
        search.step(logits, continuation=lambda beam, token: "x")
    with pytest.raises(RuntimeError, match="the search is over: it was finished, or a step of it failed"):
        search.step(logits)
    other = onedraw.BeamSearch(width=2)
    with pytest.raises(onedraw.TensorError, match="there are 2 rows of logits for 1 beams"):
        other.step(np.stack([logits, logits]))
    with pytest.raises(KeyError):
        other.step(logits, continuation=lambda beam, token: {}[token])


def test_a_continuation_that_asks_the_search_itself_is_told_so() -> None:
    search = onedraw.BeamSearch(width=2, max_tokens=3)
    with pytest.raises(RuntimeError, match="it is in use: a stage or a continuation cannot use what is drawing with it"):
        search.step([0.0, 1.0, 2.0], continuation=lambda beam, token: str(len(search)))


def test_stochastic_beams_draw_without_replacement() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.2], "f4"))
    first = np.zeros(3)
    for seed in range(2000):
        search = onedraw.BeamSearch(width=2, stochastic=True, max_tokens=1, seed=seed)
        search.step(logits)
        found = search.finish()
        assert len({tuple(text.tokens) for text in found}) == 2
        assert found[0].inclusion is not None and 0 < found[0].inclusion <= 1
        first[found[0].tokens[0]] += 1
    # The first is a plain draw: within five standard deviations.
    assert np.abs(first / 2000 - [0.5, 0.3, 0.2]).max() < 5 * np.sqrt(0.25 / 2000)


def test_settings_of_a_search() -> None:
    for settings, words in [
        ({"width": 0}, "beams: must be in"),
        ({"style": "x"}, 'style: must be one of hf, vllm, gnmt, not "x"'),
        ({"early_stopping": 5}, 'early_stopping: must be True, False or "never", not 5'),
        ({"groups": 3}, "beam_groups: must divide the beams"),
        ({"top_p": 0.5, "n": 9}, "n: must be at most the beams"),
    ]:
        with pytest.raises(onedraw.ParamError, match=words):
            onedraw.BeamSearch(**settings)  # type: ignore[arg-type]


def test_contrast() -> None:
    expert, amateur = row(1, 50), row(2, 50)
    got = onedraw.Contrast.obrien(0.1, 0.5).apply(expert, amateur)
    plausible = expert >= expert.max() + np.log(0.1)
    assert np.array_equal(got == -np.inf, ~plausible)
    assert np.allclose(got[plausible], 1.5 * expert[plausible] - 0.5 * amateur[plausible], rtol=1e-6)
    assert np.array_equal(onedraw.Contrast.guidance(1.0).apply(expert, amateur), expert)
    with pytest.raises(onedraw.RowError, match="the rows have 50 and 3 logits"):
        onedraw.Contrast.dola().apply(expert, amateur[:3])
    with pytest.raises(onedraw.ParamError, match="alpha: must be in"):
        onedraw.Contrast.li(2.0)
