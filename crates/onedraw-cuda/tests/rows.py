"""Rows on a CUDA device beside the CPU: the same tokens, and how long a step takes.

    kernels/compile onedraw.cubin && python tests/rows.py onedraw.cubin --seconds 60
    python tests/rows.py onedraw.cubin --bench

Needs a GPU, CuPy and the package `onedraw`.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import cupy as cp
import numpy as np
import onedraw

# As kernels/row.cuh has them.
STAGE = np.dtype([("kind", "u4"), ("k", "u4"), ("threshold", "f8"), ("share", "u8"), ("scale", "f4"), ("reserved", "u4")])
ROW = np.dtype(
    [
        ("seed", "u8"), ("position", "u4"), ("sequence", "u4"), ("round", "u4"), ("is_greedy", "u4"), ("inverse", "f8"),
        ("sum_scale", "f4"), ("stages", "u4"), ("stage", STAGE, 6), ("mask", "u8"),
    ]
)  # fmt: skip
KINDS = {"min_p": 1, "top_k": 2, "top_p": 3}
ORDER = ["temperature", "min_p", "top_k", "top_p"]
TYPES = {np.dtype("f4"): "f32", np.dtype("f2"): "f16", np.dtype("u2"): "bf16"}
BLOCK, SKYLINE_THREADS, DRAW_THREADS = 64, 256, 256


def record(params: dict[str, Any]) -> np.ndarray:
    """A row's record. ln(min_p) is Python's here, within a bit of the library's: no random row is that near."""
    row = np.zeros((), ROW)
    temperature = params.get("temperature", 1.0)
    row["seed"], row["is_greedy"] = params["seed"], temperature < 1e-5
    temperature = 1.0 if temperature < 1e-5 else temperature
    row["inverse"], in_force, place = 1.0 / temperature, 1.0, 0
    for name in params.get("order", ORDER):
        scale = np.float32(math.log2(math.e) / in_force)
        if name == "temperature":
            in_force *= temperature
        elif name == "min_p" and params.get("min_p"):
            row["stage"][place] = (KINDS[name], 0, in_force * math.log(params["min_p"]), 0, 0, 0)
            place += 1
        elif name == "top_k" and params.get("top_k"):
            row["stage"][place] = (KINDS[name], params["top_k"], 0, 0, 0, 0)
            place += 1
        elif name == "top_p" and params.get("top_p", 1.0) < 1:
            row["stage"][place] = (KINDS[name], 0, 0, max(1, round(params["top_p"] * 2**53)), scale, 0)
            row["sum_scale"] = scale
            place += 1
    row["stages"] = place
    return row


class Step:
    """One draw for each row of a matrix on the device."""

    def __init__(self, module: Any, rows: np.ndarray, logits: Any, vocabulary: int) -> None:
        count, blocks, kind = len(logits), -(-vocabulary // BLOCK), TYPES[logits.dtype]
        is_aligned = logits.data.ptr % 16 == 0 and logits.strides[0] % 16 == 0
        steps = next(steps for steps, most in ((1, 4096), (2, 16384), (4, 1 << 17), (8, 1 << 62)) if count * blocks <= most)
        self.rows, self.logits, self.results = cp.asarray(rows.view("u1")), logits, cp.zeros((count, 2), "u4")
        self.peaks, self.sums, self.bad = cp.zeros((count, blocks, 2), "f4"), cp.zeros((count, blocks), "f4"), cp.full(count, 0xFFFFFFFF, "u4")
        self.first = module.get_function(f"skyline_{kind}_{steps if is_aligned else 'any'}")
        self.second = module.get_function(f"draw_{kind}")
        self.memory = 14 * blocks + 16
        self.second.max_dynamic_shared_size_bytes = self.memory
        self.grid = (-(-blocks // (SKYLINE_THREADS // 32 * 2 * (steps if is_aligned else 2))), count)
        shape = (np.int64(logits.strides[0] // logits.dtype.itemsize), np.uint32(vocabulary))
        self.given = (self.rows, self.logits, *shape, self.peaks, self.sums, np.uint32(blocks), self.bad)

    def launch(self) -> None:
        self.first(self.grid, (SKYLINE_THREADS,), self.given)
        self.second((len(self.logits),), (DRAW_THREADS,), (*self.given, self.results), shared_mem=self.memory)

    def run(self) -> np.ndarray:
        self.launch()
        return cp.asnumpy(self.results)


def peaked(rng: np.random.Generator, size: int) -> np.ndarray:
    head = min(1024, (size + 1) // 2)
    row = np.concatenate([20 - (1.3 + 0.8 * rng.random()) * np.log(np.arange(1, head + 1)), 3 * rng.standard_normal(size - head)])
    rng.shuffle(row)
    return row.astype("f4")


def random_row(rng: np.random.Generator, shape: str, size: int) -> np.ndarray:
    if shape == "peaked":
        return peaked(rng, size)
    if shape == "ties":
        return (rng.integers(0, 8, size) * 0.5).astype("f4")
    row = (rng.standard_normal(size) * {"flat": 1.0, "holes": 3.0}.get(shape, 10.0 ** rng.integers(-3, 4))).astype("f4")
    if shape == "holes":
        row[rng.random(size) < 0.4] = -np.inf
        row[rng.integers(size)] = 1
    return row


def random_params(rng: np.random.Generator) -> dict[str, Any]:
    params: dict[str, Any] = {"seed": int(rng.integers(0, 2**63)), "temperature": float(rng.choice([0.0, 0.3, 0.8, 1.0, 1.0, 1.5, 4.0]))}
    if rng.random() < 0.5:
        params["top_p"] = float(rng.choice([0.1, 0.5, 0.9, 0.95, 0.999]))
    if rng.random() < 0.5:
        params["top_k"] = int(rng.choice([1, 2, 5, 50, 200, 1000, 1024, 1500, 5000]))
    if rng.random() < 0.3:
        params["min_p"] = float(rng.choice([0.5, 0.05, 0.01, 1e-6]))
    if rng.random() < 0.3:
        params["order"] = [str(name) for name in rng.permutation(ORDER)]
    return params


def check(module: Any, seconds: float, seed: int) -> None:
    rng, begun, done = np.random.default_rng(seed), time.time(), 0
    while time.time() - begun < seconds:
        size = int(rng.choice([1, 17, 1023, 1024, 1025, 32_000, 128_256, 151_936, 262_144], p=[0.05, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.05]))
        shape = str(rng.choice(["peaked", "flat", "ties", "holes", "wide"]))
        rows = np.stack([random_row(rng, shape, size) for _ in range(int(rng.integers(1, 60 if size < 5000 else 20)))])
        kind, padding = rng.choice(["f32", "f16", "bf16"]), ((0, 0), (0, int(rng.choice([0, 0, 4, 3]))))
        if kind == "f16":
            rows = np.where(np.isneginf(rows), rows, rows.clip(-6e4, 6e4)).astype("f2")
        if kind == "bf16":
            raw = (rows.view("u4") >> 16).astype("u2")
            rows, on_device = (raw.astype("u4") << 16).view("f4"), np.pad(raw, padding)
        else:
            on_device = np.pad(rows, padding)
        params = [random_params(rng) for _ in rows]
        drawn = Step(module, np.array([record(one) for one in params]), cp.asarray(on_device), size).run()
        expected = onedraw.sample(rows, params).tokens
        wrong = np.nonzero((drawn[:, 0] != expected) | (drawn[:, 1] != 0))[0]
        for place in wrong:
            raise SystemExit(f"{size} {shape} {kind}: row {place} drew {drawn[place]}, the CPU {expected[place]}, with {params[place]}")
        done += len(rows)
    print(f"{done} rows drawn as on the CPU")


def bench(module: Any) -> None:
    size, cases = 128_256, {
        "greedy": {"temperature": 0.0}, "temperature": {"temperature": 0.8}, "top-k, top-p": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
        "top-p": {"temperature": 0.8, "top_p": 0.9}, "min-p": {"temperature": 0.8, "min_p": 0.05},
    }  # fmt: skip
    rng = np.random.default_rng(0)
    for shape in ("peaked", "flat"):
        base = np.stack([random_row(rng, shape, size) for _ in range(64)])
        for count in (1, 8, 64, 256):
            # More than the L2 in turn.
            sets = [cp.asarray(np.resize(np.roll(base, i, axis=0), (count, size))) for i in range(min(64, (256 << 20) // (count * size * 4) + 1))]
            times = {name: microseconds(module, sets, params, size) for name, params in cases.items()}
            print(shape, count, "; ".join(f"{name} {time:.1f}" for name, time in times.items()), flush=True)


def microseconds(module: Any, sets: list[Any], params: dict[str, Any], size: int) -> float:
    """The median time of a step in a graph of them."""
    steps = [Step(module, np.array([record({**params, "seed": 1000 * i + row}) for row in range(len(logits))]), logits, size) for i, logits in enumerate(sets)]
    turns = max(1, 64 // len(steps))
    with cp.cuda.Stream(non_blocking=True) as stream:
        for step in steps[:2]:
            step.launch()
        stream.synchronize()
        stream.begin_capture()
        for step in steps * turns:
            step.launch()
        graph, times = stream.end_capture(), []
        for _ in range(15):
            begin, end = cp.cuda.Event(), cp.cuda.Event()
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            times.append(cp.cuda.get_elapsed_time(begin, end) * 1000 / (turns * len(steps)))
    return float(np.median(times))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("cubin")
    arguments.add_argument("--bench", action="store_true")
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    kernels = cp.RawModule(path=asked.cubin)
    bench(kernels) if asked.bench else check(kernels, asked.seconds, asked.seed)
