"""Scores of texts by the distances of their tokens, the verdict, and how well they tell texts apart."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from replay import Texts

# How often other arithmetic, at most, makes a token differ by a distance or more: (difference of logits, share). As in
# verdict.rs of onedraw.
HONEST = [(0.0, 0.05), (0.05, 0.02), (0.1, 0.007), (0.2, 0.0008), (0.3, 0.0002), (0.5, 4e-5), (1.0, 2e-6), (2.0, 2e-7)]
# Some tokens are drawn with the claimed value of a parameter or with a tried one, but not with both. Of these, other
# arithmetic lets at most this share speak for the tried value. As in diagnosis.rs of onedraw-lm, like the values below.
EXPLAINED = 0.2
TEMPERATURES, TOP_PS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5), (0.8, 0.85, 0.9, 0.95, 1.0)
# All values that onedraw tries, also of parameters that are not tried here.
TRIED = 26
# Nearer values are not tried: in temperature; and in the logarithm of the odds of top-p, times the temperature.
NEAR, NEAR_ODDS = 0.095, 0.4
# The rate at which honest texts are called other, at most.
FALSE_ALARMS = 0.01
# The first score counts at most this much of a distance, and the one for a parameter this much.
CAP, SMALL_CAP = 1.0, 0.2


def log_odds(share: float) -> float:
    return math.log(share / (1 - share)) if share < 1 else math.inf


def tried(temperature: float, top_p: float) -> dict[str, tuple[float, float]]:
    """Other parameters that a text is drawn again with: (temperature, top-p)."""
    if temperature == 0:
        return {}
    others = {f"temperature {each:g}": (each, top_p) for each in TEMPERATURES if abs(each - temperature) >= NEAR}
    far = [
        each for each in TOP_PS if each != top_p and abs(log_odds(each) - log_odds(top_p)) * temperature >= NEAR_ODDS
    ]
    return others | {f"top-p {each:g}": (temperature, each) for each in far}


def neighbours(temperature: float, top_p: float) -> dict[str, tuple[float, float]]:
    """Values beside the claimed ones, to ask for a parameter: (temperature, top-p)."""
    if temperature == 0:
        return {}
    others = {"temperature, lower": (temperature - 0.1, top_p), "temperature, higher": (temperature + 0.1, top_p)}
    if top_p < 1:
        for name, factor in (("lower", math.exp(-0.8)), ("higher", math.exp(0.8))):
            others[f"top-p, {name}"] = (temperature, top_p * factor / (top_p * factor + 1 - top_p))
    return others


@dataclass
class Marks:
    """What scores need of some texts, [texts, tokens]."""

    unequal: np.ndarray
    distances: np.ndarray
    tried: dict[str, np.ndarray]  # which tokens differ with a tried value
    tried_distances: dict[str, np.ndarray]  # and how far away they are then
    neighbours: dict[str, np.ndarray]  # distances with a neighbour's value
    bad: np.ndarray  # where a token was planted, or -1

    @staticmethod
    def of(texts: Texts) -> Marks:
        claimed = texts.temperature, texts.top_p
        others = {name: texts.again(*both)[0] for name, both in tried(*claimed).items()}
        far = {name: texts.far(*both) for name, both in tried(*claimed).items()}
        beside = {name: texts.far(*both) for name, both in neighbours(*claimed).items()}
        return Marks(texts.unequal, texts.distances, others, far, beside, texts.bad)

    def mapped(self, change) -> Marks:
        others, far, beside = (
            {name: change(array) for name, array in each.items()}
            for each in (self.tried, self.tried_distances, self.neighbours)
        )
        return Marks(change(self.unequal), change(self.distances), others, far, beside, self.bad)

    def first(self, length: int) -> Marks:
        """The first tokens of each text."""
        return self.mapped(lambda array: array[:, :length])

    def windows(self, length: int) -> Marks:
        """Windows that do not overlap; of texts with a planted token, those that have it."""
        count = self.unequal.shape[1] // length
        wanted = (self.bad[:, None] < 0) | (self.bad[:, None] // length == np.arange(count))
        return self.mapped(lambda array: array[:, : count * length].reshape(-1, length)[wanted.reshape(-1)])


def auc(negatives: np.ndarray, positives: np.ndarray) -> float:
    """The chance that a text of the second kind has the higher score; equal scores count half."""
    _, inverse, counts = np.unique(np.concatenate([negatives, positives]), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n, m = len(negatives), len(positives)
    return float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))


def share(marks: Marks) -> np.ndarray:
    """The share of unequal tokens."""
    return marks.unequal.mean(1)


def mean_distance(marks: Marks, cap: float = CAP) -> np.ndarray:
    """The mean distance, none above the cap."""
    return np.minimum(marks.distances, cap).mean(1)


def better(marks: Marks, parameter: str) -> np.ndarray:
    """By how much the mean distance falls with the better neighbour of a parameter."""
    means = [np.minimum(far, SMALL_CAP).mean(1) for name, far in marks.neighbours.items() if name.startswith(parameter)]
    return mean_distance(marks, SMALL_CAP) - np.minimum.reduce(means)


@functools.cache
def log_tail(count: int, tokens: int, share: float) -> float:
    """The logarithm of the chance of at least `count` among `tokens`, where each is one with probability `share`."""
    if count == 0:
        return 0.0
    term = math.lgamma(tokens + 1) - math.lgamma(count + 1) - math.lgamma(tokens - count + 1)
    term += count * math.log(share) + (tokens - count) * math.log1p(-share)
    total, relative = 0.0, 1.0
    for k in range(count, tokens + 1):
        total += relative
        ratio = (tokens - k) / (k + 1) * share / (1 - share)
        relative *= ratio
        if ratio < 1 and relative < total * 1e-17:
            break
    return min(0.0, term + math.log(total))


def by_distance(unequal: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """The logarithm of the chance that other arithmetic makes so many tokens differ by so much, for each text."""
    counts = [((unequal & (distances >= limit)).sum(1), part) for limit, part in HONEST]
    tails = [[log_tail(int(count), unequal.shape[1], part) for count in each] for each, part in counts]
    return np.min(tails, axis=0) + math.log(len(HONEST))


def chances(marks: Marks, *, by_distances: bool = True, by_tried: bool = True) -> np.ndarray:
    """The verdict's chance of each text, as a logarithm that may be above 0. Each of the two tests has half of the
    false-alarm rate, and takes the smallest of its tails times their number. A tried value must fit the text."""
    found = []
    if by_distances:
        found.append(by_distance(marks.unequal, marks.distances) + math.log(2))
    if by_tried and marks.tried:
        tails = []
        for name, each in marks.tried.items():
            both = zip((marks.unequal & ~each).sum(1), (marks.unequal ^ each).sum(1), strict=True)
            tail = np.array([log_tail(int(b), int(n), EXPLAINED) for b, n in both])
            fits = by_distance(each, marks.tried_distances[name]) >= math.log(FALSE_ALARMS / 2)
            tails.append(np.where(fits, tail, 0.0))
        found.append(np.min(tails, axis=0) + math.log(2 * TRIED))
    return np.min(found, axis=0)
