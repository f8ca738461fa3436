"""Draws for the rows of a step on the CPU, without changing any sequence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import torch

from .._onedraw import Draft, RowError, RowsError, Sampled, Samples, SamplingParams, SequenceId
from .requests import Request, Requests


@dataclass(slots=True)
class Turn:
    """What a request wants of a step: a token, and before it those of its guesses that are right."""

    request: Request
    row: int
    """The row of logits after the text so far. The row after guess i is `row` + i + 1."""
    guesses: Sequence[int] = ()


@dataclass(slots=True)
class Drawn:
    """The tokens of a step."""

    samples: Samples
    """All draws, those of a turn one after the other."""
    counts: Sequence[int]
    """How many of them each turn has."""
    errors: dict[int, RowError] = field(default_factory=dict)
    """By turn, why it has no more."""

    def tokens(self, width: int, fill: int) -> torch.Tensor:
        """The tokens of each turn in a row of that width, int32."""
        drawn = torch.from_numpy(self.samples.table(0, 1)[0])
        if width == 1 and len(drawn) == len(self.counts):
            return drawn
        tokens = torch.full((len(self.counts), width), fill, dtype=torch.int32)
        for row, part in enumerate(drawn[:, 0].split(list(self.counts))):
            tokens[row, : len(part)] = part
        return tokens

    def places(self, begins: Sequence[int]) -> list[int]:
        """The row of each draw in a table in which a turn begins at that row."""
        return [begin + place for begin, count in zip(begins, self.counts, strict=True) for place in range(count)]


def draw_each(requests: Requests, asked: Sequence[Request], logits: torch.Tensor) -> Drawn:
    """One token for each request, row by row."""
    if not any(request.listed is not None or request.learns for request in asked):
        try:
            return Drawn(requests.batch.peek([request.sequence for request in asked], logits), [1] * len(asked))
        except RowsError:
            # Rarely: again, one by one, for the rows that can be sampled.
            pass
    return draw(requests, [Turn(request, row) for row, request in enumerate(asked)], logits)


def draw(requests: Requests, turns: Sequence[Turn], logits: torch.Tensor) -> Drawn:
    """The tokens of each turn. A row that cannot be sampled is the error of its request alone."""
    drawn: list[list[Sampled]] = []
    errors: dict[int, RowError] = {}
    for place, turn in enumerate(turns):
        tokens, error = _turn(requests, turn, logits[turn.row : turn.row + len(turn.guesses) + 1])
        if error is not None:
            errors[place] = error
        if turn.request.learns:
            turn.request.drawn = tokens
        drawn.append(tokens)
    return Drawn(Samples([one for tokens in drawn for one in tokens]), [len(tokens) for tokens in drawn], errors)


def _turn(requests: Requests, turn: Turn, rows: torch.Tensor) -> tuple[list[Sampled], RowError | None]:
    if turn.request.listed is not None:
        return _best(requests, turn, rows, turn.request.listed)
    verdict = requests.batch.verify(turn.request.sequence, Draft.chain(list(turn.guesses)), rows)
    if verdict.error is not None and verdict.error.kind == "nothing_left" and turn.request.relaxed is not None:
        return _relaxed(requests, turn.request.sequence, turn.request.relaxed, verdict.sampled, rows)
    return verdict.sampled, verdict.error


def _relaxed(requests: Requests, sequence: SequenceId, params: SamplingParams, drawn: list[Sampled], rows: torch.Tensor) -> tuple[list[Sampled], RowError | None]:
    """The tokens that were drawn, and one more with other parameters."""
    batch = requests.batch
    written = batch.output(sequence) + [one.token for one in drawn]
    other = batch.add(params.replace(output_token_ids=written, seed=batch.seed(sequence)))
    try:
        return [*drawn, batch.peek(other, rows[len(drawn)])], None
    except RowError as error:
        return drawn, error
    finally:
        batch.remove(other)


def _best(requests: Requests, turn: Turn, rows: torch.Tensor, listed: int) -> tuple[list[Sampled], RowError | None]:
    """The best token of each row, as long as the guesses are right. vLLM reports processed logprobs of greedy requests
    as if their temperature were 1."""
    batch, request = requests.batch, turn.request
    tokens: list[Sampled] = []
    try:
        for place, row in enumerate(rows):
            # Whatever is drawn, the best tokens are listed with it.
            drawn = batch.peek(request.sequence, row)
            best = sorted(drawn.logprobs, key=attrgetter("rank"))
            entries = [{"token": one.token, "logprob": one.logprob, "rank": one.rank} for one in best[: None if listed < 0 else max(listed, 1)]]
            tokens.append(Sampled.from_json(json.dumps({**drawn.to_dict(), **entries[0], "logprobs": entries})))
            if place == len(turn.guesses) or turn.guesses[place] != best[0].token:
                break
            batch.accept(request.sequence, best[0].token)
        return tokens, None
    except RowError as error:
        return tokens, error
    finally:
        batch.rewind(request.sequence, request.written)
