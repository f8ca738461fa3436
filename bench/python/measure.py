"""Measures the Python package beside the Rust library, PyTorch and transformers; see `run`."""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

import onedraw

sys.path.insert(0, str(Path(__file__).parents[1] / "torch"))
import sampler as in_torch  # noqa: E402  vLLM's sampler step by step, as bench/run has it

VOCABULARY, POSITIONS = 128_256, 64
STRATEGIES = {
    "temperature 0.8": {"temperature": 0.8},
    "top-k 50, top-p 0.9, temperature 0.8": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "top-p 0.9, temperature 0.8": {"temperature": 0.8, "top_p": 0.9},
}


def timed(draw, draws: int) -> list[int]:
    """Nanoseconds of each draw, at positions in turn; the first ones fill caches and memory."""
    for position in range(min(POSITIONS, draws)):
        draw(position)
    times = []
    for position in range(draws):
        begun = time.perf_counter_ns()
        draw(position % POSITIONS)
        times.append(time.perf_counter_ns() - begun)
    return times


class Calls:
    """The Rust library in a process of its own, which times itself."""

    def __init__(self, program: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "rows"
        self.process = subprocess.Popen([program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        shape = json.loads(self.process.stdout.readline())
        # The same pages as there: how memory lies makes more of a difference than the binding.
        self.rows = np.asarray(np.memmap(path, "f4", mode="r")).reshape(shape["rows"], shape["vocabulary"])

    def times(self, params: dict, rows: int, logits: int, draws: int) -> list[int]:
        question = {"params": params, "rows": rows, "logits": logits, "draws": draws}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def warpers(params: dict) -> LogitsProcessorList:
    """What transformers' generate makes of the same settings, in its order."""
    chain = [TemperatureLogitsWarper(params["temperature"])]
    if "top_k" in params:
        chain.append(TopKLogitsWarper(params["top_k"]))
    if "top_p" in params:
        chain.append(TopPLogitsWarper(params["top_p"]))
    return LogitsProcessorList(chain)


def contenders(params: dict, rows: np.ndarray, calls: Calls, logits: int) -> dict:
    """For each, the times of so many draws."""
    count = len(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Nobody writes to it, though it could not be written to.
        tensor = torch.from_numpy(rows)
    seeded = {**params, "seed": 1}
    both = {}
    if count == 1:
        row, row_tensor = rows[0], tensor[0]
        one = onedraw.Sampler(seeded)
        # A single call is always at position 0: it gets other noise by other seeds.
        settings = [onedraw.SamplingParams(**{**params, "seed": seed}) for seed in range(POSITIONS)]
        both["Sampler, NumPy"] = lambda position: one.peek(row, position)
        both["Sampler, torch"] = lambda position: one.peek(row_tensor, position)
        both["sample(logits, params)"] = lambda position: onedraw.sample(row, settings[position])
        both["sample(logits, **parameters)"] = lambda position: onedraw.sample(row, seed=position, **params)
    else:
        batch = onedraw.Batch()
        ids = [batch.add(seeded) for _ in rows]
        both["Batch, NumPy"] = lambda position: batch.peek(ids, rows, position)
        both["Batch, torch"] = lambda position: batch.peek(ids, tensor, position)
    apply, chain, ids_before = in_torch.chain(params), warpers(params), torch.zeros((count, 1), dtype=torch.long)
    both["PyTorch"] = lambda position: in_torch.sample(params, apply, tensor)[0]
    both["transformers"] = lambda position: torch.multinomial(torch.softmax(chain(ids_before, tensor), dim=-1), 1)
    return {
        "Rust": lambda draws: calls.times(seeded, count, logits, draws),
        **{name: (lambda draws, draw=draw: timed(draw, draws)) for name, draw in both.items()},
    }


SLOW = ("PyTorch", "transformers")


def measure(params: dict, rows: np.ndarray, calls: Calls, draws: int, rounds: int) -> dict[str, list[float]]:
    """Mean nanoseconds of a draw, for each contender, a round each."""
    means: dict[str, list[float]] = {}
    each = contenders(params, rows, calls, rows.shape[1])
    for _ in range(rounds):
        for name, times in each.items():
            count = draws if name not in SLOW else max(5, draws // (300 * len(rows)))
            taken = sorted(times(count))
            # Something else had the core: the slowest hundredth is left out, of everybody.
            means.setdefault(name, []).append(statistics.fmean(taken[: max(1, len(taken) * 99 // 100)]))
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", required=True, help="the program built from crates/onedraw-bench/benches/calls.rs")
    parser.add_argument("--quick", action="store_true", help="a look, not a measurement; writes nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    calls = Calls(arguments.calls)
    draws, rounds = (300, 2) if arguments.quick else (3000, 7)
    lines = []
    for logits, counts, strategies in ((64, (1, 32), list(STRATEGIES)[1:2]), (VOCABULARY, (1, 32), list(STRATEGIES))):
        for count in counts:
            for name in strategies:
                means = measure(STRATEGIES[name], calls.rows[:count, :logits], calls, draws // count + 30, rounds)
                lines += table(f"{name}; {count} {'row' if count == 1 else 'rows'} of {logits:,}", means)
    text = "\n".join(lines)
    print(text)
    if not arguments.quick:
        write(text)


def table(title: str, means: dict[str, list[float]]) -> list[str]:
    rust = means["Rust"]
    best = next(name for name in means if name != "Rust")
    lines = [f"\n## {title}\n", "| | µs a call | over Rust's, µs | times onedraw's |", "|---|---:|---:|---:|"]
    for name, of in means.items():
        over = statistics.median(a - b for a, b in zip(of, rust, strict=True)) / 1000
        ratios = [a / b for a, b in zip(of, means[best], strict=True)]
        ratio = f"{statistics.median(ratios):,.0f} ({min(ratios):,.0f} to {max(ratios):,.0f})" if name in SLOW else ""
        lines.append(f"| {name} | {statistics.median(of) / 1000:,.1f} | {'' if name in ('Rust', *SLOW) else f'{over:.1f}'} | {ratio} |")
    return lines


def write(text: str) -> None:
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    day = datetime.date.today().isoformat()
    head = f"""# The Python package beside Rust, PyTorch and transformers

{day}, {cpu}, one thread, by `bench/python/run`; Python {platform.python_version()}, NumPy {np.__version__}, PyTorch {torch.__version__}, transformers {metadata("transformers")}.
Peaked f32 rows (`crates/onedraw-bench/src/rows.rs`), hot, in one mapped file: all processes read the same pages. Means of the draws without the slowest hundredth, median of seven rounds; within a round everybody draws
in turn. "Over Rust's" is the difference of the means to `Sampler::peek` or `Batch::peek` in a process of its own, in the same round. "Times onedraw's" is the ratio to the first line
below Rust's, with the lowest and highest of the rounds. PyTorch is `bench/torch/sampler.py` (vLLM's steps, with the sort); transformers is the processors of its `generate`, softmax and multinomial.
"""
    path = Path(__file__).parents[1] / "results" / f"{day}-python.md"
    path.write_text(head + text + "\n")
    print(f"\nwritten to {path}", file=sys.stderr)


def metadata(package: str) -> str:
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    main()
