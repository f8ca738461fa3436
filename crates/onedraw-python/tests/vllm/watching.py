"""Looks at the draws of an engine, and disturbs them, in whichever of its processes they are made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "ONEDRAW_WATCHED"
"""What is wanted, as JSON, in the environment of all processes."""

Before = Callable[[Any, list[Any], list[range], Any], None]
"""What is called with the requests of a runner, those of them that draw, the rows of each, and the logits."""
After = Callable[[Any, list[range], Any], None]


def begin() -> None:
    """Does in this process what the environment asks for."""
    wanted = json.loads(os.environ.get(VARIABLE, "{}"))
    if "trace" in wanted:
        record(Path(wanted["trace"]), wanted.get("logits", False))
    for place in wanted.get("poison", ()):
        poison(*place)
    if "death" in wanted:
        die(*wanted["death"])
    if "doubt" in wanted:
        doubt(*wanted["doubt"])
    if "version" in wanted:
        import vllm

        vllm.__version__ = wanted["version"]


def record(folder: Path, with_logits: bool) -> None:
    """Writes of every row what it was and what was drawn from it, into a file of this process; on request the row
    itself, too, into another one."""
    import torch

    def note(drawn: Any, rows: list[range], logits: Any) -> None:
        samples = iter(drawn.samples)
        with (folder / f"rank{_rank()}").open("a") as file, (folder / f"logits{_rank()}").open("ab") as whole:
            for own, count in zip(rows, drawn.counts, strict=True):
                for row in own[:count]:
                    one, bits = next(samples), logits[row].contiguous().view(torch.uint8).numpy().tobytes()
                    if with_logits:
                        whole.write(bits)
                    print(json.dumps([one.seed, one.position, hashlib.blake2b(bits, digest_size=8).hexdigest(), one.token]), file=file)

    watch(after=note)


def poison(seed: int, position: int) -> None:
    """Puts a NaN into one row: that of a seed, at a position, which may be one after guesses. Where ranks keep their
    logits, the last one has it."""

    def spoil(requests: Any, asked: list[Any], rows: list[range], logits: Any) -> None:
        for request, own in zip(asked, rows, strict=True):
            place = position - request.written
            if 0 <= place < len(own) and requests.batch.seed(request.sequence) == seed and _rank() == _world() - 1:
                logits[own[place], 17] = float("nan")

    watch(before=spoil)


def die(rank: int, seed: int, position: int) -> None:
    """Ends the process of a rank before it draws for a seed at a position, while the others wait for its message."""

    def leave(requests: Any, asked: list[Any], rows: list[range], logits: Any) -> None:
        if _rank() == rank and any(request.written == position and requests.batch.seed(request.sequence) == seed for request in asked):
            os._exit(1)

    watch(before=leave)


def doubt(rank: int, seed: int) -> None:
    """Gives the request of a seed another temperature on a rank."""
    from onedraw.vllm.requests import Requests

    original: Any = Requests.add

    def add(self: Any, name: str, owner: object, params: Any, **named: Any) -> Any:
        is_meant = _rank() == rank and params.seed == seed
        return original(self, name, owner, params.replace(temperature=0.5) if is_meant else params, **named)

    Requests.add = add  # type: ignore[method-assign]


def watch(before: Before | None = None, after: After | None = None) -> None:
    """Calls a function before each draw, or after it."""
    from onedraw.vllm import draws
    from onedraw.vllm.requests import Turn

    def watched(function: Any) -> Any:
        def call(requests: Any, asked: list[Any], logits: Any, masks: Any = None) -> Any:
            is_turn = asked and isinstance(asked[0], Turn)
            each = [one.request for one in asked] if is_turn else asked
            rows = [range(one.row, one.row + len(one.guesses) + 1) for one in asked] if is_turn else [range(row, row + 1) for row in range(len(asked))]
            if before is not None:
                before(requests, each, rows, logits)
            drawn = function(requests, asked, logits, masks)
            if after is not None:
                after(drawn, rows, logits)
            return drawn

        return call

    draws.draw, draws.draw_each = watched(draws.draw), watched(draws.draw_each)


def _rank() -> int:
    import torch.distributed as dist

    return dist.get_rank() if dist.is_initialized() else 0


def _world() -> int:
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_initialized() else 1
