"""Requests whose logits stay on the tensor-parallel ranks that computed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.distributed import get_tp_group

from .._onedraw import RowError, Sampled, SequenceId
from ..distributed import Ranks
from .requests import Masks, Outcome, Requests, Turn


def why_gathered(vllm_config: Any, model: Any, users: Sequence[Any]) -> str | None:
    """Why the logits of a model must be gathered; None if they need not be. `users` are the processors of logits that
    vLLM has loaded for the user."""
    if vllm_config.parallel_config.tensor_parallel_size == 1:
        return "there is one rank"
    if not hasattr(model, "compute_logits_local") or not hasattr(getattr(model, "lm_head", None), "shard_indices"):
        return f"{type(model).__name__} cannot leave its logits ungathered"
    if users:
        return "processors of logits need whole rows"
    return None


class Shards(Requests):
    """The sequences of a runner's requests, drawn over the ranks. Every rank makes the same calls in the same order."""

    def __init__(self, model: Any, vocabulary: int, threads: int) -> None:
        part = model.lm_head.shard_indices
        bounds = (part.org_vocab_start_index, part.org_vocab_end_index)
        self.ranks = Ranks(vocabulary, bounds=bounds, group=get_tp_group().cpu_group, threads=threads)
        super().__init__(self.ranks.batch)
        self._peek = self.ranks.peek

    def verify(self, turns: Sequence[Turn], logits: torch.Tensor, masks: Masks = None) -> list[Outcome]:
        """All rows of all turns share each exchange: the row after a guess is drawn as if the guess were right."""
        sequences: list[SequenceId] = []
        rows: list[int] = []
        forks: list[SequenceId] = []
        for turn in turns:
            sequences.append(turn.request.sequence)
            for place in range(len(self._guesses(turn))):
                # With the guess added to a copy of the sequence before.
                copy = self.batch.fork(sequences[-1])
                self.batch.accept(copy, turn.guesses[place])
                sequences.append(copy)
                forks.append(copy)
            rows += range(turn.row, turn.row + len(self._guesses(turn)) + 1)
        drawn = iter(self.peek(sequences, logits[rows], None if masks is None else [masks[row] for row in rows]) if turns else ())
        for copy in forks:
            self.batch.remove(copy)
        return [self._outcome(self._guesses(turn), [next(drawn) for _ in range(len(self._guesses(turn)) + 1)]) for turn in turns]

    def _guesses(self, turn: Turn) -> Sequence[int]:
        # What is learned from a draw is not known before it.
        return () if turn.request.learns else turn.guesses

    def _outcome(self, guesses: Sequence[int], drawn: list[Sampled | RowError]) -> Outcome:
        tokens: list[Sampled] = []
        for place, one in enumerate(drawn):
            if isinstance(one, RowError):
                return tokens, one
            tokens.append(one)
            if place == len(guesses) or guesses[place] != one.token:
                break
        return tokens, None
