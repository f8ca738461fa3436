"""What several tests need: the repository's data, and the rows that golden files describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import onedraw

ROOT = Path(__file__).resolve().parents[3]
"""The repository."""


def read_json(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def philox(key: tuple[int, int], counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Philox4x32-10 of counters [N, 4], written after its paper and not after ours."""
    mask, (k0, k1) = np.uint64(0xFFFFFFFF), key
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & mask, (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & mask
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def golden_row(description: dict[str, Any]) -> NDArray[np.float32]:
    """The row that a case describes; golden/README.md defines the shapes."""
    shape = description["shape"]
    if shape == "list":
        return np.array([-np.inf if x is None else x for x in description["logits"]], dtype="f4")
    size = description["vocabulary"]
    counters = np.zeros((-(-size // 4), 4), dtype=np.uint64)
    counters[:, 0] = np.arange(len(counters))
    high = (philox((description["seed"], 0), counters).reshape(-1)[:size] >> np.uint64(8)).astype(np.float64)
    wide = (high - 2.0**23) * 2.0**-19
    rows = {
        "wide": wide,
        "flat": (high - 2.0**23) * 2.0**-30,
        "peaked": wide / 4 + np.where(high % 4096 == 0, 24.0, 0.0),
        "ties": high % 8 * 0.5,
        "holes": np.where(high % 3 == 0, -np.inf, wide),
    }
    return rows[shape].astype("f4")


def row(seed: int, size: int = 1000, scale: float = 3.0) -> NDArray[np.float32]:
    """A row like a model's, made up."""
    return (np.random.default_rng(seed).standard_normal(size) * scale).astype("f4")


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch with a device."""
    if (why_not := onedraw.cuda.why_not()) is not None:
        pytest.skip(why_not)
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return torch
