"""Logprobs in the form that vLLM's runners hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors

from .._onedraw import Sampled, Samples


def tensors(draws: Sequence[Sampled | None], best: int, vocabulary: int) -> LogprobsTensors:
    """The logprobs of draws: the drawn token and the `best` best in each row. Rows of None are for nobody."""
    drawn = [draw for draw in draws if draw is not None]
    tokens, logprobs, ranks = Samples(drawn).table(best, vocabulary)
    if len(drawn) < len(draws):
        places = [place for place, draw in enumerate(draws) if draw is not None]
        tokens, logprobs, ranks = (_spread(array, places, len(draws)) for array in (tokens, logprobs, ranks))
    return LogprobsTensors(torch.from_numpy(tokens), torch.from_numpy(logprobs), torch.from_numpy(ranks))


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
        listed = torch.tensor([sampled[row], *ids])
        tokens[row, : len(listed)] = listed.to(torch.int32)
        logprobs[row, : len(listed)] = own[listed]
        ranks[row] = int((own >= own[sampled[row]]).sum())
    return LogprobsTensors(tokens, logprobs, ranks)
