"""onedraw on a GPU beside PyTorch: microseconds of a step in a CUDA graph.

    python measure.py [--quick] [--markdown FILE]

Needs a GPU, PyTorch and the package `onedraw`. Rows are 128,256 logits unless a table says otherwise; sets of them go round, more than the
second cache holds. Every number is the median of fifteen runs of a graph of 64 steps or more, by events of the stream.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import onedraw
import onedraw.cuda
import torch

RUNS, STEPS = 15, 64
DEVICE = torch.device("cuda")

STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    "top-k 50, top-p 0.9": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "top-p 0.9": {"temperature": 0.8, "top_p": 0.9},
    "min-p 0.05": {"temperature": 0.8, "min_p": 0.05},
    "three penalties, logprobs 5": {
        "temperature": 0.8, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1, "logprobs": 5,
    },
}  # fmt: skip


def peaked(generator: torch.Generator, size: int) -> torch.Tensor:
    """A normal bulk, sigma 3, and a head that falls with the logarithm of the rank."""
    head = 1024
    exponent = 1.3 + 0.8 * torch.rand((), generator=generator)
    row = torch.cat([20 - exponent * torch.log(torch.arange(1, head + 1)), 3 * torch.randn(size - head, generator=generator)])
    return row[torch.randperm(size, generator=generator)]


def flat(generator: torch.Generator, size: int) -> torch.Tensor:
    return torch.randn(size, generator=generator)


def sets(shape: Callable[[torch.Generator, int], torch.Tensor], rows: int, size: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Matrices of rows, together more than 256 MiB or 64 of them."""
    generator = torch.Generator().manual_seed(0)
    base = torch.stack([shape(generator, size) for _ in range(64)]).to(DEVICE, dtype)
    count = min(64, (256 << 20) // (rows * size * base.element_size()) + 1)
    return [base.roll(i, 0).repeat(-(-rows // 64), 1)[:rows].contiguous() for i in range(count)]


def microseconds(steps: list[Callable[[], object]]) -> float:
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
    times = []
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


def ours(matrices: list[torch.Tensor], params: dict[str, Any]) -> float:
    rows, size = matrices[0].shape
    batch = onedraw.cuda.Batch(size, rows, logprobs=max(0, params.get("logprobs", 0)))
    seen = torch.randint(0, size, (200,), generator=torch.Generator().manual_seed(1)).tolist() if "repetition_penalty" in params else []
    ids = [batch.add(seed=1000 + row, prompt_token_ids=seen, **params) for row in range(rows)]
    batch.prepare(ids)
    time_of_step = microseconds([lambda logits=logits: batch.launch(logits) for logits in matrices])
    return time_of_step


def torch_temperature(logits: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(torch.softmax(logits / 0.8, dim=-1), 1)


def torch_top_k_top_p(logits: torch.Tensor) -> torch.Tensor:
    """The way of vLLM's fallback: sort, cut, scatter, draw."""
    ordered, order = torch.sort(logits / 0.8, dim=-1, descending=False)
    threshold = ordered[:, -50].unsqueeze(1)
    ordered = ordered.masked_fill(ordered < threshold, -torch.inf)
    cumulative = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1)
    removed = cumulative <= 1 - 0.9
    removed[:, -1] = False
    ordered = ordered.masked_fill(removed, -torch.inf)
    return torch.multinomial(torch.softmax(torch.empty_like(logits).scatter_(1, order, ordered), dim=-1), 1)


PEERS = {"torch argmax": lambda logits: logits.argmax(dim=-1), "torch temperature": torch_temperature, "torch top-k, top-p": torch_top_k_top_p}


def table(title: str, batches: list[int], lines: dict[str, list[float | None]]) -> str:
    head = "| |" + "".join(f" {rows} |" for rows in batches)
    rule = "|---|" + "---|" * len(batches)
    body = [f"| {name} |" + "".join(" – |" if value is None else f" {value:.1f} |" for value in values) for name, values in lines.items()]
    return "\n".join([f"### {title}", "", head, rule, *body, ""])


def measured(shape: Callable[[torch.Generator, int], torch.Tensor], batches: list[int], size: int, dtype: torch.dtype, names: list[str], peers: bool) -> dict[str, list[float | None]]:
    lines: dict[str, list[float | None]] = {}
    for rows in batches:
        matrices = sets(shape, rows, size, dtype)
        for name in names:
            lines.setdefault(name, []).append(ours(matrices, STRATEGIES[name]))
        for name, peer in PEERS.items() if peers else ():
            try:
                value = microseconds([lambda logits=logits: peer(logits) for logits in matrices])
            except RuntimeError as error:
                print(f"{name} at {rows} rows: {error}")
                value = None
            lines.setdefault(name, []).append(value)
        del matrices
    return lines


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
    arguments.add_argument("--quick", action="store_true", help="one table only")
    arguments.add_argument("--markdown", help="where the tables go, too")
    asked = arguments.parse_args()
    text = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, µs of a step in a CUDA graph, by rows of the batch.\n"]
    batch, step = first_call(128_256)
    text.append(f"The first call: {batch:.1f} ms for a batch, the kernels' loading with it, and {step:.1f} ms for the first step.\n")
    every, common = list(STRATEGIES), [1, 8, 64, 256]

    def add(title: str, batches: list[int], lines: dict[str, list[float | None]]) -> None:
        text.append(table(title, batches, lines))
        print(text[-1], flush=True)

    print(*text, sep="\n")
    add("Peaked rows, f32, 128,256 logits", common, measured(peaked, common, 128_256, torch.float32, every, True))
    if not asked.quick:
        some = ["temperature", "top-k 50, top-p 0.9", "top-p 0.9", "min-p 0.05"]
        add("Flat rows, f32, 128,256 logits", common, measured(flat, common, 128_256, torch.float32, some, False))
        add("Peaked rows, bf16, 128,256 logits", common, measured(peaked, common, 128_256, torch.bfloat16, every, False))
        add("Peaked rows, f32, 1,024 rows of 128,256 logits", [1024], measured(peaked, [1024], 128_256, torch.float32, some, False))
        add("Peaked rows, f32, 32,000 logits", common, measured(peaked, common, 32_000, torch.float32, some, False))
        add("Peaked rows, f32, 151,936 logits", common, measured(peaked, common, 151_936, torch.float32, some, False))
    if asked.markdown:
        with open(asked.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(text))


if __name__ == "__main__":
    main()
