"""One request, one text: alone or in a crowd, however vLLM arranges its work."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import Write
from kinds import KINDS, requests

pytestmark = pytest.mark.vllm


def tokens(run: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The tokens of each kind."""
    assert all("tokens" in one for one in run), run
    return {kind: one["tokens"] for kind, one in zip(KINDS, run, strict=True)}


@pytest.fixture(scope="session")
def expected(write: Write) -> dict[str, Any]:
    """The texts of all kinds in one batch, and alone, in a shuffled order, and with many neighbours."""
    asked = requests()
    shuffled = random.Random(5).sample(range(len(asked)), len(asked))
    crowd = asked + [{**one, "params": {**one["params"], "seed": 7}} for one in asked * 3][: 64 - len(asked)]
    alone = [[one] for one in asked]
    return write([asked, [asked[place] for place in shuffled], crowd, *alone], trace=True, max_num_seqs=64) | {"shuffled": shuffled}


def test_alone_and_in_a_crowd(expected: dict[str, Any]) -> None:
    together, shuffled, crowd, *alone = expected["runs"]
    assert tokens([one for run in alone for one in run]) == tokens(together)
    back = sorted(zip(expected["shuffled"], shuffled, strict=True), key=lambda pair: pair[0])
    assert tokens([one for _, one in back]) == tokens(together)
    assert tokens(crowd[: len(together)]) == tokens(together)
    # Texts that could not differ would prove nothing.
    assert len({tuple(one["tokens"]) for one in together}) == len(KINDS)


def test_equal_rows_give_equal_tokens(expected: dict[str, Any]) -> None:
    drawn: dict[tuple[int, int, str], set[int]] = {}
    for seed, position, row, token in expected["trace"]:
        if seed != 7:
            drawn.setdefault((seed, position, row), set()).add(token)
    assert all(len(each) == 1 for each in drawn.values())
    assert len(drawn) > 500
