"""The passes in operations of PyTorch, some rows at a time. All arithmetic is in float64.

The kept tokens of a chunk are one flat list, with the row of each: `rows` and `ids`. What is summed by row is a
scatter over `rows`. A summary is made into such a list first, so that there is one way to compute.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ._asked import IGNORED, NO_PROBLEM, SPAN, Asked, Borders, Ids, Known, Problem


def forward(logits: torch.Tensor, asked: Asked) -> tuple[torch.Tensor, Known, int]:
    """The logprobs, what else is known of the rows, all in float64, and the report of the first row that is wrong."""
    told = [torch.zeros(len(logits), dtype=torch.float64, device=logits.device) for _ in range(4)]
    logprobs, entropies, peaks, log_masses = told
    known = Known(entropies, peaks, log_masses, asked.sets)
    if isinstance(asked.sets, Ids) and (row := _wrong_offsets(asked.sets)) is not None:
        return logprobs, known, row * SPAN + Problem.OFFSETS
    for chunk in _chunks(logits, asked):
        problems = chunk.problems()
        wrong = (problems > 0).nonzero()
        if len(wrong):
            place = int(wrong[0])
            return logprobs, known, (chunk.begin + place) * SPAN + int(problems[place])
        for into, values in zip(told, chunk.measured(), strict=True):
            into[chunk.begin : chunk.end] = values
    return logprobs, known, NO_PROBLEM


def backward(gradient: torch.Tensor, logits: torch.Tensor, asked: Asked, known: Known, logprobs: torch.Tensor, entropies: torch.Tensor | None) -> None:
    """Writes the gradient of all logits, from those of the logprobs and entropies. It may lie where the logits lie."""
    for chunk in _chunks(logits, asked):
        here, rows = slice(chunk.begin, chunk.end), chunk.rows
        ln_p = chunk.below(known.peaks[here]) - known.log_masses[here][rows]
        p = ln_p.exp()
        slopes = logprobs[here].double()[rows] * ((chunk.ids == chunk.tokens[rows]).double() - p)
        if entropies is not None:
            # p ln p is 0 where p is 0.
            slopes -= entropies[here].double()[rows] * p * (ln_p.clamp(min=-1e300) + known.entropies[here][rows])
        part = gradient[here]
        part.zero_()
        part[rows, chunk.ids] = (slopes / chunk.temperatures[rows]).to(gradient.dtype)


def _chunks(logits: torch.Tensor, asked: Asked) -> Iterator[_Chunk]:
    for begin in range(0, len(logits), asked.chunk):
        yield _Chunk(logits, asked, begin, min(begin + asked.chunk, len(logits)))


def _wrong_offsets(sets: Ids) -> int | None:
    """The first row whose offsets are wrong."""
    offsets = sets.offsets.tolist()
    total, last = len(sets.token_ids), len(offsets) - 2
    for row, (begin, end) in enumerate(zip(offsets, offsets[1:], strict=False)):
        if begin > end or begin < 0 or end > total or (row == 0 and begin != 0) or (row == last and end != total):
            return row
    return None


class _Chunk:
    """Some rows, and their kept tokens: those of row r are the `ids` at the places where `rows` is r."""

    def __init__(self, logits: torch.Tensor, asked: Asked, begin: int, end: int) -> None:
        self.begin, self.end, self.sets = begin, end, asked.sets
        self.logits, self.vocabulary = logits[begin:end], logits.shape[1]
        self.tokens, self.temperatures = asked.tokens[begin:end].long(), asked.temperatures[begin:end]
        self.is_used = self.tokens != IGNORED
        if isinstance(self.sets, Ids):
            rows, ids = self._listed(self.sets)
            # Wrong ids are reported, and must not be looked up.
            is_there = self.is_used[rows] & (ids >= 0) & (ids < self.vocabulary)
            self.rows, self.ids = rows[is_there], ids[is_there]
        else:
            self.rows, self.ids = self._is_kept(self.sets).nonzero(as_tuple=True)
        self.kept = self.logits[self.rows, self.ids].double()
        """The logits of the kept tokens."""

    def _listed(self, sets: Ids) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows and ids as they are given."""
        offsets = sets.offsets[self.begin : self.end + 1]
        rows = torch.arange(len(self.tokens), device=offsets.device).repeat_interleave(offsets.diff())
        return rows, sets.token_ids[int(offsets[0]) : int(offsets[-1])].long()

    def _is_kept(self, sets: Borders) -> torch.Tensor:
        """For each logit whether it is not after the border in the order: by logit, then by id."""
        here = slice(self.begin, self.end)
        logits, border, last = self.logits.double(), sets.last_logits[here, None].double(), sets.last_tokens[here, None]
        is_first = torch.arange(self.vocabulary, device=last.device) <= last
        return ((logits > border) | ((logits == border) & is_first)) & (logits > -torch.inf) & self.is_used[:, None]

    def problems(self) -> torch.Tensor:
        """The smallest problem of each row; 0 if there is none."""
        is_drawn = self.ids == self.tokens[self.rows]
        wrong = {
            Problem.TEMPERATURE: ~((self.temperatures > 0) & (self.temperatures < torch.inf)),
            Problem.TOKEN_OUTSIDE: (self.tokens < 0) | (self.tokens >= self.vocabulary),
            Problem.NAN: self._any(self.rows, self.kept.isnan()),
            Problem.INFINITE: self._any(self.rows, self.kept == torch.inf),
            Problem.NOT_KEPT: ~self._any(self.rows, is_drawn),
            Problem.TOKEN_LOGIT: self._any(self.rows, is_drawn & (self.kept == -torch.inf)),
        }
        wrong |= self._wrong_ids(self.sets) if isinstance(self.sets, Ids) else self._wrong_borders(self.sets)
        smallest = torch.zeros_like(self.tokens)
        for problem in sorted(wrong, reverse=True):
            smallest.masked_fill_(wrong[problem], int(problem))
        return smallest * self.is_used

    def _wrong_ids(self, sets: Ids) -> dict[Problem, torch.Tensor]:
        rows, ids = self._listed(sets)
        is_falling = torch.zeros_like(ids, dtype=torch.bool)
        is_falling[1:] = (ids[1:] <= ids[:-1]) & (rows[1:] == rows[:-1])
        return {
            Problem.EMPTY: ~self._any(rows, torch.ones_like(is_falling)),
            Problem.OUTSIDE: self._any(rows, (ids < 0) | (ids >= self.vocabulary)),
            Problem.ORDER: self._any(rows, is_falling),
        }

    def _wrong_borders(self, sets: Borders) -> dict[Problem, torch.Tensor]:
        here = slice(self.begin, self.end)
        last, counts, border = sets.last_tokens[here].long(), sets.counts[here], sets.last_logits[here].double()
        is_inside = (last >= 0) & (last < self.vocabulary)
        found = self.logits[is_inside.nonzero()[:, 0], last[is_inside]].double()
        is_other = torch.zeros_like(is_inside)
        is_other[is_inside] = found != border[is_inside]
        return {
            Problem.NO_PREFIX: last < 0,
            Problem.EMPTY: counts <= 0,
            Problem.OUTSIDE: last >= self.vocabulary,
            # A row with NaN has no order.
            Problem.NAN: self.logits.isnan().any(dim=1),
            Problem.BORDER: is_other,
            Problem.COUNT: self.rows.bincount(minlength=len(last)) != counts,
        }

    def measured(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Logprobs, entropies, peaks and logarithms of masses; 0 for rows that are not trained on."""
        peaks = self._zeros().fill_(-torch.inf).scatter_reduce(0, self.rows, self.kept, "amax").masked_fill(~self.is_used, 0)
        below = self.below(peaks)
        shares = below.exp()
        masses = self._zeros().index_add(0, self.rows, shares).masked_fill(~self.is_used, 1)
        # A token without probability adds nothing.
        moments = self._zeros().index_add(0, self.rows, shares * below.clamp(min=-1e300))
        is_drawn = self.ids == self.tokens[self.rows]
        drawn = self._zeros().index_add(0, self.rows[is_drawn], below[is_drawn])
        ln_masses = masses.log()
        return drawn - ln_masses, ln_masses - moments / masses, peaks, ln_masses

    def below(self, peaks: torch.Tensor) -> torch.Tensor:
        """How far the kept logits are below those of their rows, over the temperature."""
        return (self.kept - peaks[self.rows]) / self.temperatures[self.rows]

    def _zeros(self) -> torch.Tensor:
        return torch.zeros(len(self.tokens), dtype=torch.float64, device=self.tokens.device)

    def _any(self, rows: torch.Tensor, is_so: torch.Tensor) -> torch.Tensor:
        """For each row, whether it is so for any of its tokens."""
        found = torch.zeros(len(self.tokens), dtype=torch.bool, device=rows.device)
        found[rows[is_so]] = True
        return found
