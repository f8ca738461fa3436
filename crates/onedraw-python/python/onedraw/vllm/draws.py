"""Draws for the rows of a step on the CPU, without changing any sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .._onedraw import Draft, RowError, RowsError, Sampled
from .requests import Request, Requests


@dataclass(slots=True)
class Turn:
    """What a request wants of a step: a token, and before it those of its guesses that are right."""

    request: Request
    row: int
    """The row of logits after the text so far. The row after guess i is `row` + i + 1."""
    guesses: Sequence[int] = ()


Drawn = tuple[Sequence[Sampled], RowError | None]
"""The tokens of a request, and why there are no more, if a row cannot be sampled."""


def draw(requests: Requests, turns: Sequence[Turn], logits: torch.Tensor) -> list[Drawn]:
    """The tokens of each turn. A row that cannot be sampled is the error of its request alone."""
    drawn: list[Drawn] = [((), None)] * len(turns)
    plain = [place for place, turn in enumerate(turns) if not turn.guesses]
    if plain:
        own = [turns[place].row for place in plain]
        rows = logits if own == list(range(len(logits))) else logits[own]
        for place, one in zip(plain, _peek(requests, [turns[place].request for place in plain], rows), strict=True):
            drawn[place] = ((), one) if isinstance(one, RowError) else ((one,), None)
    for place, turn in enumerate(turns):
        if turn.guesses:
            rows = logits[turn.row : turn.row + len(turn.guesses) + 1]
            verdict = requests.batch.verify(turn.request.sequence, Draft.chain(list(turn.guesses)), rows)
            drawn[place] = (verdict.sampled, verdict.error)
    for turn, (tokens, _) in zip(turns, drawn, strict=True):
        turn.request.drawn = tokens
    return drawn


def _peek(requests: Requests, asked: list[Request], rows: torch.Tensor) -> Sequence[Sampled | RowError]:
    try:
        return requests.batch.peek([request.sequence for request in asked], rows)
    except RowsError as error:
        results: Sequence[Sampled | RowError] = error.results
        return results
