"""Draws for the rows of a step on the CPU, without changing any sequence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import torch

from .._onedraw import RowError, Sampled, Samples, SamplingParams, SequenceId
from .requests import Masks, Outcome, Request, Requests, Turn

FAILED = 1 << 16
"""A runner reports a request that cannot go on as one with a multiple of so many NaNs in its logits, and one more for each
token of the step that was drawn before the bad row. Smaller counts say nothing about tokens: there is none to keep."""

NO_MEMORY = 4 * FAILED
"""What is reported of a request that a device has no memory for. Its kernels report one to three times `FAILED`."""


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


def draw_each(requests: Requests, asked: Sequence[Request], logits: torch.Tensor, masks: Masks = None) -> Drawn:
    """One token for each request, row by row."""
    if not any(request.listed is not None or request.learns for request in asked):
        drawn = requests.peek([request.sequence for request in asked], logits, masks)
        if isinstance(drawn, Samples):
            return Drawn(drawn, [1] * len(asked))
    return draw(requests, [Turn(request, row) for row, request in enumerate(asked)], logits, masks)


def draw(requests: Requests, turns: Sequence[Turn], logits: torch.Tensor, masks: Masks = None) -> Drawn:
    """The tokens of each turn. A row that cannot be sampled is the error of its request alone."""
    usual = [turn for turn in turns if turn.request.listed is None]
    outcomes = dict(zip(map(id, usual), requests.verify(usual, logits, masks), strict=True))
    drawn: list[list[Sampled]] = []
    errors: dict[int, RowError] = {}
    for place, turn in enumerate(turns):
        request = turn.request
        tokens, error = outcomes[id(turn)] if request.listed is None else _best(requests, turn, logits, masks, request.listed)
        if error is not None and error.kind == "nothing_left" and request.relaxed is not None:
            row = turn.row + len(tokens)
            tokens, error = _relaxed(requests, request.sequence, request.relaxed, tokens, *_row(logits, masks, row))
        if error is not None:
            errors[place] = error
        if request.learns:
            request.drawn = tokens
        drawn.append(tokens)
    return Drawn(Samples([one for tokens in drawn for one in tokens]), [len(tokens) for tokens in drawn], errors)


def _row(logits: torch.Tensor, masks: Masks, row: int) -> tuple[torch.Tensor, Masks]:
    """One row of the logits, and of the masks."""
    return logits[row : row + 1], None if masks is None else masks[row : row + 1]


def _relaxed(requests: Requests, sequence: SequenceId, params: SamplingParams, drawn: list[Sampled], row: torch.Tensor, mask: Masks) -> Outcome:
    """The tokens that were drawn, and one more with other parameters."""
    batch = requests.batch
    written = batch.output(sequence) + [one.token for one in drawn]
    other = batch.add(params.replace(output_token_ids=written, seed=batch.seed(sequence)))
    one = requests.peek([other], row, mask)[0]
    batch.remove(other)
    return (drawn, one) if isinstance(one, RowError) else ([*drawn, one], None)


def _best(requests: Requests, turn: Turn, logits: torch.Tensor, masks: Masks, listed: int) -> Outcome:
    """The best token of each row, as long as the guesses are right. vLLM reports processed logprobs of greedy requests
    as if their temperature were 1."""
    batch, request = requests.batch, turn.request
    tokens: list[Sampled] = []
    error: RowError | None = None
    for place in range(len(turn.guesses) + 1):
        # Whatever is drawn, the best tokens are listed with it.
        drawn = requests.peek([request.sequence], *_row(logits, masks, turn.row + place))[0]
        if isinstance(drawn, RowError):
            error = drawn
            break
        best = sorted(drawn.logprobs, key=attrgetter("rank"))
        entries = [{"token": one.token, "logprob": one.logprob, "rank": one.rank} for one in best[: None if listed < 0 else max(listed, 1)]]
        tokens.append(Sampled.from_json(json.dumps({**drawn.to_dict(), **entries[0], "logprobs": entries})))
        if place == len(turn.guesses) or turn.guesses[place] != best[0].token:
            break
        batch.accept(request.sequence, best[0].token)
    batch.rewind(request.sequence, request.written)
    return tokens, error
