"""The requests of an engine as sequences of a batch, kept in step with what vLLM has written."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from .._onedraw import Batch, Sampled, SamplingParams, SequenceId


@dataclass(slots=True)
class Request:
    """A request in the batch."""

    sequence: SequenceId
    owner: object
    """The runner's own record; another one is another request."""
    written: int = 0
    """Tokens of the output that the sequence has."""
    drawn: Sequence[Sampled] = ()
    """What was drawn at the last step, from the position `written` on. vLLM may use all of it, some or none."""


class Requests:
    """The sequences of a runner's requests. vLLM's list of output tokens is the truth: draws are not appended here
    until vLLM has appended them."""

    def __init__(self, threads: int) -> None:
        self.batch = Batch(threads=threads)
        self._requests: dict[str, Request] = {}

    def get(self, name: str, owner: object) -> Request | None:
        """The request of that name, if it is the one that `owner` keeps."""
        request = self._requests.get(name)
        return request if request is not None and request.owner is owner else None

    def add(self, name: str, owner: object, params: SamplingParams) -> Request:
        """Adds a request; it replaces an earlier one of the same name."""
        self.remove(name)
        request = self._requests[name] = Request(self.batch.add(params), owner)
        return request

    def remove(self, name: str) -> None:
        """Forgets a request, if it is there."""
        request = self._requests.pop(name, None)
        if request is not None:
            self.batch.remove(request.sequence)

    def find(self, name: str, params: SamplingParams) -> Request | None:
        """The request of that name, if it has these parameters."""
        request = self._requests.get(name)
        return request if request is not None and request.owner == params else None

    def keep(self, alive: Container[str], most: int) -> None:
        """Forgets all requests that are not among these, if there are more than `most`."""
        if len(self._requests) > most:
            for name in [name for name in self._requests if name not in alive]:
                self.remove(name)

    def follow(self, request: Request, output: Sequence[int]) -> None:
        """Brings a sequence to what vLLM has written."""
        length, drawn = len(output), request.drawn
        if length == request.written + 1 and drawn and drawn[0].token == output[-1]:
            # What nearly always happens.
            self.batch.accept(request.sequence, drawn[0])
        elif length != request.written:
            self._follow(request, output)
        request.written, request.drawn = length, ()

    def _follow(self, request: Request, output: Sequence[int]) -> None:
        own = self.batch.output(request.sequence)
        same = next((place for place, (ours, theirs) in enumerate(zip(own, output, strict=False)) if ours != theirs), min(len(own), len(output)))
        if same < len(own):
            self.batch.rewind(request.sequence, same)
        begun = request.written
        for place in range(same, len(output)):
            # A draw itself, where it was used: mirostat learns from it.
            drawn = request.drawn[place - begun] if begun <= place < begun + len(request.drawn) else None
            is_used = drawn is not None and same >= begun and drawn.token == output[place]
            self.batch.accept(request.sequence, drawn if is_used and drawn is not None else int(output[place]))
