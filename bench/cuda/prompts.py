"""Logprobs of a prompt's rows on a GPU, beside one read of these rows.

    python prompts.py [--rows 2048] [--logprobs 5]

`prompt_logprobs` copies its results to the host and waits for them, so it cannot stand in a CUDA graph: the time of its kernels alone is from the start of
the first to the end of the last, as PyTorch's profiler sees them. One read is the least of three: the largest logit of each row and their sum
(PyTorch's reductions), and half of a copy. Others are measured in a graph, as in `measure.py`. Medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onedraw
import onedraw.cuda
import peers
import torch
from measure import microseconds, peaked

SIZE, CALLS = 128_256, 7


def kernels_alone(call: Callable[[], object]) -> tuple[float, list[str]]:
    """Microseconds from the first kernel of a call to the end of the last, and the names of its kernels with their times."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    times, names = [], []
    for _ in range(CALLS):
        with torch.profiler.profile(activities=activities) as profile:
            call()
            torch.cuda.synchronize()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "trace.json"
            profile.export_chrome_trace(str(file))
            events = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
        kernels = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: float(event["ts"]))
        if not kernels:
            raise RuntimeError("the profiler saw no kernels")
        times.append(max(event["ts"] + event["dur"] for event in kernels) - kernels[0]["ts"])
        names = [f"{event['name'][:60]} {event['dur']:.1f}" for event in kernels]
    return statistics.median(times), names


def one_read(logits: torch.Tensor) -> dict[str, float]:
    copy = torch.empty_like(logits)
    return {
        "amax of each row": microseconds([lambda: torch.amax(logits, dim=-1)]),
        "sum of each row": microseconds([lambda: torch.sum(logits, dim=-1)]),
        "half of a copy": microseconds([lambda: copy.copy_(logits)]) / 2,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=2048)
    arguments.add_argument("--logprobs", type=int, default=5)
    asked = arguments.parse_args()
    rows, count = asked.rows, asked.logprobs
    generator = torch.Generator().manual_seed(0)
    base = torch.stack([peaked(generator, SIZE) for _ in range(64)]).to("cuda")
    logits = base.repeat(-(-rows // 64), 1)[:rows].contiguous()
    ways = one_read(logits)
    way = min(ways, key=lambda name: ways[name])
    read = ways[way]
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}: {rows:,} rows of {SIZE:,} logits, f32, peaked, {count} logprobs each\n")
    for name, value in ways.items():
        print(f"{name}: {value:.1f} µs, {logits.nbytes / value / 1e6:.2f} TB/s{' (one read)' if name == way else ''}")

    tokens = [(7919 * i) % 5000 for i in range(rows + 1)]
    batch = onedraw.cuda.Batch(SIZE, 1, rows=rows, logprobs=count)
    sequence = batch.add(prompt_token_ids=tokens, prompt_logprobs=count, seed=1)
    walls = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        told = batch.prompt_logprobs(sequence, logits)
        walls.append((time.perf_counter() - begun) * 1e6)
    assert len(told) == rows and all(isinstance(report, onedraw.Report) for report in told), "one report a row"
    alone, names = kernels_alone(lambda: batch.prompt_logprobs(sequence, logits))

    drawn = torch.tensor(tokens[1:], device="cuda")
    lines = {
        "onedraw, kernels alone": alone,
        "onedraw, the whole call with its reports": statistics.median(walls),
        "torch (log_softmax, topk, rank)": microseconds([lambda: peers.logprobs(logits, drawn, count)]),
    }
    try:
        from vllm.v1.worker.gpu.sample.logprob import compute_topk_scores

        lines["vLLM (Triton kernels, torch.topk)"] = microseconds([lambda: compute_topk_scores(logits, count, drawn)])
    except ImportError as error:
        print(f"vLLM is not measured: {error}")
    print("\n| | µs | reads |\n|---|---|---|")
    for name, value in lines.items():
        print(f"| {name} | {value:.1f} | {value / read:.2f} |")
    print("\nkernels of the last call, µs:", "; ".join(names))


if __name__ == "__main__":
    main()
