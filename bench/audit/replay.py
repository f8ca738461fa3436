"""Draws texts again from stored logits, in NumPy: with the claimed parameters, and with others.

This is a second implementation of the noise, of temperature, top-k and top-p, and of an audit's distance. `Texts`
checks that it draws the same tokens as onedraw's audits.
"""

from __future__ import annotations

import math

import numpy as np

TOP_K = 50  # of every text that is sampled


def philox(key: tuple, counter: list) -> list:
    """Philox4x32-10 over arrays of 32-bit numbers in u64."""
    word = np.uint64(0xFFFFFFFF)
    low, high = (np.asarray(part, np.uint64) for part in key)
    a, b, c, d = (np.asarray(part, np.uint64) for part in counter)
    for _ in range(10):
        first, second = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (
            (second >> np.uint64(32)) ^ b ^ low,
            second & word,
            (first >> np.uint64(32)) ^ d ^ high,
            first & word,
        )
        low, high = (low + np.uint64(0x9E3779B9)) & word, (high + np.uint64(0xBB67AE85)) & word
    return [a, b, c, d]


def exponentials(seeds: np.ndarray, positions: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The noise of tokens, as crates/onedraw/src/numeric/noise.rs defines it."""
    ids = ids.astype(np.int64)
    block = ids // 64

    def words(index: np.ndarray, purpose: int) -> np.ndarray:
        return np.choose(index % 4, philox((seeds & 0xFFFFFFFF, seeds >> 32), [index // 4, positions, 0, purpose]))

    def exponential(bits: np.ndarray) -> np.ndarray:
        return -np.log1p(-(bits + 0.5) / 2**32)

    smallest = exponential(words(block, 0)) / 64
    lane = words(block, 1) >> np.uint64(26)
    return np.where(lane == ids % 64, smallest, smallest + exponential(words(ids, 2)))


def odds(mass: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(mass, 1e-300)) - np.log(np.maximum(1 - mass, 1e-12))


def masses(logits: np.ndarray, temperature: float) -> tuple[np.ndarray, np.ndarray]:
    """Of the TOP_K largest logits: the weights, and the mass before each."""
    scaled = logits[..., :TOP_K] / temperature
    weights = np.exp(scaled - scaled[..., :1])
    weights /= weights.sum(-1, keepdims=True)
    return weights, np.cumsum(weights, -1) - weights


def distances(
    logits: np.ndarray, scores: np.ndarray, claimed: np.ndarray, temperature: float, top_p: float
) -> np.ndarray:
    """The smallest change of the logits that makes claimed tokens the drawn ones, [n].

    `logits` [n, listed] descend, `scores` are theirs after the noise, and `claimed` [n] are places among them.

    A claimed token that is cut has to be kept: tokens before it fall behind it, or the border moves. And every kept
    token with a better score has to lose: its score falls, or it is cut. What is kept depends on the mass before a
    token. A change of all logits by e changes the logarithm of the odds of a mass by e / temperature at most.

        inside(t)  = min over j from t on     of max(x_t - x_j, T * (odds(top_p) - odds(mass through j without t)))
        outside(c) = min over j from c upward of max(x_j - x_c, T * (odds(mass before j) - odds(top_p)))
        distance   = max(outside(claimed), max over kept t of min(inside(t), T * (score_t - score_claimed)))
    """
    border = math.log(top_p / (1 - top_p)) if top_p < 1 else 60.0
    found = np.zeros(len(logits))
    for begin in range(0, len(logits), 2000):
        part = slice(begin, begin + 2000)
        x, places = logits[part], claimed[part]
        rows = np.arange(len(x))
        top = x[:, :TOP_K]
        weights, before = masses(x, temperature)
        kept = before < top_p
        through = (before + weights)[:, None, :] - weights[:, :, None]
        ways = np.maximum(top[:, :, None] - top[:, None, :], temperature * (border - odds(through)))
        ways = np.where(np.triu(np.ones((TOP_K, TOP_K), bool)), ways, np.inf)
        inside = np.minimum(ways.min(-1), top - x[:, TOP_K : TOP_K + 1])
        ahead = (scores[part][:, :TOP_K] - scores[part][rows, places][:, None]) * temperature
        raced = np.where(kept, np.minimum(inside, ahead), 0).max(-1)
        own = x[rows, places][:, None]
        ways = np.maximum(top - own, temperature * (odds(before) - border))
        ways = np.where(np.arange(TOP_K) <= places[:, None], ways, np.inf)
        ways = np.maximum(ways, np.where(places[:, None] >= TOP_K, top[:, -1:] - own, 0))
        outside = np.where(places < kept.sum(-1), 0, ways.min(-1))
        found[part] = np.maximum(0, np.maximum(raced, outside))
    return found


class Texts:
    """Texts of a condition with the auditor's largest logits of each row, in descending order."""

    def __init__(self, arrays: dict[str, np.ndarray], claimed: dict) -> None:
        self.temperature, self.top_p = claimed["temperature"], claimed.get("top_p", 1.0)
        order = np.lexsort((arrays["ids"], -arrays["logits"]), axis=-1)
        ids = np.take_along_axis(arrays["ids"], order, -1)
        self.logits = np.take_along_axis(arrays["logits"], order, -1).astype(np.float64)
        self.places, self.bad = (arrays["texts"][..., None] == ids).argmax(-1), arrays["places"]
        # A claimed token that is not among the listed takes the place of the last of them.
        missing = np.nonzero((arrays["texts"][..., None] != ids).all(-1))
        self.places[missing] = ids.shape[-1] - 1
        ids[(*missing, -1)], self.logits[(*missing, -1)] = arrays["texts"][missing], arrays["claimed_logits"][missing]
        positions = np.arange(ids.shape[1])[None, :, None]
        self.noise = -np.log(exponentials(arrays["seeds"][:, None, None], positions, ids))
        self.unequal, _ = self.again(self.temperature, self.top_p)
        self.distances = self.far(self.temperature, self.top_p)
        if not np.array_equal(self.unequal, arrays["drawn"] != arrays["texts"]):
            raise AssertionError("NumPy draws other tokens than onedraw")

    def again(self, temperature: float, top_p: float) -> tuple[np.ndarray, np.ndarray]:
        """Which tokens are not the drawn ones with these parameters, and the scores of all listed tokens."""
        if temperature == 0:
            return self.places != 0, self.logits
        scores = self.logits / temperature + self.noise
        _, before = masses(self.logits, temperature)
        return np.where(before < top_p, scores[..., :TOP_K], -np.inf).argmax(-1) != self.places, scores

    def far(self, temperature: float, top_p: float) -> np.ndarray:
        """The distances of the tokens with these parameters, 0 where they are the drawn ones."""
        unequal, scores = self.again(temperature, top_p)
        if temperature == 0:
            return self.logits[..., 0] - np.take_along_axis(self.logits, self.places[..., None], -1)[..., 0]
        found = np.zeros(unequal.shape)
        found[unequal] = distances(self.logits[unequal], scores[unequal], self.places[unequal], temperature, top_p)
        return found
