"""onedraw on a GPU beside PyTorch, FlashInfer and vLLM: microseconds of a step in a CUDA graph.

    python measure.py [--quick] [--tables NAME ...] [--names START ...] [--alone] [--compiled] [--markdown FILE] [--json FILE]

Needs a GPU, PyTorch and the package `onedraw`. FlashInfer is measured where it is installed (without its cache of kernels it builds them at the first call,
which takes minutes), vLLM's sampler where `bench/vllm` is on the path with vLLM or the folder of `bench/vllm/stub`; `--alone` leaves others out, `--compiled`
adds PyTorch's functions as torch.compile makes them. `--names "top-p" "FlashInfer top-p"` keeps the lines that begin so. Rows are 128,256 logits unless a table
says otherwise; sets of them go round, more than the second cache holds. Every number is the median of fifteen runs of a graph of 64 steps or more, by events
of the stream. Prompts are measured by `prompts.py`, versions beside each other by `compare.py`.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import onedraw
import onedraw.cuda
import torch
from peers import DEVICE, STEPS, Peer, Peers, compiled_peers, flashinfer_peers, torch_peers, vllm_peers

RUNS = 15
Shape = Callable[[torch.Generator, int], torch.Tensor]
Lines = dict[str, list[float | None]]

WARM = {"temperature": 0.8}
STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": WARM,
    "top-k 50, top-p 0.9": WARM | {"top_k": 50, "top_p": 0.9},
    "top-p 0.9": WARM | {"top_p": 0.9},
    "min-p 0.05": WARM | {"min_p": 0.05},
    "temperature, logprobs 5": WARM | {"logprobs": 5},
    "three penalties, logprobs 5": WARM | {"repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1, "logprobs": 5},
    "top-p 0.9, kept summary": WARM | {"top_p": 0.9, "kept": "summary"},
    "top-p 0.9, kept ids": WARM | {"top_p": 0.9, "kept": "ids"},
    "top-p 0.9, processed logprobs 5": WARM | {"top_p": 0.9, "logprobs": 5, "logprobs_mode": "processed_logprobs"},
    "XTC": WARM | {"xtc_probability": 0.5},
    "mirostat 2": WARM | {"mirostat": 2},
    "dynamic temperature": WARM | {"dynatemp_range": 0.5},
    "smoothing": WARM | {"smoothing_factor": 0.3},
    "text of 4,096": WARM,
    "text of 4,096, DRY": WARM | {"dry_multiplier": 0.8, "dry_allowed_length": 2},
    "text of 4,096, frequency penalty": WARM | {"frequency_penalty": 0.2},
}


def prompt(name: str, size: int) -> list[int]:
    """The text before what is drawn: as the strategy's name says, or 200 random tokens where penalties read them."""
    chance = random.Random(1)
    if name.startswith("text of 4,096"):
        # As in a language, some tokens come often.
        return [int(1000 ** chance.random()) * 97 % size for _ in range(4096)]
    return [chance.randrange(size) for _ in range(200)] if "penalties" in name else []


def peaked(generator: torch.Generator, size: int) -> torch.Tensor:
    """A normal bulk, sigma 3, and a head that falls with the logarithm of the rank."""
    head = 1024
    exponent = 1.3 + 0.8 * torch.rand((), generator=generator)
    row = torch.cat([20 - exponent * torch.log(torch.arange(1, head + 1)), 3 * torch.randn(size - head, generator=generator)])
    return row[torch.randperm(size, generator=generator)]


def flat(generator: torch.Generator, size: int) -> torch.Tensor:
    return torch.randn(size, generator=generator)


def sets(shape: Shape, rows: int, size: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Matrices of rows, together more than 256 MiB or 64 of them."""
    generator = torch.Generator().manual_seed(0)
    base = torch.stack([shape(generator, size) for _ in range(64)]).to(DEVICE, dtype)
    count = min(64, (256 << 20) // (rows * size * base.element_size()) + 1)
    return [base.roll(i, 0).repeat(-(-rows // 64), 1)[:rows].contiguous() for i in range(count)]


def microseconds(steps: Sequence[Callable[[], object]]) -> float:
    """The time of one step: the median over runs of a graph of them all, as often as makes 64."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for step in steps[:2]:
            step()
    stream.synchronize()
    graph, turns = torch.cuda.CUDAGraph(), max(1, STEPS // len(steps))
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(turns):
            for step in steps:
                step()
    times: list[float] = []
    with torch.cuda.stream(stream):
        graph.replay()
        for _ in range(RUNS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000 / (turns * len(steps)))
    return statistics.median(times)


def ours(matrices: list[torch.Tensor], params: dict[str, Any], text: list[int]) -> float:
    """A step of sequences with these parameters. They write on: a text is up to a thousand tokens longer at the end."""
    rows, size = matrices[0].shape
    batch = onedraw.cuda.Batch(size, rows, logprobs=max(0, params.get("logprobs", 0)))
    ids = [batch.add(seed=1000 + row, prompt_token_ids=text, **params) for row in range(rows)]
    batch.prepare(ids)
    torch.cuda.synchronize()
    return microseconds([partial(batch.launch, logits) for logits in matrices])


def theirs(matrices: list[torch.Tensor], peer: Peer) -> float:
    steps = [partial(peer, logits) for logits in matrices]
    try:
        return microseconds(steps)
    except RuntimeError as error:
        print(f"the next line is by events, because a graph cannot hold it: {str(error)[:200]}")
    return microseconds_of_launches(steps)


def microseconds_of_launches(steps: Sequence[Callable[[], object]]) -> float:
    """The time of one step without a graph: the device is kept busy until twelve are launched."""
    times: list[float] = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        torch.cuda._sleep(40_000_000)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for turn in range(12):
            steps[turn % len(steps)]()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / 12)
    return statistics.median(times)


class Table(NamedTuple):
    title: str
    shape: Shape
    batches: list[int]
    size: int
    dtype: torch.dtype
    names: list[str]
    peers: Sequence[Peers]


EVERY, COMMON = list(STRATEGIES), [1, 8, 64, 256]
SOME = ["temperature", "top-k 50, top-p 0.9", "top-p 0.9", "min-p 0.05"]
USUAL = ["greedy", *SOME, "temperature, logprobs 5", "three penalties, logprobs 5"]
OTHERS = [torch_peers, vllm_peers, flashinfer_peers]

TABLES = {
    "peaked": Table("Peaked rows, f32, 128,256 logits", peaked, COMMON, 128_256, torch.float32, EVERY, OTHERS),
    "flat": Table("Flat rows, f32, 128,256 logits", flat, COMMON, 128_256, torch.float32, SOME, [vllm_peers, flashinfer_peers]),
    "usual": Table("What all versions can, peaked rows, f32, 128,256 logits", peaked, COMMON, 128_256, torch.float32, USUAL, []),
    "bf16": Table("Peaked rows, bf16, 128,256 logits", peaked, COMMON, 128_256, torch.bfloat16, USUAL, []),
    "1024": Table("Peaked rows, f32, 1,024 rows of 128,256 logits", peaked, [1024], 128_256, torch.float32, SOME, []),
    "32000": Table("Peaked rows, f32, 32,000 logits", peaked, COMMON, 32_000, torch.float32, SOME, []),
    "151936": Table("Peaked rows, f32, 151,936 logits", peaked, COMMON, 151_936, torch.float32, SOME, []),
}
DEFAULT = [name for name in TABLES if name != "usual"]


def markdown(title: str, batches: list[int], lines: Lines) -> str:
    head = "| |" + "".join(f" {rows} |" for rows in batches)
    rule = "|---|" + "---|" * len(batches)
    body = [f"| {name} |" + "".join(" – |" if value is None else f" {value:.1f} |" for value in values) for name, values in lines.items()]
    return "\n".join([f"### {title}", "", head, rule, *body, ""])


def measured(table: Table, starts: tuple[str, ...], peers: Sequence[Peers]) -> Lines:
    """The lines of a table whose names begin with one of these. What cannot be measured is said, and is None."""
    lines: Lines = {}
    for rows in table.batches:
        matrices = sets(table.shape, rows, table.size, table.dtype)
        steps: dict[str, Callable[[], float]] = {name: partial(ours, matrices, STRATEGIES[name], prompt(name, table.size)) for name in table.names}
        for each in peers:
            steps |= {name: partial(theirs, matrices, peer) for name, peer in each(rows, table.size).items()}
        for name, step in steps.items():
            if name.startswith(starts):
                lines.setdefault(name, []).append(tried(f"{name} at {rows} rows", step))
        del matrices, steps
        torch.cuda.empty_cache()
    return lines


def tried(what: str, step: Callable[[], float]) -> float | None:
    try:
        return step()
    except (OSError, RuntimeError, onedraw.CudaError) as error:
        print(f"{what}: {type(error).__name__}: {str(error)[:500]}", flush=True)
        return None


def first_call(size: int) -> tuple[float, float]:
    """Milliseconds until the first token: a batch with its device, then a step that copies nothing."""
    logits = peaked(torch.Generator().manual_seed(3), size).to(DEVICE).unsqueeze(0)
    torch.cuda.synchronize()
    begun = time.perf_counter()
    batch = onedraw.cuda.Batch(size, 1)
    made = time.perf_counter()
    batch.sample([batch.add(seed=1)], logits)
    return (made - begun) * 1000, (time.perf_counter() - made) * 1000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help="the first table only")
    arguments.add_argument("--tables", nargs="+", choices=TABLES, default=DEFAULT, metavar="NAME", help=f"of {', '.join(TABLES)}")
    arguments.add_argument("--names", nargs="+", default=[""], metavar="START", help="only lines whose names begin with one of these")
    arguments.add_argument("--alone", action="store_true", help="nobody else's lines")
    arguments.add_argument("--compiled", action="store_true", help="lines of torch.compile, too, where there are PyTorch's")
    arguments.add_argument("--markdown", help="where the tables go, too")
    arguments.add_argument("--json", help="where the numbers go, by table and line")
    asked = arguments.parse_args()
    text = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, µs of a step in a CUDA graph, by rows of the batch.\n"]
    batch, step = first_call(128_256)
    text.append(f"The first call: {batch:.1f} ms for a batch, the kernels' loading with it, and {step:.1f} ms for the first step.\n")
    print(*text, sep="\n")
    numbers = {}
    for name in asked.tables[:1] if asked.quick else asked.tables:
        table = TABLES[name]
        peers = [] if asked.alone else list(table.peers)
        if asked.compiled and torch_peers in peers:
            peers.append(compiled_peers)
        numbers[name] = measured(table, tuple(asked.names), peers)
        text.append(markdown(table.title, table.batches, numbers[name]))
        print(text[-1], flush=True)
        # After each table: a run may be stopped at its limit.
        if asked.markdown:
            with open(asked.markdown, "w", encoding="utf-8") as file:
                file.write("\n".join(text))
        if asked.json:
            with open(asked.json, "w", encoding="utf-8") as file:
                json.dump(numbers, file)


if __name__ == "__main__":
    main()
