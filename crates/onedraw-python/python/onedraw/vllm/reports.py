"""Logprobs and kept sets in the form that vLLM's runners hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplingMaskLists

from ..kept import KeptSets
from .draws import Drawn


def tensors(drawn: Drawn, best: int, vocabulary: int, begins: Sequence[int], rows: int) -> LogprobsTensors:
    """The logprobs of draws, the drawn token and the `best` best in each row. Turns begin at rows `begins` of `rows`;
    nobody reads rows without a draw."""
    table = drawn.samples.table(best, vocabulary)
    if len(drawn.samples) < rows:
        places = drawn.places(begins)
        table = tuple(_spread(array, places, rows) for array in table)
    tokens, logprobs, ranks = (torch.from_numpy(array) for array in table)
    return LogprobsTensors(tokens, logprobs, ranks)


def _spread(array: Any, places: Sequence[int], rows: int) -> Any:
    spread = np.zeros((rows, *array.shape[1:]), array.dtype)
    spread[places] = array
    return spread


def with_scored(report: LogprobsTensors | None, values: torch.Tensor, asked: Mapping[int, list[int]], sampled: Sequence[int]) -> LogprobsTensors:
    """Replaces the rows of requests that name their tokens themselves (`logprob_token_ids`) by the values of these."""
    most = max(len(ids) for ids in asked.values())
    rows, width = len(sampled), max(most + 1, 0 if report is None else report.logprobs.shape[1])
    tokens = torch.zeros((rows, width), dtype=torch.int32)
    logprobs = torch.full((rows, width), float("-inf"))
    ranks = torch.zeros(rows, dtype=torch.int64)
    if report is not None:
        known = report.logprobs.shape[1]
        tokens[:, :known], logprobs[:, :known], ranks[:] = report.logprob_token_ids, report.logprobs, report.selected_token_ranks
    for row, ids in asked.items():
        own = values[row].to(torch.float32)
        named = torch.tensor([sampled[row], *ids])
        tokens[row, : len(named)] = named.to(torch.int32)
        logprobs[row, : len(named)] = own[named]
        ranks[row] = int((own >= own[sampled[row]]).sum())
    return LogprobsTensors(tokens, logprobs, ranks)


class SamplingMasks:
    """The kept sets of a step, in the place of vLLM's `SamplingMaskTensors`, whose methods it has. vLLM pads all sets to
    one length, or sends a bit for each token of the vocabulary."""

    def __init__(self, drawn: Drawn) -> None:
        self._sets = KeptSets.of(drawn.samples)
        self._begins = [0, *accumulate(drawn.counts)]

    def to_cpu_nonblocking(self) -> SamplingMasks:
        """These sets, which are on the CPU already."""
        return self

    def tolists(self, num_sampled_tokens: Any = None) -> SamplingMaskLists:
        """The sets of all draws, and at which of them each turn begins. Those of turns in the middle of a prompt are
        among them, and nobody reads them."""
        return SamplingMaskLists(self._sets.token_ids, self._sets.offsets, self._begins)
