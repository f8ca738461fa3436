"""Vocabularies over ranks: real processes, which exchange their messages over Gloo."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import row
from numpy.typing import NDArray

import onedraw

pytestmark = pytest.mark.peers
torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")

VOCABULARY = 3001
PARAMS: list[dict[str, Any]] = [
    {"temperature": 0, "seed": 0},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 2},
    {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.2, "prompt_token_ids": [1, 5, 900], "seed": 3},
    {"temperature": 0.8, "min_p": 0.05, "logit_bias": {7: 3.0}, "seed": 4},
    {"top_k": 20, "logprobs": 3, "logprobs_mode": "processed_logprobs", "seed": 5},
    {"typical_p": 0.9, "seed": 6},
    {"top_p": 0.95, "logprobs": 2, "seed": 7},
    {"mirostat": 2, "seed": 8},
]


def step_rows(step: int, count: int = len(PARAMS)) -> NDArray[np.float32]:
    return np.stack([row(100 * step + i, VOCABULARY) for i in range(count)])


def start(test: Any, world: int, folder: Path, timeout: float = 60.0) -> None:
    """Runs `test(rank, world, folder)` in so many processes, each in a process group."""
    torch.multiprocessing.spawn(enter, (test, world, folder, timeout), nprocs=world, join=True)


def enter(rank: int, test: Any, world: int, folder: Path, timeout: float) -> None:
    torch.set_num_threads(1)
    limit = timedelta(seconds=timeout)
    dist.init_process_group("gloo", f"file://{folder}/init", timeout=limit, rank=rank, world_size=world)
    test(rank, world, folder)
    dist.destroy_process_group()


def make(**options: Any) -> Any:
    from onedraw.distributed import Ranks

    return Ranks(VOCABULARY, **options)


def texts(rank: int, world: int, folder: Path) -> None:
    ranks, whole = make(), onedraw.Batch()
    start, end = ranks.bounds
    ids = [ranks.add(params) for params in PARAMS]
    expected_ids = [whole.add(params) for params in PARAMS]
    for step in range(8):
        rows = step_rows(step)
        expected = whole.sample(expected_ids, rows)
        assert list(ranks.sample(ids, rows[:, start:end])) == list(expected)
    assert [ranks.output(id) for id in ids] == [whole.output(id) for id in expected_ids]
    # Chains that one exchange decides share it.
    before = ranks.collectives
    for step in range(8, 16):
        ranks.sample(ids[:6], step_rows(step, 6)[:, start:end])
    assert ranks.collectives - before <= 10


def many(rank: int, world: int, folder: Path) -> None:
    ranks, whole, count = make(), onedraw.Batch(), 300
    first, end = ranks.bounds
    ids, expected_ids = ([batch.add(temperature=0.8, seed=seed) for seed in range(count)] for batch in (ranks, whole))
    rows = step_rows(2, count)
    before = ranks.collectives
    assert list(ranks.sample(ids, rows[:, first:end])) == list(whole.sample(expected_ids, rows))
    # The first message is longer than `PADDED`, and its length is known all the same.
    assert ranks.collectives - before == 1


def test_many_rows_take_one_collective(tmp_path: Path) -> None:
    start(many, 2, tmp_path)


@pytest.mark.parametrize("world", [2, 4, pytest.param(16, marks=pytest.mark.long)])
def test_texts_are_those_of_one_process(world: int, tmp_path: Path) -> None:
    start(texts, world, tmp_path)


def shapes(rank: int, world: int, folder: Path) -> None:
    bounds = [(0, 1000), (1000, 1000), (1000, 1063), (1063, VOCABULARY)][rank]
    ranks, whole = make(bounds=bounds), onedraw.Batch()
    params = onedraw.SamplingParams(top_p=0.9, seed=5)
    one, other = ranks.add(params), ranks.add("creative", seed=6)
    expected_one, expected_other = whole.add(params), whole.add("creative", seed=6)
    rows = torch.from_numpy(step_rows(1, 2)).to(torch.bfloat16)
    # Padded, as engines pad their vocabularies.
    part = torch.nn.functional.pad(rows[:, bounds[0] : bounds[1]], (0, 13), value=99.0)
    expected = whole.sample([expected_one, expected_other], rows)
    peeked = ranks.peek([one, other], part)
    assert list(peeked) == list(expected) and ranks.output(one) == []
    ranks.accept(one, peeked[0])
    ranks.accept(other, peeked[1])
    assert ranks.peek(one, part[0], 2) == whole.peek(expected_one, rows[0], 2)
    mask = np.zeros(VOCABULARY, dtype=bool)
    mask[[5, 999, 1001, 2000]] = True
    assert ranks.sample(one, part[0], masks=mask) == whole.sample(expected_one, rows[0], masks=mask)
    ranks.rewind(one, 0)
    whole.rewind(expected_one, 0)
    assert ranks.sample(one, part[0]).token == whole.sample(expected_one, rows[0]).token
    assert ranks.remove(other) and len(ranks) == 1
    with pytest.raises(onedraw.RowError, match="not in the batch"):
        ranks.sample(other, part[1])
    # Without a seed all ranks have the same one.
    seeds: list[Any] = [None] * world
    dist.all_gather_object(seeds, ranks.seed(ranks.add()))
    assert len(set(seeds)) == 1


def test_shapes_and_histories(tmp_path: Path) -> None:
    start(shapes, 4, tmp_path)


def disagreements(rank: int, world: int, folder: Path) -> None:
    from onedraw.distributed import RankError

    ranks = make()
    first, end = ranks.bounds
    rows = step_rows(3, 3)
    part = rows[:, first:end].copy()
    ids = [ranks.add(seed=1), ranks.add(temperature=0.7 if rank == 1 else 0.8, seed=2), ranks.add(seed=3)]
    with pytest.raises(onedraw.RowsError) as raised:
        ranks.sample(ids, part)
    assert list(raised.value.errors) == [1]
    assert "shard 1 disagrees with shard 0 about the parameters" in str(raised.value)
    assert [len(ranks.output(id)) for id in ids] == [1, 0, 1]
    # A rank has a token more, and one has a NaN.
    if rank == 1:
        ranks.accept(ids[0], 9)
    if rank == 0:
        part[2, 7] = np.nan
    with pytest.raises(onedraw.RowsError) as raised:
        ranks.sample([ids[0], ids[2]], part[[0, 2]])
    assert "about the history" in str(raised.value.errors[0])
    assert "token 7 is NaN" in str(raised.value.errors[1]) or raised.value.errors[1].kind == "nan_logit"
    # A rank gives logits of another length, then no logits at all.
    fresh = ranks.add(seed=9)
    with pytest.raises(onedraw.RowError, match="shard 1 holds 1 tokens"):
        ranks.sample(fresh, part[0] if rank != 1 else part[0][:1])
    with pytest.raises(onedraw.OnedrawError) as failed:
        ranks.sample(fresh, part[0] if rank != 1 else np.zeros(4, dtype="i8"))
    assert rank == 1 or "shard 1 could not answer" in str(failed.value)
    assert ranks.output(fresh) == []
    assert ranks.sample(fresh, rows[1, first:end]) == onedraw.sample(rows[1], seed=9)
    with pytest.raises(RankError, match="rank 1 holds the tokens") as wrong:
        make(bounds=(first + (rank == 1), end))
    assert wrong.value.ranks == (1,)
    from onedraw.distributed import Ranks

    with pytest.raises(RankError, match="rank 1 has a vocabulary of"):
        Ranks(VOCABULARY + rank)


def test_ranks_that_disagree(tmp_path: Path) -> None:
    start(disagreements, 2, tmp_path)


def death(rank: int, world: int, folder: Path) -> None:
    from onedraw.distributed import RankError

    ranks = make(patience=6.0)
    first, end = ranks.bounds
    # The second chain takes several exchanges: the rank dies between two of them.
    ids = [ranks.add(seed=1), ranks.add(typical_p=0.9, seed=2)]
    part = step_rows(5, 2)[:, first:end]
    ranks.sample(ids, part)
    if rank == 2:
        gather, before = ranks._gather, ranks.collectives

        def die(message: bytes, room: int, *, is_first: bool) -> list[bytes]:
            if ranks.collectives > before:
                os._exit(0)
            return list(gather(message, room, is_first=is_first))

        ranks._gather = die
    began = time.monotonic()
    with pytest.raises(RankError) as raised:
        ranks.sample(ids, part)
    assert time.monotonic() - began < 25
    assert raised.value.ranks == (2,) and "no word from rank 2:" in str(raised.value)
    assert [len(ranks.output(id)) for id in ids] == [1, 1]
    (folder / f"named-by-{rank}").write_text(str(raised.value))
    # The group is of no use any more.
    os._exit(0)


def test_a_rank_that_dies_is_named(tmp_path: Path) -> None:
    start(death, 3, tmp_path, timeout=10.0)
    assert sorted(path.name for path in tmp_path.glob("named-by-*")) == ["named-by-0", "named-by-1"]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    dist.init_process_group("gloo", f"file://{tmp_path}/init", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("length", [-1, 2**19 + 1])
def test_a_rank_that_announces_an_impossible_length_is_named(alone: None, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    from onedraw.distributed import RankError

    ranks, room = make(), 2**19
    monkeypatch.setattr(ranks, "_all_gather", lambda own: [own, torch.tensor([length])])
    with pytest.raises(RankError, match=f"rank 1 announces a message of {length} bytes; the longest has {room}") as raised:
        ranks._gather(b"short", room, is_first=False)
    assert raised.value.ranks == (1,)


class Store(dict[str, str]):
    """A store that is in this process."""

    set = dict.__setitem__

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)


def test_ranks_of_two_objects_do_not_answer_for_each_other(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, store = make(patience=0.1), make(patience=0.1), Store()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    first.count, first.rank = second.count, second.rank = 2, 0
    assert first._missing() == [1] and first.collectives == second.collectives
    second.rank = 1
    # Rank 0 has answered for the other object alone.
    assert second._missing() == [0]
    first.rank = 1
    assert first._missing() == []


def test_nobody_is_named_if_the_store_cannot_be_reached(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from onedraw import distributed

    def gone(*arguments: Any, **named: Any) -> None:
        raise RuntimeError("broken pipe")

    ranks = make()
    ranks.count, ranks.rank = 2, 1
    monkeypatch.setattr(distributed, "_all_gather", gone)
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", gone)
    with pytest.raises(distributed.RankError, match="the group's store cannot be reached either: broken pipe") as raised:
        ranks._all_gather(torch.zeros(1))
    assert raised.value.ranks == ()


def test_seeds_do_not_depend_on_pytorchs_generator(alone: None) -> None:
    seeds, states = set(), []
    for _ in range(2):
        torch.manual_seed(5)
        ranks = make()
        seeds.add(ranks.seed(ranks.add()))
        states.append(torch.rand(1).item())
    assert len(seeds) == 2 and len(set(states)) == 1
