"""Draws over the ranks of `torch.distributed`: each rank holds a part of the vocabulary, and every rank gets the
tokens. Nobody gathers the logits.

Each rank gives its part of every row. A step of a whole batch takes one all-gather of about a kilobyte for each
row, nearly always; rows that it does not decide take further ones, which they share. The tokens are those of the
whole rows, drawn by one process.

Logits may be on a GPU. Then the GPU makes the first message of all rows, with the bytes that a CPU would send, and
NCCL gathers it from there. Further messages, and the chains that a GPU cannot draw yet, are as on the CPU.

>>> import torch.distributed as dist  # doctest: +SKIP
>>> from onedraw.distributed import Ranks  # doctest: +SKIP
>>> dist.init_process_group("gloo")  # doctest: +SKIP
>>> ranks = Ranks(vocabulary=128_256)  # doctest: +SKIP
>>> story = ranks.add(temperature=0.8, top_p=0.9, seed=7)  # doctest: +SKIP
>>> ranks.sample([story], local_logits).tokens  # doctest: +SKIP

Every rank makes the same calls in the same order. Needs `pip install onedraw[distributed]`.
"""

from __future__ import annotations

import functools
import secrets
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

import torch
import torch.distributed as dist

from ._onedraw import (
    Batch,
    CudaMessage,
    OnedrawError,
    Rewind,
    Sampled,
    Samples,
    SamplingParams,
    SequenceId,
    cuda_is_available,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._types import Kernel, Logits, Mask, Masks, Parameters, Params, Row, Token

__all__ = ["RankError", "Ranks"]

# The name that PyTorch 2.13 gave it, and the one before.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor

PADDED: int = 1 << 18
"""Messages after the first one of a draw that may be longer than this are not filled up to one length: their lengths
are gathered first."""


class RankError(OnedrawError):
    """The ranks could not exchange their messages, or do not fit together. Nothing was drawn."""

    ranks: tuple[int, ...]
    """The ranks that are to blame, as far as they are known."""

    def __init__(self, message: str, ranks: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)


class Ranks:
    """Sequences that every rank of a process group has, each with its own parameters, seed and history.

    `vocabulary` is the number of logits in a whole row. `bounds` is the part that this rank holds, as the first
    id and the id after the last; without it, the ranks hold equal parts in their order. Rows may be longer than
    the part: what comes after it is padding.

    The messages go over `group`, or over the default group: as tensors on the CPU, or with NCCL on the rank's
    current GPU. `device_steps` counts the steps whose first message was made on a GPU. A rank that does not answer
    is a `RankError`, after the group's timeout at the latest, and nothing is appended. `patience` is how many
    seconds a rank then waits to hear from the others which of them are still there, to name those that are not.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        bounds: tuple[int, int] | None = None,
        group: Any = None,
        threads: int = 1,
        kernel: Kernel = "auto",
        patience: float = 5.0,
    ) -> None:
        self.group = group
        self.rank: int = dist.get_rank(group)
        """This rank's number."""
        self.count: int = dist.get_world_size(group)
        """How many ranks there are."""
        self.vocabulary = vocabulary
        """The number of logits in a whole row."""
        edge = [vocabulary * number // self.count for number in (self.rank, self.rank + 1)]
        self.bounds: tuple[int, int] = (edge[0], edge[1]) if bounds is None else bounds
        """The part of the vocabulary that this rank holds."""
        self.collectives = 0
        """How many collectives there were so far."""
        self.device_steps = 0
        """How many steps had their first message made on a GPU."""
        self.batch = Batch(threads=threads, kernel=kernel)
        """The sequences, as this rank has them."""
        self._device = torch.device("cuda", torch.cuda.current_device()) if _is_nccl(group) else torch.device("cpu")
        self._patience = patience
        self._added = 0
        self._key: int | None = None
        self._seed, self._key = self._agree()

    def add(self, params: Params = None, **parameters: Unpack[Parameters]) -> SequenceId:
        """Adds a sequence: the first of the `n` that the parameters ask for. Without a seed it gets one that is the
        same on all ranks."""
        read = _read(params, parameters)
        self._added += 1
        if read.seed is None:
            read = read.replace(seed=(self._seed + 0x9E3779B97F4A7C15 * self._added) % (1 << 64))
        return self.batch.add(read)

    def remove(self, sequence: SequenceId) -> bool:
        """Removes a sequence. Returns whether it was there."""
        return self.batch.remove(sequence)

    @overload
    def sample(self, sequences: SequenceId, logits: Row, *, masks: Mask | None = None) -> Sampled: ...
    @overload
    def sample(self, sequences: Iterable[SequenceId], logits: Logits, *, masks: Masks | None = None) -> Samples: ...
    def sample(
        self,
        sequences: SequenceId | Iterable[SequenceId],
        logits: Row | Logits,
        *,
        masks: Mask | Masks | None = None,
    ) -> Sampled | Samples:
        """Draws a token for each sequence and appends it, on every rank. `logits` are this rank's parts of the rows;
        masks are those of whole rows. Rows that cannot be sampled raise `RowsError` on every rank, which carries
        the results of the others."""
        return self._draw(sequences, logits, None, masks)

    @overload
    def peek(self, sequences: SequenceId, logits: Row, ahead: int = 0, *, masks: Mask | None = None) -> Sampled: ...
    @overload
    def peek(
        self, sequences: Iterable[SequenceId], logits: Logits, ahead: int = 0, *, masks: Masks | None = None
    ) -> Samples: ...
    def peek(
        self,
        sequences: SequenceId | Iterable[SequenceId],
        logits: Row | Logits,
        ahead: int = 0,
        *,
        masks: Mask | Masks | None = None,
    ) -> Sampled | Samples:
        """Like `sample`, but `ahead` positions after the next one, and without changing the histories."""
        return self._draw(sequences, logits, ahead, masks)

    def accept(self, sequence: SequenceId, token: Token) -> None:
        """Appends a `Sampled` that `peek` drew at the next position, or the id of a token chosen elsewhere."""
        self.batch.accept(sequence, token)

    def rewind(self, sequence: SequenceId, length: int) -> None:
        """Takes back the tokens of a sequence after the first `length` of its output. This is an undo."""
        self.batch.rewind(sequence, length)

    def take_back(self, sequence: SequenceId, rewind: Rewind) -> None:
        """Takes text back because of what was drawn, as a `StopMatcher` decided."""
        self.batch.take_back(sequence, rewind)

    def output(self, sequence: SequenceId) -> list[int]:
        """The tokens a sequence has written so far."""
        return self.batch.output(sequence)

    def seed(self, sequence: SequenceId) -> int:
        """The seed of a sequence."""
        return self.batch.seed(sequence)

    def __len__(self) -> int:
        return len(self.batch)

    def __repr__(self) -> str:
        return f"Ranks({self.rank} of {self.count}, tokens {self.bounds[0]} to {self.bounds[1]} of {self.vocabulary})"

    def _draw(
        self,
        sequences: SequenceId | Iterable[SequenceId],
        logits: Row | Logits,
        ahead: int | None,
        masks: Mask | Masks | None,
    ) -> Sampled | Samples:
        start, end = self.bounds
        logits = _readable(logits)
        is_first = True

        def gather(message: bytes | CudaMessage, room: int) -> list[bytes]:
            nonlocal is_first
            was_first, is_first = is_first, False
            return self._gather(message, room, is_first=was_first)

        return self.batch._draw_over(
            sequences if isinstance(sequences, SequenceId) else list(sequences),
            logits,
            ahead,
            ranks=self.count,
            vocabulary=self.vocabulary,
            start=start,
            length=end - start,
            gather=gather,
            masks=_on_cpu(masks),
        )

    def _agree(self) -> tuple[int, int]:
        """Tells the others which part this rank holds. Returns what rank 0 has chosen at random: the seed for
        sequences that have none, and the number that tells these ranks from others in the store."""
        chosen = (secrets.randbits(63), secrets.randbits(63))
        own = torch.tensor([*self.bounds, self.vocabulary, *chosen], dtype=torch.int64)
        rows = [row.tolist() for row in self._all_gather(own)]
        for number, (_, _, vocabulary, *_) in enumerate(rows):
            if vocabulary != rows[0][2]:
                message = f"rank {number} has a vocabulary of {vocabulary}, rank 0 one of {rows[0][2]}"
                raise RankError(message, [number])
        following = 0
        for number, (start, end, *_) in sorted(enumerate(rows), key=lambda row: (row[1][0], row[1][1])):
            if end < start or (end > start and start != following):
                message = f"rank {number} holds the tokens {start} to {end}; together the ranks must hold each token once"
                raise RankError(message, [number])
            following = max(following, end)
        if following != self.vocabulary:
            raise RankError(f"the ranks hold {following} tokens, and the vocabulary has {self.vocabulary}")
        return int(rows[0][3]), int(rows[0][4])

    def _gather(self, message: bytes | CudaMessage, room: int, *, is_first: bool) -> list[bytes]:
        """The messages of all ranks, none of which is longer than `room`. The first ones of a draw are all as long as
        that, on a GPU and on the CPU, so that they always take one collective."""
        if not isinstance(message, bytes):
            self.device_steps += 1
            own = torch.as_tensor(message, device=torch.device("cuda", message.device))
            return [part.numpy().tobytes() for part in self._all_gather(own)]
        lengths = None
        if room > PADDED and not is_first:
            lengths = [int(length) for length in self._all_gather(torch.tensor([len(message)]))]
            for rank, length in enumerate(lengths):
                if not 0 <= length <= room:
                    announced = f"rank {rank} announces a message of {length} bytes"
                    raise RankError(f"{announced}; the longest has {room}", [rank])
            room = max(lengths)
        padded = torch.zeros(room, dtype=torch.uint8)
        if message:
            padded[: len(message)] = torch.frombuffer(bytearray(message), dtype=torch.uint8)
        gathered = [part.numpy().tobytes() for part in self._all_gather(padded)]
        return gathered if lengths is None else [part[:length] for part, length in zip(gathered, lengths, strict=True)]

    def _all_gather(self, own: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, which have one shape, on the CPU."""
        own = own.to(self._device)
        gathered = own.new_empty((self.count, *own.shape))
        self.collectives += 1
        try:
            _all_gather(gathered, own.unsqueeze(0), group=self.group)
            return list(gathered.cpu().unbind())
        except (RuntimeError, ValueError) as error:
            missing = self._missing()
            who = "; the group's store cannot be reached either" if missing is None else ""
            if missing:
                who = f"; no word from rank {', '.join(map(str, missing))}"
            raise RankError(f"the ranks could not exchange their messages{who}: {error}", missing or ()) from error

    def _missing(self) -> list[int] | None:
        """The ranks that do not say within the patience that they are still there. Each one that an exchange failed
        for says so in the group's store. None: the store cannot be reached, such as when the process that holds it has
        ended. Nobody is named before the ranks have agreed on the key that they use there."""
        if self._key is None:
            return []
        key = f"onedraw/{self._key}/{self.collectives}"
        others = set(range(self.count)) - {self.rank}
        until = time.monotonic() + self._patience
        try:
            store = dist.distributed_c10d._get_default_store()
            store.set(f"{key}/{self.rank}", "here")
            while others and time.monotonic() < until:
                others -= {rank for rank in others if store.check([f"{key}/{rank}"])}
                time.sleep(0.05)
        except Exception:
            return None
        return sorted(others)


def _readable(logits: Any) -> Any:
    """Logits on the CPU, or on a GPU that can draw; a copy of them on the CPU if they are anywhere else."""
    if not isinstance(logits, torch.Tensor):
        return logits
    logits, device = logits.detach(), logits.device
    return logits if device.type == "cuda" and _can_draw(device.index) else logits.cpu()


@functools.cache
def _can_draw(device: int) -> bool:
    return cuda_is_available(device)


def _on_cpu(masks: Any) -> Any:
    """Masks in the host's memory, where all ranks compare them."""
    if isinstance(masks, torch.Tensor):
        return masks.detach().cpu()
    if isinstance(masks, (list, tuple)):
        return [_on_cpu(mask) if isinstance(mask, torch.Tensor) else mask for mask in masks]
    return masks


def _is_nccl(group: Any) -> bool:
    return "nccl" in str(dist.get_backend(group))


def _read(params: Params, parameters: Any) -> SamplingParams:
    """Parameters as every function takes them."""
    if params is None:
        return SamplingParams(**parameters)
    if isinstance(params, str):
        params = SamplingParams.preset(params)
    elif not isinstance(params, SamplingParams):
        params = SamplingParams(**params)
    return params.replace(**parameters) if parameters else params
