"""The requests of an engine as sequences of a batch, kept in step with what vLLM has written."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from .._onedraw import Batch, Draft, RowError, RowsError, Sampled, Samples, SamplingParams, SequenceId

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class Request:
    """A request in the batch."""

    sequence: SequenceId
    owner: object
    """What it was made from; another one is another request."""
    learns: bool
    """Whether a draw changes more than the text, as mirostat's does."""
    listed: int | None = None
    """If its token is the best of a list, not drawn: how many logprobs it wants."""
    relaxed: SamplingParams | None = None
    """Parameters for a row of which the usual ones leave nothing."""
    written: int = 0
    """Tokens of the output that the sequence has."""
    drawn: Sequence[Sampled] = ()
    """If it learns, what was drawn at the last step. vLLM may use all of it, some or none."""


@dataclass(slots=True)
class Turn:
    """What a request wants of a step: a token, and before it those of its guesses that are right."""

    request: Request
    row: int
    """The row of logits after the text so far. The row after guess i is `row` + i + 1."""
    guesses: Sequence[int] = ()


Outcome: TypeAlias = tuple[list[Sampled], RowError | None]
"""The tokens of a turn, and why there are no more, if a row cannot be sampled."""

Peeked: TypeAlias = Samples | list[Sampled | RowError]
"""The tokens of rows, with errors in the places of rows that cannot be sampled."""

Masks: TypeAlias = list[Any] | None
"""The tokens that each row allows, as 32-bit words, or None for all of them; None where no row has a mask."""


class Requests:
    """The sequences of a runner's requests. vLLM's list of output tokens is the truth: draws are not appended here
    until vLLM has appended them."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.known: dict[str, Request] = {}
        self._peek: Any = batch.peek

    def peek(self, sequences: list[SequenceId], logits: torch.Tensor, masks: Masks = None) -> Peeked:
        """A token for each sequence from its row, or the error of the row. A mask of None allows every token."""
        try:
            samples: Samples = self._peek(sequences, logits, masks=masks)
            return samples
        except RowsError as error:
            results: list[Sampled | RowError] = error.results
            return results

    def verify(self, turns: Sequence[Turn], logits: torch.Tensor, masks: Masks = None) -> list[Outcome]:
        """The tokens of each turn: those of its guesses that are right, and the one after them. Masks are in the
        logits here."""
        outcomes = []
        for turn in turns:
            rows = logits[turn.row : turn.row + len(turn.guesses) + 1]
            verdict = self.batch.verify(turn.request.sequence, Draft.chain(list(turn.guesses)), rows)
            outcomes.append((verdict.sampled, verdict.error))
        return outcomes

    def add(self, name: str, owner: object, params: SamplingParams, *, listed: int | None = None, relaxed: SamplingParams | None = None) -> Request:
        """Adds a request; it replaces an earlier one of the same name."""
        self.remove(name)
        request = self.known[name] = Request(self.batch.add(params), owner, params.mirostat != 0, listed, relaxed)
        return request

    def find(self, name: str, owner: object) -> Request | None:
        """The request of that name, if it was made from the same."""
        request = self.known.get(name)
        return request if request is not None and request.owner == owner else None

    def remove(self, name: str) -> None:
        """Forgets a request, if it is there."""
        request = self.known.pop(name, None)
        if request is not None:
            self.batch.remove(request.sequence)

    def keep(self, alive: Container[str], most: int) -> None:
        """Forgets all requests that are not among these, if there are more than `most`."""
        if len(self.known) > most:
            for name in [name for name in self.known if name not in alive]:
                self.remove(name)

    def follow(self, written: Iterable[tuple[Request, Sequence[int]]]) -> None:
        """Brings sequences to what vLLM has written."""
        longer, tokens = [], []
        for request, output in written:
            length = len(output)
            if length == request.written:
                continue
            if length == request.written + 1 and not request.learns:
                # What nearly always happens; appended all at once.
                longer.append(request.sequence)
                tokens.append(int(output[-1]))
            else:
                self._follow(request, output)
            request.written = length
        if longer:
            self.batch.accept(longer, tokens)

    def _follow(self, request: Request, output: Sequence[int]) -> None:
        own = self.batch.output(request.sequence)
        differs = (place for place, (ours, theirs) in enumerate(zip(own, output, strict=False)) if ours != theirs)
        same = next(differs, min(len(own), len(output)))
        if same < len(own):
            self.batch.rewind(request.sequence, same)
        for place in range(same, len(output)):
            # A draw itself where it was used, because it was learned from.
            drawn = next((one for one in request.drawn if one.position == place and one.token == output[place]), None)
            self.batch.accept(request.sequence, int(output[place]) if drawn is None else drawn)
