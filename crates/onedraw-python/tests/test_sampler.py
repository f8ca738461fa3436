"""One sequence: its draws, its history, its copies; and what results look like."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from conftest import row

import onedraw


def test_a_history_is_kept() -> None:
    sampler = onedraw.Sampler(temperature=0, repetition_penalty=100.0)
    logits = np.array([1.0, 3.0, 2.0], "f4")
    assert [sampler.sample(logits).token for _ in range(3)] == [1, 2, 0]
    assert (sampler.output, sampler.position) == ([1, 2, 0], 3)
    sampler.rewind(1)
    assert sampler.output == [1]
    assert sampler.sample(logits).token == 2
    sampler.accept(0)
    assert sampler.output == [1, 2, 0]
    sampler.accept(onedraw.Sampler(temperature=0).peek(logits))
    assert sampler.output == [1, 2, 0, 1]


def test_single_calls_draw_what_a_sampler_draws() -> None:
    logits = row(3, 5000)
    for seed in range(50):
        params = onedraw.SamplingParams(temperature=1.1, top_p=0.9, seed=seed, logprobs=2)
        drawn = onedraw.sample(logits, params)
        sampler = onedraw.Sampler(params)
        assert sampler.peek(logits) == drawn
        assert sampler.sample(logits) == drawn
        assert sampler.distribution(logits) == onedraw.distribution(logits, params.replace(output_token_ids=[drawn.token]))


def test_what_is_reported() -> None:
    logits = row(1, 100)
    sampled = onedraw.sample(logits, seed=4, logprobs=3)
    raw = onedraw.distribution(logits)
    place = raw.tokens.tolist().index(sampled.token)
    assert sampled.rank == place + 1
    assert sampled.logprob == raw.logprobs[place]
    assert sampled.probability == raw.probabilities[place]
    best = [entry.token for entry in sampled.logprobs[1:]]
    assert best == [token for token in raw.tokens[:3].tolist() if token != sampled.token]
    assert sampled.logprobs[0] == onedraw.TokenLogprob(sampled.token, sampled.logprob, sampled.rank)
    # The probability is that of the draw, in a batch where it is asked for.
    for temperature in (0.5, 2.0):
        drawn_from = onedraw.distribution(logits, temperature=temperature)
        alone = onedraw.sample(logits, temperature=temperature, seed=4, logprobs=0)
        place = drawn_from.tokens.tolist().index(alone.token)
        assert alone.probability == drawn_from.probabilities[place] != raw.probabilities[place]
        batch = onedraw.Batch()
        params = onedraw.SamplingParams(temperature=temperature, seed=4, logprobs=0)
        asked = [batch.sample(batch.add(params.replace(**asks)), logits) for asks in ({}, {"probability": True}, {"logprobs": None, "probability": True})]
        assert [(drawn.probability, drawn.logprob) for drawn in asked] == [
            (None, alone.logprob),
            (alone.probability, alone.logprob),
            (alone.probability, None),
        ]
    quiet = onedraw.sample(logits, seed=4)
    assert (quiet.logprob, quiet.probability, quiet.rank, quiet.logprobs) == (None, None, None, [])
    assert quiet.token == sampled.token


def test_modes_of_logprobs() -> None:
    logits = np.array([1.0, 3.0, 2.0], "f4")
    modes = {
        mode: onedraw.sample(logits, temperature=0.5, top_k=2, seed=0, logprobs=0, logprobs_mode=mode)
        for mode in ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")
    }
    token = modes["raw_logits"].token
    assert modes["raw_logits"].logprob == logits[token]
    assert modes["processed_logits"].logprob == 2 * logits[token]
    assert modes["raw_logprobs"].logprob == pytest.approx(logits[token] - np.log(np.exp(logits.astype("f8")).sum()), abs=1e-6)
    kept = np.exp(2 * logits[1:].astype("f8"))
    assert modes["processed_logprobs"].logprob == pytest.approx(np.log(np.exp(2.0 * logits[token]) / kept.sum()), abs=1e-6)


def test_n_sequences() -> None:
    logits, params = row(2, 500), onedraw.SamplingParams(seed=5, n=4)
    samples = onedraw.sample(logits, params)
    assert [sampled.sequence for sampled in samples] == [0, 1, 2, 3]
    assert [sampler.sample(logits) for sampler in onedraw.Sampler.sequences(params)] == list(samples)
    rows = onedraw.sample(np.stack([logits, row(3, 500)]), params)
    assert len(rows) == 8
    assert list(rows[:4]) == list(samples)


def test_a_list_of_parameters_is_one_a_row() -> None:
    rows = np.stack([row(seed, 50) for seed in range(3)])
    each = [{"seed": 1}, "deterministic", onedraw.SamplingParams(seed=3, top_k=2)]
    assert onedraw.sample(rows, each).tokens.tolist() == [onedraw.sample(logits, params).token for logits, params in zip(rows, each, strict=True)]
    with pytest.raises(onedraw.ParamError, match="params: are 2 for 3 rows; give one for all, or one a row"):
        onedraw.sample(rows, each[:2])


def test_a_seed_from_the_system_is_reported() -> None:
    logits = row(1, 1000, 0.1)
    first, second = onedraw.sample(logits), onedraw.sample(logits)
    assert first.seed != second.seed
    assert onedraw.sample(logits, seed=first.seed).token == first.token


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda sampler: pickle.loads(pickle.dumps(sampler)), lambda s: onedraw.Sampler.load(s.save())])
def test_copies_go_their_own_way(again) -> None:  # type: ignore[no-untyped-def]
    logits = row(9, 300)
    sampler = onedraw.Sampler(mirostat=2, mirostat_tau=3.0, repetition_penalty=1.3, seed=8)
    for _ in range(5):
        sampler.sample(logits)
    other = again(sampler)
    assert (other.output, other.seed, other.mirostat_mu) == (sampler.output, sampler.seed, sampler.mirostat_mu)
    assert [other.sample(logits) for _ in range(5)] == [sampler.sample(logits) for _ in range(5)]
    other.sample(logits)
    assert (len(other.output), len(sampler.output)) == (11, 10)


def test_a_saved_sampler_that_is_none() -> None:
    with pytest.raises(onedraw.OnedrawError, match="not a saved sampler"):
        onedraw.Sampler.load("{}")


@pytest.mark.parametrize("kernel", ["auto", "scalar", "sse", "avx2", "avx512", "neon"])
def test_kernels_and_shards_change_no_token(kernel: str) -> None:
    logits = row(7, 20_000)
    params = onedraw.SamplingParams(temperature=0.8, top_p=0.9, seed=3, logprobs=4)
    try:
        sampler = onedraw.Sampler(params, kernel=kernel, shards=5)
    except onedraw.ParamError as error:
        assert error.message == f"this machine or this build cannot run {kernel}"
        pytest.skip(str(error))
    assert sampler.sample(logits) == onedraw.sample(logits, params)


def test_a_kernel_that_is_none() -> None:
    with pytest.raises(onedraw.ParamError, match="kernel"):
        onedraw.Sampler(kernel="mmx")


def test_prompt_logprobs() -> None:
    rows = np.stack([row(seed, 40) for seed in range(3)])
    sampler = onedraw.Sampler(prompt_token_ids=[5, 6, 7, 8], prompt_logprobs=1)
    reports = sampler.prompt_logprobs(rows)
    assert reports[0] is None
    for logits, token, report in zip(rows, [6, 7, 8], reports[1:], strict=True):
        raw = onedraw.distribution(logits)
        assert report.logprob == raw.logprobs[raw.tokens.tolist().index(token)]
        assert (report.token, report.rank) == (token, raw.tokens.tolist().index(token) + 1)
    rows[1, 0] = np.nan
    assert isinstance(sampler.prompt_logprobs(rows)[2], onedraw.RowError)
    with pytest.raises(onedraw.TensorError, match="these rows must be one matrix"):
        sampler.prompt_logprobs(rows[::-1])


def test_tokens_and_positions_are_checked() -> None:
    sampler, batch = onedraw.Sampler(), onedraw.Batch()
    one = batch.add()
    for accept in (sampler.accept, lambda token: batch.accept(one, token)):
        for token in (-1, 2**32):
            with pytest.raises(onedraw.ParamError, match=f"token: must be in .*, not {token}"):
                accept(token)
        for wrong in (True, 1.5, "a", None):
            with pytest.raises(TypeError, match="a token is an id, not an object of the type"):
                accept(wrong)
        accept(np.int64(3))
    for peek in (sampler.peek, lambda logits, ahead: batch.peek(one, logits, ahead)):
        assert peek([0.0, 1.0, 0.0, 0.0], 2**32 - 2).position == 2**32 - 1
        with pytest.raises(onedraw.ParamError, match="ahead: must be at most 4294967294, not 4294967295"):
            peek([0.0, 1.0, 0.0, 0.0], 2**32 - 1)


def test_bring_your_own_randomness() -> None:
    logits = np.log(np.array([0.5, 0.25, 0.25], "f4"))
    sampler = onedraw.Sampler()
    assert [sampler.sample_uniform(logits, u).token for u in (0.0, 0.49, 0.51, 0.74, 0.76)] == [0, 0, 1, 1, 2]
    with pytest.raises(onedraw.RowError, match="the uniform number 1 is not in"):
        sampler.sample_uniform(logits, 1.0)


def test_masks() -> None:
    logits = row(4, 70)
    allowed = [3, 40, 69]
    flags = np.zeros(70, bool)
    flags[allowed] = True
    words = np.zeros(3, "u4")
    for token in allowed:
        words[token // 32] |= np.uint32(1 << token % 32)
    for mask in (flags, words, words.view("i4"), flags.tolist(), np.packbits(flags, bitorder="little").tobytes().ljust(12, b"\0")):
        mask = np.frombuffer(mask, "u4") if isinstance(mask, bytes) else mask
        assert sorted(onedraw.distribution(logits, mask=mask).tokens) == allowed
        assert onedraw.Sampler(seed=1).sample(logits, mask=mask).token in allowed
        assert onedraw.Sampler(seed=1).explain(logits, mask=mask).stages[-1].tokens == 3
    rows = np.stack([logits, logits])
    assert [len(one) for one in onedraw.distribution(rows, mask=[None, flags])] == [70, 3]
    with pytest.raises(onedraw.RowError, match="the mask has 2 words of 32 bits; this vocabulary needs 3"):
        onedraw.sample(logits, mask=words[:2])
    with pytest.raises(onedraw.TensorError, match="the mask has a bool for 69 tokens; this row has 70"):
        onedraw.sample(logits, mask=flags[:-1])
    for count in (1, 3):
        with pytest.raises(onedraw.TensorError, match=f"there are {count} masks for 2 rows; give one a row, or None"):
            onedraw.sample(rows, mask=[flags] * count)
    with pytest.raises(TypeError, match="masks are a list with a mask or None for each row, not an object of the type int"):
        onedraw.sample(rows, mask=5)
    with pytest.raises(TypeError, match="a mask is one row of 32-bit words"):
        onedraw.sample(logits, mask=np.zeros(70))


def test_results_read_well() -> None:
    sampled = onedraw.sample([0.0, 5.0], seed=1, logprobs=2)
    assert repr(sampled) == "Sampled(token=1, logprob=-0.0067, probability=0.9933, rank=1, seed=1, position=0)"
    assert [10, 20][sampled] == 20
    assert sampled.to_dict()["logprobs"][1]["token"] == 0
    for result in (sampled, onedraw.sample(np.eye(4, dtype="f4"), seed=1, logprobs=2), onedraw.distribution(row(1, 50))):
        assert pickle.loads(pickle.dumps(result)) == result == copy.deepcopy(result)
    samples = onedraw.sample(np.zeros((10, 4), "f4"), temperature=0)
    assert repr(samples) == "Samples(10 rows, tokens=[0, 0, 0, 0, 0, 0, 0, 0, ...])"
    assert samples.tokens.dtype == np.int64
    assert samples.logprobs is None
    assert (samples[-1].token, len(samples[2:5]), [one.token for one in samples[::4]]) == (0, 3, [0, 0, 0])
    assert isinstance(samples, Sequence)
    other = onedraw.sample(np.eye(3, dtype="f4"), temperature=0, seed=1)
    assert (other.index(other[1]), other.count(other[1]), samples.count(other[1])) == (1, 1, 0)
    assert np.asarray(other).tolist() == other.tokens.tolist() == [0, 1, 2]
    assert np.asarray(other, dtype="f4").dtype == np.float32
    with pytest.raises(ValueError, match="is not among the rows"):
        samples.index(other[1])
    with pytest.raises(IndexError):
        samples[10**30]
    with pytest.raises(IndexError, match="there are 10 rows; 10 is none of them"):
        samples[10]
    with_logprobs = onedraw.sample(np.eye(3, dtype="f4"), temperature=0, logprobs=0)
    assert np.array_equal(with_logprobs.ranks, [1, 1, 1])
    assert np.allclose(with_logprobs.logprobs, 1 - np.log(np.e + 2))
    assert np.array_equal(with_logprobs.probabilities, [1, 1, 1]), "a greedy draw comes to one token for certain"
    distribution = onedraw.distribution([0.0, 1.0, 2.0])
    assert repr(distribution) == "Distribution(3 tokens, {2: 0.6652, 1: 0.2447, 0: 0.0900})"
    assert np.array_equal(distribution.dense(4), [*distribution.probabilities[::-1], 0])
    with pytest.raises(IndexError, match="token 2 is outside a vocabulary of 2"):
        distribution.dense(2)
    for size in (2**20 + 1, 10**14, 2**62):
        with pytest.raises(ValueError, match=f"a vocabulary has at most 1048576 tokens, not {size}"):
            distribution.dense(size)


def test_results_in_notebooks() -> None:
    """Bars as long as the probabilities, the drawn one in its colour, and nothing that a token could break out with."""
    html = onedraw.distribution(np.log(np.array([0.5, 0.25, 0.125, 0.125], "f4")))._repr_html_()
    assert [html.count(f"width:{width}px") for width in (240, 120, 60)] == [1, 1, 2]
    assert "50.0 %" in html and "4 tokens can be drawn" in html
    assert "80 more tokens with" in onedraw.distribution(np.zeros(100, "f4"))._repr_html_()
    sampled = onedraw.sample([0.0, 1.0, 2.0], seed=0, logprobs=3)
    html = sampled._repr_html_()
    assert html.count("<tr>") == 3
    assert html.count("#c2571a") == 1
    assert f"token {sampled.token}" in html
    assert onedraw.sample([0.0, 1.0], seed=0, logprobs=2, logprobs_mode="raw_logits")._repr_html_().count("<tr>") == 0
    explanation = onedraw.explain([2.0, 1.0, 0.5, -3.0], top_k=2, seed=1)
    assert "<td style=\"text-align:right\">top_k</td>" in explanation._repr_html_()
    assert onedraw.sample(np.zeros((3, 4), "f4"))._repr_html_().count("<tr>") == 4


def test_explain() -> None:
    explanation = onedraw.explain([2.0, 1.0, 0.5, -3.0], temperature=0.5, top_k=3, min_p=0.1, seed=1, listed=2)
    assert [(effect.stage, effect.tokens, effect.gone) for effect in explanation.stages] == [
        ("row", 4, 0), ("temperature", 4, 0), ("min_p", 2, 2), ("top_k", 2, 0)
    ]
    row, temperature, min_p, top_k = explanation.stages
    assert [candidate.token for candidate in min_p.removed] == [2, 3]
    # By how little they went: token 1 was the last that stayed. Probabilities are those at temperature 0.5.
    assert min_p.border is not None and min_p.border.token == 1
    weights = np.exp(np.array([2.0, 1.0, 0.5, -3.0]) / 0.5)
    shares = weights / weights.sum()
    short = [min_p.border.probability - candidate.probability for candidate in min_p.removed]
    np.testing.assert_allclose(short, shares[1] - shares[2:], atol=1e-6)
    assert (row.border, temperature.border, top_k.border) == (None, None, None)
    # The best two went, so there is no one place of the order.
    xtc = onedraw.explain([2.0, 1.0, 0.5], xtc_probability=1.0, xtc_threshold=0.1, seed=1).stages[-1]
    assert (xtc.stage, xtc.gone, xtc.border) == ("xtc", 2, None)
    assert explanation.stages[1].temperature == 0.5
    assert explanation.token == onedraw.sample([2.0, 1.0, 0.5, -3.0], temperature=0.5, top_k=3, min_p=0.1, seed=1).token
    assert repr(explanation).splitlines()[0].split() == ["stage", "tokens", "mass", "entropy", "best"]
    many = onedraw.explain(np.zeros((2, 4), "f4"))
    assert [one.stages[0].entropy for one in many] == [2.0, 2.0]
