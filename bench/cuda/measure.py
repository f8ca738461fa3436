"""onedraw on a GPU beside PyTorch and FlashInfer: microseconds of a step in a CUDA graph.

    python measure.py [--quick] [--tables NAME ...] [--names START ...] [--markdown FILE]

Needs a GPU, PyTorch and the package `onedraw`. FlashInfer is measured where it is installed; without its cache of kernels it builds them at the first
call, which takes minutes. `--names "top-p" "FlashInfer top-p"` keeps the lines that begin so. Rows are 128,256 logits unless a table says otherwise;
sets of them go round, more than the second cache holds. Every number is the median of fifteen runs of a graph of 64 steps or more, by events of the
stream.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import onedraw
import onedraw.cuda
import torch

try:
    import flashinfer
    from flashinfer import sampling
except (ImportError, OSError, RuntimeError) as error:  # some of what it loads may be missing, too
    flashinfer, without_flashinfer = None, f"FlashInfer is not measured: {type(error).__name__}: {error}"

RUNS, STEPS = 15, 64
DEVICE = torch.device("cuda")
Shape = Callable[[torch.Generator, int], torch.Tensor]
Peer = Callable[[torch.Tensor], torch.Tensor]

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


def sets(shape: Shape, rows: int, size: int, dtype: torch.dtype) -> list[torch.Tensor]:
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


def torch_peers(rows: int) -> dict[str, Peer]:
    return {"torch argmax": lambda logits: logits.argmax(dim=-1), "torch temperature": torch_temperature, "torch top-k, top-p": torch_top_k_top_p}


def flashinfer_peers(rows: int) -> dict[str, Peer]:
    """FlashInfer's public calls with a value a row, and all they need of logits: its own softmax, or a division by the temperature.

    Seeds and offsets are tensors, as graphs want them; every step has an offset of its own, because the rounds of a rejection sampler are a matter of luck.
    Top-k and top-p go one after the other, as ours do, from logits (vLLM's way), from probabilities, or there in one kernel, whose seed is a number; or
    jointly (SGLang's way, another distribution).
    """
    if flashinfer is None:
        return {}
    temperature, top_p, min_p = (torch.full((rows,), value, device=DEVICE) for value in (0.8, 0.9, 0.05))
    top_k = torch.full((rows,), 50, dtype=torch.int32, device=DEVICE)
    seed = torch.arange(1000, 1000 + rows, device=DEVICE)
    offsets, turn = [torch.tensor([4096 * step], device=DEVICE) for step in range(STEPS)], itertools.count()

    def scaled(logits: torch.Tensor) -> torch.Tensor:
        return logits / temperature.unsqueeze(1)

    def probabilities(logits: torch.Tensor) -> torch.Tensor:
        return sampling.softmax(logits, temperature)

    def luck() -> dict[str, torch.Tensor]:
        return {"seed": seed, "offset": offsets[next(turn) % STEPS]}

    peers: dict[str, Peer] = {
        "FlashInfer temperature, from logits": lambda logits: sampling.sampling_from_logits(scaled(logits), **luck()),
        "FlashInfer temperature, from softmax": lambda logits: sampling.sampling_from_probs(probabilities(logits), **luck()),
        "FlashInfer top-k, top-p, from logits": lambda logits: sampling.top_k_top_p_sampling_from_logits(scaled(logits), top_k, top_p, **luck()),
        "FlashInfer top-k, top-p, from softmax": lambda logits: sampling.top_k_top_p_sampling_from_probs(probabilities(logits), top_k, top_p, **luck()),
        "FlashInfer top-k, top-p, jointly": lambda logits: sampling.top_k_top_p_sampling_from_probs(
            probabilities(logits), top_k, top_p, filter_apply_order="joint", **luck()
        ),
        "FlashInfer top-p": lambda logits: sampling.top_p_sampling_from_probs(probabilities(logits), top_p, **luck()),
        "FlashInfer min-p": lambda logits: sampling.min_p_sampling_from_probs(probabilities(logits), min_p, **luck()),
    }
    if fused := getattr(flashinfer, "cake_top_k_top_p_sampling_from_probs", None):  # newer versions have it
        peers["FlashInfer top-k, top-p, fused"] = lambda logits: fused(
            probabilities(logits), top_k, top_p, top_k_max=50, philox_seed=1000, philox_offset=4096 * next(turn)
        )
    return peers


class Table(NamedTuple):
    title: str
    shape: Shape
    batches: list[int]
    size: int
    dtype: torch.dtype
    names: list[str]
    peers: list[Callable[[int], dict[str, Peer]]]


EVERY, COMMON = list(STRATEGIES), [1, 8, 64, 256]
SOME = ["temperature", "top-k 50, top-p 0.9", "top-p 0.9", "min-p 0.05"]

TABLES = {
    "peaked": Table("Peaked rows, f32, 128,256 logits", peaked, COMMON, 128_256, torch.float32, EVERY, [torch_peers, flashinfer_peers]),
    "flat": Table("Flat rows, f32, 128,256 logits", flat, COMMON, 128_256, torch.float32, SOME, [flashinfer_peers]),
    "bf16": Table("Peaked rows, bf16, 128,256 logits", peaked, COMMON, 128_256, torch.bfloat16, EVERY, []),
    "1024": Table("Peaked rows, f32, 1,024 rows of 128,256 logits", peaked, [1024], 128_256, torch.float32, SOME, []),
    "32000": Table("Peaked rows, f32, 32,000 logits", peaked, COMMON, 32_000, torch.float32, SOME, []),
    "151936": Table("Peaked rows, f32, 151,936 logits", peaked, COMMON, 151_936, torch.float32, SOME, []),
}


def markdown(title: str, batches: list[int], lines: dict[str, list[float | None]]) -> str:
    head = "| |" + "".join(f" {rows} |" for rows in batches)
    rule = "|---|" + "---|" * len(batches)
    body = [f"| {name} |" + "".join(" – |" if value is None else f" {value:.1f} |" for value in values) for name, values in lines.items()]
    return "\n".join([f"### {title}", "", head, rule, *body, ""])


def measured(table: Table, starts: tuple[str, ...]) -> dict[str, list[float | None]]:
    """The lines of a table whose names begin with one of these."""
    lines: dict[str, list[float | None]] = {}
    for rows in table.batches:
        matrices = sets(table.shape, rows, table.size, table.dtype)
        for name in table.names:
            if name.startswith(starts):
                lines.setdefault(name, []).append(ours(matrices, STRATEGIES[name]))
        for name, peer in itertools.chain.from_iterable(peers(rows).items() for peers in table.peers):
            if not name.startswith(starts):
                continue
            try:
                value = microseconds([lambda logits=logits: peer(logits) for logits in matrices])
            except (OSError, RuntimeError) as error:
                print(f"{name} at {rows} rows, in a graph: {error}")
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
    arguments.add_argument("--quick", action="store_true", help="the first table only")
    arguments.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="NAME", help=f"of {', '.join(TABLES)}")
    arguments.add_argument("--names", nargs="+", default=[""], metavar="START", help="only lines whose names begin with one of these")
    arguments.add_argument("--markdown", help="where the tables go, too")
    asked = arguments.parse_args()
    beside = f"FlashInfer {flashinfer.__version__}" if flashinfer else "no FlashInfer"
    text = [f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {beside}, µs of a step in a CUDA graph, by rows of the batch.\n"]
    batch, step = first_call(128_256)
    text.append(f"The first call: {batch:.1f} ms for a batch, the kernels' loading with it, and {step:.1f} ms for the first step.\n")
    print(*text, sep="\n")
    if flashinfer is None:
        print(without_flashinfer)
    for name in asked.tables[:1] if asked.quick else asked.tables:
        table = TABLES[name]
        text.append(markdown(table.title, table.batches, measured(table, tuple(asked.names))))
        print(text[-1], flush=True)
    if asked.markdown:
        with open(asked.markdown, "w", encoding="utf-8") as file:
            file.write("\n".join(text))


if __name__ == "__main__":
    main()
