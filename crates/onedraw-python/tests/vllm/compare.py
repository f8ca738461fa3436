"""What texts have in common that must not differ."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kinds import KINDS

ACCEPTED = "vllm:spec_decode_num_accepted_tokens"


def tokens(run: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The tokens of each kind."""
    assert all("tokens" in one for one in run), run
    return {kind: one["tokens"] for kind, one in zip(KINDS, run, strict=True)}


def check_guesses(together: list[dict[str, Any]], written: dict[str, Any]) -> None:
    """Some guesses were right, and nothing else changed."""
    assert tokens(written["runs"][0]) == tokens(together)
    assert written["metrics"][ACCEPTED] > 0
    check_logprobs(together, written["runs"][0])


def check_logprobs(plain: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """The same positions, tokens, ranks and values."""
    theirs, ours = (run[list(KINDS).index("logprobs")] for run in (plain, other))
    assert len(ours["logprobs"]) == len(ours["tokens"])
    for own, its in zip(ours["logprobs"], theirs["logprobs"], strict=True):
        assert {token: rank for token, (_, rank) in own.items()} == {token: rank for token, (_, rank) in its.items()}
        assert all(abs(own[token][0] - its[token][0]) < 1e-5 for token in own)


def drawn_from(traces: Iterable[list[Any]]) -> dict[tuple[int, int, str], set[int]]:
    """The tokens that were drawn for each seed, position and row of logits. One row in two texts gives one token."""
    drawn: dict[tuple[int, int, str], set[int]] = {}
    for trace in traces:
        for seed, position, row, token in trace:
            drawn.setdefault((seed, position, row), set()).add(token)
    return drawn
