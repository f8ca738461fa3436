"""`onedraw.torch.kept_logprobs` on a GPU beside a plain masked log-softmax: time and memory of forward and backward together.

    python kept_logprobs.py [--rows N] [--vocabulary V] [--quick]

Needs a GPU, PyTorch with Triton and the package `onedraw`. Prints tables in Markdown:

- device: the sum of the times of all kernels and copies of a call, by PyTorch's profiler.
- call: the median of the time between two events of the stream. The device has other work before the first one, as it has in a
  trainer, so that the host is ahead. But a call waits for the device once, and what the host then does until the next kernel
  is in this time.
- floors: the same, divided by the time of a copy of the logits: one read and one write of them.
- memory: the peak of what PyTorch's allocator gave out during the call, less what there was before and less the gradient, in
  percent of the logits' size.

Values and gradients are held against a masked log-softmax in float64 before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
from onedraw.kept import KeptSets
from onedraw.torch import kept_logprobs

DEVICE = torch.device("cuda")
TEMPERATURE = 1.0
CHECKED = 48
"""Rows that are compared with float64."""


@dataclass
class Rows:
    """Logits with kept sets: 64 different rows, again and again."""

    name: str
    logits: torch.Tensor
    tokens: torch.Tensor
    ids: tuple[torch.Tensor, torch.Tensor]
    summaries: KeptSets

    @property
    def per_row(self) -> float:
        return len(self.ids[0]) / len(self.tokens)

    def is_kept(self, rows: int) -> torch.Tensor:
        """The sets of the first rows as a mask."""
        token_ids, offsets = self.ids
        mask = torch.zeros(rows, self.logits.shape[1], dtype=torch.bool, device=DEVICE)
        row = torch.arange(rows, device=DEVICE).repeat_interleave(offsets[: rows + 1].diff())
        mask[row, token_ids[: len(row)].long()] = True
        return mask


def peaked(random: torch.Generator, rows: int, size: int) -> torch.Tensor:
    """A normal bulk, sigma 3, and a head that falls with the logarithm of the rank; as in bench/cuda."""
    head = 1024
    exponent = 1.3 + 0.8 * torch.rand(rows, 1, generator=random, device=DEVICE)
    first = 20 - exponent * torch.log(torch.arange(1, head + 1, device=DEVICE))
    row = torch.cat([first, 3 * torch.randn(rows, size - head, generator=random, device=DEVICE)], dim=1)
    return row.gather(1, torch.rand(rows, size, generator=random, device=DEVICE).argsort(dim=1))


def flat(random: torch.Generator, rows: int, size: int) -> torch.Tensor:
    return torch.randn(rows, size, generator=random, device=DEVICE)


def made(name: str, shape: Callable[..., torch.Tensor], rows: int, size: int, *, top_p: float = 1.0, top_k: int = 0) -> Rows:
    """Rows with the sets that top-p or top-k keep of them, and what is equal to the last of these."""
    random = torch.Generator(DEVICE).manual_seed(0)
    base = shape(random, 64, size).bfloat16()
    ordered = base.sort(dim=1, descending=True).values
    probabilities = (ordered.float() / TEMPERATURE).softmax(dim=1)
    counts = ((probabilities.cumsum(dim=1) - probabilities) < top_p).sum(dim=1) if top_p < 1 else torch.full((64,), top_k, device=DEVICE)
    borders = ordered.gather(1, counts[:, None] - 1)
    sets = [row.nonzero()[:, 0].int() for row in base >= borders]
    last = torch.stack([row.nonzero()[-1, 0] for row in base == borders])
    tokens = torch.stack([ids[len(ids) // 2] for ids in sets])
    times = rows // 64
    lengths = np.tile([len(ids) for ids in sets], times)
    summaries = KeptSets(
        token_ids=None, offsets=None, counts=lengths, last_tokens=last.repeat(times).cpu().numpy(),
        last_logits=borders[:, 0].float().repeat(times).cpu().numpy(), ln_masses=np.zeros(rows),
    )  # fmt: skip
    offsets = torch.from_numpy(np.concatenate([[0], lengths]).cumsum()).to(DEVICE)
    return Rows(name, base.repeat(times, 1), tokens.repeat(times), (torch.cat(sets).repeat(times), offsets), summaries)


def plain(logits: torch.Tensor, tokens: torch.Tensor, is_kept: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What a trainer would write without us."""
    scaled = (logits.to(dtype) / TEMPERATURE).masked_fill(~is_kept, -torch.inf)
    return scaled.log_softmax(dim=1).gather(1, tokens[:, None])[:, 0]


def check(rows: Rows) -> None:
    """Raises if values or gradients of the first rows are wrong."""
    some, tokens = rows.logits[:CHECKED], rows.tokens[:CHECKED]
    slopes = torch.randn(2, CHECKED, device=DEVICE)
    exact = some.double().requires_grad_()
    scaled = (exact / TEMPERATURE).masked_fill(~rows.is_kept(CHECKED), -torch.inf).log_softmax(dim=1)
    entropies = -(scaled.exp() * scaled.masked_fill(scaled == -torch.inf, 0)).sum(dim=1)
    expected = (scaled.gather(1, tokens[:, None])[:, 0], entropies)
    (expected[0] @ slopes[0].double() + expected[1] @ slopes[1].double()).backward()
    end = int(rows.ids[1][CHECKED])
    for kept in ((rows.ids[0][:end], rows.ids[1][: CHECKED + 1]), rows.summaries.select(slice(CHECKED))):
        for inplace in (False, True):
            leaf = some.clone().requires_grad_()
            told = kept_logprobs(leaf, tokens, kept, TEMPERATURE, entropy=True, inplace=inplace)
            (told[0] @ slopes[0] + told[1] @ slopes[1]).backward()
            for found, right in zip(told, expected, strict=True):
                torch.testing.assert_close(found.double(), right, rtol=3e-6, atol=3e-6)
            torch.testing.assert_close(leaf.grad.double(), exact.grad, rtol=5e-3, atol=1e-6)


WORK = torch.ones(2, 8192, 8192, dtype=torch.bfloat16, device=DEVICE).unbind()
"""Matrices whose product takes the device about two milliseconds."""
RESULT = torch.empty_like(WORK[0])


def measured(step: Callable[[], Any], prepare: Callable[[], Any], runs: int, gradient: int) -> tuple[float, float, int]:
    """The milliseconds of a step on the device alone and from its begin to its end, and the bytes that it takes beside the
    gradient."""
    times = []
    peak = 0
    for run in range(runs + 2):
        prepare()
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.mm(*WORK, out=RESULT)
        begin.record()
        step()
        end.record()
        torch.cuda.synchronize()
        if run >= 2:
            times.append(begin.elapsed_time(end))
        peak = torch.cuda.max_memory_allocated() - before - gradient
    prepare()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        torch.cuda.synchronize()
    device = sum(event.self_device_time_total for event in profile.key_averages())
    return device / 1e3, statistics.median(times), peak


def table(rows: Rows, runs: int) -> None:
    leaf = rows.logits.clone().requires_grad_()
    size = leaf.nbytes
    slopes = torch.randn(len(rows.tokens), device=DEVICE)
    other = torch.empty_like(leaf, requires_grad=False)
    floor_on_device, floor, _ = measured(lambda: other.copy_(leaf.detach()), lambda: None, runs, 0)
    del other

    def prepare() -> None:
        leaf.grad = None
        leaf.detach().copy_(rows.logits)

    def line(name: str, goal: str, step: Callable[[], Any], gradient: int = size) -> None:
        torch.cuda.empty_cache()
        device, call, beside = measured(step, prepare, runs, gradient)
        print(f"| {name} | {device:.2f} | {device / floor_on_device:.2f} | {goal} | {call:.2f} | {call / floor:.2f} | {100 * beside / size:.2f} % |", flush=True)

    print(f"\n## {rows.name}: {rows.per_row:.0f} of {leaf.shape[1]:,} tokens kept per row\n")
    print("| | device, ms | floors | goal | call, ms | floors | memory |\n|---|---:|---:|---:|---:|---:|---:|")
    print(f"| floor: a copy of the logits | {floor_on_device:.2f} | 1 | | {floor:.2f} | 1 | |")
    for form, kept, goal in (("ids", rows.ids, "≤ 1.5"), ("summaries", rows.summaries, "≤ 2")):
        for inplace in (False, True):
            name = f"{form}{', in place' if inplace else ''}"
            gradient = 0 if inplace else size
            line(name, goal, lambda: kept_logprobs(leaf, rows.tokens, kept, TEMPERATURE, inplace=inplace).backward(slopes), gradient)  # noqa: B023
        line(f"{form}, with entropies", "", lambda: sum(kept_logprobs(leaf, rows.tokens, kept, TEMPERATURE, entropy=True)).backward(slopes))  # noqa: B023
    is_kept = rows.is_kept(len(rows.tokens))
    for dtype in (torch.float32, torch.bfloat16):
        name = f"masked log-softmax, {str(dtype).removeprefix('torch.')} (its mask is made before)"
        line(name, "", lambda: plain(leaf, rows.tokens, is_kept, dtype).backward(slopes))  # noqa: B023


def uploads(rows: Rows) -> None:
    """What it takes to bring ids from the host, which trainers do beforehand."""
    host = tuple(tensor.cpu().numpy() for tensor in rows.ids)
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for array in host:
            torch.from_numpy(array).to(DEVICE)
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    print(f"\nIds from the host's pageable memory to the device, not in the table: {host[0].nbytes / 1e6:.1f} MB, {statistics.median(times):.2f} ms.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--vocabulary", type=int, default=128_256)
    parser.add_argument("--quick", action="store_true", help="few runs of the first table")
    asked = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, Triton {triton.__version__}; {asked.rows:,} × {asked.vocabulary:,}, bfloat16")
    shapes = [("peaked rows, top-p 0.9", peaked, {"top_p": 0.9}), ("peaked rows, top-k 3,000", peaked, {"top_k": 3000}), ("flat rows, top-p 0.9", flat, {"top_p": 0.9})]
    for name, shape, cut in shapes[: 1 if asked.quick else None]:
        rows = made(name, shape, asked.rows, asked.vocabulary, **cut)
        check(rows)
        table(rows, 5 if asked.quick else 21)
        uploads(rows)
        del rows
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
