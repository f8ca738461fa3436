"""What a round among ranks costs, part by part, in microseconds.

    python bench/rounds.py            over Gloo, with two processes on this machine
    python bench/rounds.py --device   the messages on a GPU

A draw over ranks makes its message, gathers those of all ranks, and finishes on the host. Making and finishing are
measured in one process: the messages of the other ranks are made beforehand. The gather is measured between
processes, beside that of the whole logits, which a draw over ranks does without. Rows are 128,256 logits in bf16,
peaked; medians of 41 steps. Needs PyTorch and the package `onedraw`.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import onedraw
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

VOCABULARY, STEPS = 128_256, 41
ROWS = (1, 8, 32, 128)
# The name that PyTorch 2.13 gave it, and the one before.
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
CHAINS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.8},
    "top-p 0.9": {"temperature": 0.8, "top_p": 0.9},
    "top-k 50, top-p 0.9": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
}


def main() -> None:
    if "--device" in sys.argv[1:]:
        print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}\n")
        made("cuda")
        finished("cuda")
        return
    print(f"PyTorch {torch.__version__}\n")
    made("cpu")
    finished("cpu")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(gathered, (f"file://{folder}/init", 2), nprocs=2)


def matrix(rows: int, device: str) -> torch.Tensor:
    """A normal bulk and a head that falls with the logarithm of the rank, at other places in each row."""
    generator = torch.Generator().manual_seed(rows)
    logits = 3 * torch.randn((rows, VOCABULARY), generator=generator)
    head = 20 - 1.7 * torch.log(torch.arange(1, 1025))
    for row in logits:
        row[torch.randperm(VOCABULARY, generator=generator)[:1024]] = head
    return logits.to(torch.bfloat16).to(device)


class Rank:
    """One of several ranks, all of them in this process."""

    def __init__(self, number: int, count: int, chain: dict[str, Any], logits: torch.Tensor) -> None:
        self.count, self.batch = count, onedraw.Batch()
        self.start, end = VOCABULARY * number // count, VOCABULARY * (number + 1) // count
        self.part = logits[:, self.start : end].contiguous()
        self.ids = [self.batch.add({**chain, "seed": seed}) for seed in range(len(logits))]

    def draw(self, gather: Callable[[Any, int], list[bytes]]) -> Any:
        return self.batch._draw_over(
            self.ids, self.part, 0, ranks=self.count, vocabulary=VOCABULARY, start=self.start,
            length=self.part.shape[1], gather=gather,
        )  # fmt: skip


class Stopped(Exception):
    """A draw that ends with its message."""


def made(device: str) -> None:
    """The time to make the messages of a rank out of eight: on a GPU that of the device, and of the host."""
    print("making the first message, one of 8 ranks\n")
    head("rows", *ROWS)
    for name, chain in CHAINS.items():
        cells = []
        for rows in ROWS:
            rank = Rank(0, 8, chain, matrix(rows, device))
            (on_host, on_device) = zip(*(one_message(rank, device) for _ in range(STEPS)), strict=True)
            host, device_time = statistics.median(on_host), statistics.median(on_device)
            cells.append(f"{host:.0f}" if device == "cpu" else f"{device_time:.1f} ({host:.0f})")
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def one_message(rank: Rank, device: str) -> tuple[float, float]:
    on_gpu = device == "cuda"
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if on_gpu else []
    ended = 0.0

    def gather(message: Any, room: int) -> list[bytes]:
        nonlocal ended
        ended = time.perf_counter()
        if on_gpu:
            events[1].record()
        raise Stopped

    if on_gpu:
        # While the device is busy with other work, the host launches all of it.
        torch.cuda._sleep(2_000_000)
        events[0].record()
    begun = time.perf_counter()
    try:
        rank.draw(gather)
    except Stopped:
        pass
    if on_gpu:
        torch.cuda.synchronize()
    return (ended - begun) * 1e6, events[0].elapsed_time(events[1]) * 1e3 if on_gpu else 0.0


def finished(device: str) -> None:
    """The host's time from the messages of all ranks to the tokens."""
    print("finishing, from the messages of all ranks to the samples\n")
    head("ranks, rows", *(f"{count}, {rows}" for count in (8, 16) for rows in ROWS))
    for name, chain in CHAINS.items():
        cells = []
        for count in (8, 16):
            for rows in ROWS:
                logits = matrix(rows, device)
                ranks = [Rank(number, count, chain, logits) for number in range(count)]
                cells.append(f"{finish(ranks):.0f}")
        print(f"| {name} | {' | '.join(cells)} |")
    print()


def finish(ranks: list[Rank]) -> float:
    """Draws once with all ranks, to have their messages, and then again and again with the first rank alone."""
    rounds: list[list[bytes]] = []
    own: list[Any] = [None] * len(ranks)
    barrier = threading.Barrier(len(ranks))

    def draw(number: int) -> None:
        def gather(message: Any, room: int) -> list[bytes]:
            own[number] = message if isinstance(message, bytes) else torch.as_tensor(message, device="cuda").cpu().numpy().tobytes()
            barrier.wait()
            if number == 0:
                rounds.append([part.ljust(room, b"\0") if len(part) > 0 else part for part in own])
            barrier.wait()
            return rounds[-1]

        ranks[number].draw(gather)

    threads = [threading.Thread(target=draw, args=(number,)) for number in range(len(ranks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = []
    for _ in range(STEPS):
        given = iter(rounds)
        spent, resumed = 0.0, 0.0

        def gather(message: Any, room: int) -> list[bytes]:
            nonlocal spent, resumed
            if resumed:
                spent += time.perf_counter() - resumed
            messages = next(given)
            resumed = time.perf_counter()
            return messages

        ranks[0].draw(gather)
        times.append((spent + time.perf_counter() - resumed) * 1e6)
    return statistics.median(times)


def gathered(number: int, place: str, count: int) -> None:
    """The time of a collective over Gloo, with the messages of a step and with the logits."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", place, rank=number, world_size=count)
    if number == 0:
        print(f"gathering over Gloo, {count} processes\n")
        head("rows", *ROWS)
    for name, bytes_of_row in (("messages", 1068), ("logits in bf16", VOCABULARY // count * 2)):
        cells = []
        for rows in ROWS:
            own = torch.zeros(rows * bytes_of_row, dtype=torch.uint8)
            into = own.new_empty(count * len(own))
            times = []
            for _ in range(STEPS):
                dist.barrier()
                begun = time.perf_counter()
                all_gather(into, own)
                times.append((time.perf_counter() - begun) * 1e6)
            cells.append(f"{statistics.median(times):.0f}")
        if number == 0:
            print(f"| {name} | {' | '.join(cells)} |")
    dist.destroy_process_group()


def head(*names: object) -> None:
    print(f"| {' | '.join(map(str, names))} |\n|---|{'---:|' * (len(names) - 1)}")


if __name__ == "__main__":
    main()
