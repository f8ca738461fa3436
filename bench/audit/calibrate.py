"""How far honest tokens in bf16 are from the auditor's: the constants of the verdict.

The auditor's f32 logits of honest texts are stored, and transformers computes the bf16 logits of the same texts. Tokens
are drawn from the bf16 logits with many seeds and several settings and audited with the f32 logits. So millions of
honest tokens are audited, and only a few thousand have to be written.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import replay
from replay import TOP_K
from scores import neighbours

SETTINGS = [(1.0, 0.95), (0.7, 0.9), (0.3, 0.9), (1.5, 0.95), (1.0, 0.5), (1.0, 1.0), (0.0, 1.0)]
LIMITS = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0]


@torch.inference_mode()
def bf16_logits(folder: Path, arrays: dict[str, np.ndarray], path: Path) -> np.ndarray:
    """transformers' bf16 logits of the listed tokens of texts; from the cache if they are there."""
    if not path.exists():
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
        beginnings, texts, ids = arrays["beginnings"], arrays["texts"], arrays["ids"]
        found = np.zeros(ids.shape, np.float32)
        for i in range(len(texts)):
            whole = torch.from_numpy(np.concatenate([beginnings[i], texts[i, :-1]])[None])
            rows = model(whole).logits[0, beginnings.shape[1] - 1 :].float().numpy()
            found[i] = np.take_along_axis(rows, ids[i], -1)
        np.save(path, found)
    return np.load(path)


class Shares:
    """Counts of honest tokens: all, those beyond each limit, and those that a neighbouring value explains or does not."""

    def __init__(self) -> None:
        self.tokens, self.largest = 0, 0.0
        self.beyond = np.zeros(len(LIMITS), np.int64)
        self.others: dict[str, np.ndarray] = {}

    def add(self, unequal: np.ndarray, far: np.ndarray) -> None:
        self.tokens += unequal.size
        self.beyond += [int((far >= limit).sum()) for limit in LIMITS]
        self.largest = max(self.largest, far.max(initial=0))


def winners(logits: np.ndarray, noise: np.ndarray, ids: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    """The places of drawn tokens. Logits and ids are [rows, listed], the noise is [seeds, rows, listed]."""
    order = np.lexsort((ids, -logits), axis=-1)
    if temperature == 0:
        return np.broadcast_to(order[:, 0], noise.shape[:2])
    ordered = np.take_along_axis(logits, order, -1)
    _, before = replay.masses(ordered, temperature)
    scores = ordered / temperature + np.take_along_axis(noise, np.broadcast_to(order, noise.shape), -1)
    first = np.where(before < top_p, scores[..., :TOP_K], -np.inf).argmax(-1)
    return np.take_along_axis(np.broadcast_to(order, noise.shape), first[..., None], -1)[..., 0]


def honest_shares(arrays: dict[str, np.ndarray], other: np.ndarray, seeds: int) -> dict[tuple[float, float], Shares]:
    """For each setting, the audits of tokens that are drawn from the other logits."""
    found = {setting: Shares() for setting in SETTINGS}
    random = np.random.default_rng(20261118)
    for listed, logits, others in zip(arrays["ids"], arrays["logits"], other, strict=True):
        order = np.lexsort((listed, -logits), axis=-1)
        ids, x, y = (
            np.take_along_axis(each, order, -1)
            for each in (listed, logits.astype(np.float64), others.astype(np.float64))
        )
        each = random.integers(0, 2**40, seeds)[:, None, None]
        shape = (seeds, *ids.shape)
        noise = -np.log(replay.exponentials(each, np.arange(len(ids))[None, :, None], np.broadcast_to(ids, shape)))
        for (temperature, top_p), shares in found.items():
            if temperature == 0:
                claimed = winners(y, noise[:1], ids, temperature, top_p)
                far = x[None, :, 0] - np.take_along_axis(x, claimed[0][:, None], -1)[:, 0]
                unequal = claimed != 0
                shares.add(unequal, np.where(unequal, far, -1))
                continue
            claimed = winners(y, noise, ids, temperature, top_p)
            unequal = winners(x, noise, ids, temperature, top_p) != claimed
            far = np.full(unequal.shape, -1.0)
            scores = x / temperature + noise
            rows = np.broadcast_to(x, shape)[unequal]
            far[unequal] = replay.distances(rows, scores[unequal], claimed[unequal], temperature, top_p)
            shares.add(unequal, far)
            for name, both in neighbours(temperature, top_p).items():
                again = winners(x, noise, ids, *both) != claimed
                counts = [int((unequal & ~again).sum()), int((~unequal & again).sum())]
                shares.others[name] = shares.others.get(name, np.zeros(2, np.int64)) + counts
    return found
