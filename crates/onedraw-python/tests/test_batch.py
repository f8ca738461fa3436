"""Many sequences."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import row

import onedraw


def test_a_row_depends_on_its_own_sequence_alone() -> None:
    settings = [{"temperature": 0.5 + 0.1 * i, "top_p": 0.9, "seed": i, "repetition_penalty": 1.2} for i in range(12)]
    rows = np.stack([row(seed, 400) for seed in range(12)])
    alone = []
    for params, logits in zip(settings, rows, strict=True):
        sampler = onedraw.Sampler(params)
        alone.append([sampler.sample(logits).token for _ in range(4)])
    for threads in (1, 2, 0):
        batch = onedraw.Batch(threads=threads)
        ids = [batch.add(params) for params in settings]
        for step in range(4):
            turn = np.random.default_rng(step).permutation(12)
            drawn = batch.sample([ids[i] for i in turn], rows[turn])
            assert drawn.tokens.tolist() == [alone[i][step] for i in turn]
        assert [batch.output(one) for one in ids] == alone


def test_sequences_come_and_go() -> None:
    batch = onedraw.Batch()
    first, second = batch.add(seed=1), batch.add(seed=2)
    assert (len(batch), batch.seed(second), first == second, len({first, second, first})) == (2, 2, False, 2)
    assert batch.remove(first)
    assert not batch.remove(first)
    third = batch.add(seed=3)
    assert third != first, "an id is not used again"
    for use in (lambda: batch.output(first), lambda: batch.accept(first, 1), lambda: batch.fork(first), lambda: batch.mirostat_mu(first)):
        with pytest.raises(onedraw.RowError) as raised:
            use()
        assert raised.value.kind == "unknown_sequence"
    with pytest.raises(onedraw.RowsError) as rows:
        batch.sample([second, first, third], np.zeros((3, 4), "f4"))
    assert {number: error.kind for number, error in rows.value.errors.items()} == {1: "unknown_sequence"}
    assert len(batch.output(second)) == len(batch.output(third)) == 1


def test_a_sequence_belongs_to_its_batch() -> None:
    here, there = onedraw.Batch(), onedraw.Batch()
    mine, theirs = here.add(seed=1), there.add(seed=2)
    assert mine != theirs
    with pytest.raises(onedraw.RowError) as raised:
        there.sample(mine, np.zeros(4, "f4"))
    assert raised.value.kind == "unknown_sequence"
    assert there.output(theirs) == []
    assert not there.remove(mine)


def test_threads_have_a_bound() -> None:
    for threads in (1025, 10**6, 2**62):
        with pytest.raises(onedraw.ParamError, match=f"threads: must be in .0, 1024., not {threads}"):
            onedraw.Batch(threads=threads)
        with pytest.raises(onedraw.ParamError, match="threads: must be in"):
            onedraw.Generator(threads=threads)


def test_a_bad_row_leaves_its_sequence_as_it_was() -> None:
    batch = onedraw.Batch()
    good, bad = batch.add(temperature=0), batch.add(temperature=0)
    rows = np.array([[0, 1], [np.nan, 1]], "f4")
    with pytest.raises(onedraw.RowsError) as raised:
        batch.sample([good, bad], rows)
    assert raised.value.results[0].token == 1
    assert (batch.output(good), batch.output(bad)) == ([1], [])


def test_one_sequence_and_one_row() -> None:
    batch = onedraw.Batch()
    one = batch.add(seed=4)
    logits = row(1, 60)
    assert batch.peek(one, logits) == onedraw.Sampler(seed=4).peek(logits)
    assert batch.peek(one, logits, 3) == onedraw.Sampler(seed=4).peek(logits, 3)
    assert batch.distributions(one, logits) == onedraw.distribution(logits)
    assert batch.explanations(one, logits).token == batch.sample(one, logits).token
    assert [entry.rank for entry in batch.best(one, logits, 3)] == [1, 2, 3]
    assert [len(best) for best in batch.best([one], [logits], 2)] == [2]


def test_repeated_and_missing_rows() -> None:
    batch = onedraw.Batch()
    one = batch.add()
    with pytest.raises(onedraw.RowsError, match="the sequence has two steps in one call"):
        batch.sample([one, one], np.zeros((2, 4), "f4"))
    with pytest.raises(onedraw.TensorError, match="there are 1 sequences and 2 rows; each sequence has one row"):
        batch.sample([one], np.zeros((2, 4), "f4"))
    assert len(batch.sample([], [])) == len(batch.sample([], ())) == len(batch.sample([], np.zeros((0, 4), "f4"))) == 0
    assert repr(one) == "SequenceId(slot=0, generation=0)"
    with pytest.raises(TypeError):
        batch.sample([1, 2], np.zeros((2, 4), "f4"))


def test_forks_and_saves() -> None:
    batch = onedraw.Batch()
    one = batch.add(seed=6, temperature=1.5)
    logits = row(2, 90)
    batch.sample(one, logits)
    fork, loaded = batch.fork(one), batch.load(batch.save(one))
    assert batch.sample([one, fork, loaded], np.stack([logits] * 3)).tokens.tolist() == [batch.output(one)[1]] * 3
    batch.rewind(one, 0)
    assert batch.output(one) == []
    assert batch.output(fork) == batch.output(loaded)


def test_masks_of_some_rows() -> None:
    batch = onedraw.Batch()
    ids = batch.add_all(n=3, seed=1)
    only = np.zeros(50, bool)
    only[7] = True
    rows = np.stack([row(seed, 50) for seed in range(3)])
    plain = batch.peek(ids, rows).tokens
    masked = batch.sample(ids, rows, masks=[None, only, None]).tokens
    assert masked.tolist() == [plain[0], 7, plain[2]]


def test_guesses() -> None:
    batch = onedraw.Batch()
    one = batch.add(seed=3)
    logits = row(5, 40, 1.0)
    runners = batch.runners(one, logits, 5)
    assert runners[0].token == batch.peek(one, logits).token
    assert [runner.behind for runner in runners] == sorted(runner.behind for runner in runners)
    guess = batch.guess(one, logits, 3, 0)
    law = onedraw.distribution(logits).dense(40)
    for token in guess.tokens:
        probability = guess.probability(token)
        assert probability is not None
        # The law is of the weights, which have the 24 bits of an f32.
        assert probability == pytest.approx(law[token], rel=2**-23)
    assert batch.guess(batch.add(temperature=0), logits, 1, 0).probability(0) is None
    draft = onedraw.Draft()
    draft.grow(None, [int(np.argmax(logits))], onedraw.distribution(logits))
    verdict = batch.verify(one, draft, [logits, logits], verify="rejection")
    assert (verdict.path, len(verdict.tokens)) == ([0], 2), "the target's own law accepts every guess"
    with pytest.raises(IndexError, match="there is no node 7: the draft has 1"):
        draft.grow(7, [1])
    with pytest.raises(onedraw.RowError, match="a draft of 1 tokens needs 2 rows, not 1"):
        batch.verify(one, draft, logits)
    with pytest.raises(onedraw.ParamError, match="verify: must be one of exact, rejection, block, typical"):
        batch.verify(one, draft, [logits, logits], verify="hope")


def test_logprobs_as_a_table() -> None:
    batch = onedraw.Batch()
    rows = np.array([[0.0, 3.0, 1.0, 2.0], [5.0, 0.0, -np.inf, -np.inf], [1.0, 2.0, 3.0, 4.0]], "f4")
    ids = [batch.add(temperature=0, logprobs=2), batch.add(temperature=0, logprobs=3, seed=1), batch.add(temperature=0)]
    samples = batch.sample(ids, rows)
    tokens, logprobs, ranks = samples.table(3, 4)
    assert (tokens.dtype, logprobs.dtype, ranks.dtype) == (np.int32, np.float32, np.int64)
    # The drawn token, the best in order with the drawn one among them, then ids that are not listed.
    assert tokens.tolist() == [[1, 1, 3, 0], [0, 0, 1, 2], [3, 0, 1, 2]]
    assert np.isneginf(logprobs).tolist() == [[False, False, False, True], [False, False, False, True], [True] * 4]
    assert ranks.tolist() == [1, 1, 0]
    assert logprobs[0, 2] == np.float32(samples[0].logprobs[1].logprob)
    # A token that is not among the best, and one that is in their middle.
    warm = [onedraw.sample(rows[0], temperature=5.0, logprobs=2, seed=seed) for seed in range(40)]
    tokens, _, ranks = onedraw.Samples(warm).table(2, 4)
    assert {tuple(line) for line in tokens.tolist()} == {(token, 1, 3) for token in range(4)}
    assert [sorted([1, 3, 2, 0].index(line[0]) + 1 for line in tokens.tolist())] == [sorted(ranks.tolist())]
    with pytest.raises(onedraw.ParamError, match="best: must be at most the vocabulary of 4, not 5"):
        samples.table(5, 4)


def test_tokens_are_appended_to_several_sequences_at_once() -> None:
    batch = onedraw.Batch()
    first, second = batch.add(seed=1), batch.add(seed=2)
    batch.accept([first, second], [7, 8])
    batch.accept((first,), np.array([9]))
    assert [batch.output(one) for one in (first, second)] == [[7, 9], [8]]
    with pytest.raises(onedraw.ParamError, match="token: are 1 for 2 sequences"):
        batch.accept([first, second], [1])
    batch.remove(second)
    with pytest.raises(onedraw.RowError):
        batch.accept([first, second], [1, 2])
    assert batch.output(first) == [7, 9]
