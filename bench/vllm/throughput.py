"""Tokens per second of a whole engine on the CPU, with vLLM's own sampler and with onedraw's. Both engines live at the
same time and take turns."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KINDS: dict[str, dict[str, Any]] = {
    "temperature 0.8": {"temperature": 0.8},
    "top-p 0.9": {"temperature": 0.8, "top_p": 0.9},
    "top-k 50 + top-p 0.9, five logprobs": {"temperature": 0.8, "top_k": 50, "top_p": 0.9, "logprobs": 5},
}


def engine(is_ours: bool, tokens: int) -> None:
    """An engine that writes texts of a kind for each line of its input, and answers with tokens per second."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        str(ROOT / "models/stories"),
        dtype="float32",
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=32,
        distributed_executor_backend="uni",
        additional_config={"onedraw": {"sampler": is_ours}},
    )
    print("ready", flush=True)
    for line in sys.stdin:
        params = [SamplingParams(**json.loads(line), seed=seed, max_tokens=tokens, ignore_eos=True) for seed in range(32)]
        begun = time.perf_counter()
        texts = llm.generate(["Once upon a time"] * 32, params, use_tqdm=False)
        written = sum(len(text.outputs[0].token_ids) for text in texts)
        print(written / (time.perf_counter() - begun), flush=True)


def started(is_ours: bool, tokens: int) -> subprocess.Popen[str]:
    library = Path(sysconfig.get_path("data"), "lib/libiomp5.so")
    # A thread that waits by spinning would take the core of the other engine.
    settings = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "KMP_BLOCKTIME": "1", "LD_PRELOAD": str(library)}
    command = [sys.executable, __file__, "--tokens", str(tokens), "--engine", str(int(is_ours))]
    process = subprocess.Popen(command, env=os.environ | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answer(process, "ready")
    return process


def answer(process: subprocess.Popen[str], wanted: str = "") -> str:
    """The next line that is an answer."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == wanted or (not wanted and line.strip().replace(".", "", 1).isdigit()):
            return line.strip()
    raise RuntimeError("an engine ended")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--engine", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.engine is not None:
        engine(bool(arguments.engine), arguments.tokens)
        return
    engines = [started(is_ours, arguments.tokens) for is_ours in (True, False)]
    print(f"32 requests of {arguments.tokens} tokens; tokens per second, medians of {arguments.turns}\n")
    print("| parameters | onedraw | vLLM | ratio |\n|---|---:|---:|---:|")
    for name, params in KINDS.items():
        speeds: tuple[list[float], list[float]] = ([], [])
        for turn in range(arguments.turns + 1):
            for process, noted in zip(engines, speeds, strict=True):
                assert process.stdin is not None
                print(json.dumps(params), file=process.stdin, flush=True)
                speed = float(answer(process))
                if turn > 0:
                    noted.append(speed)
        ours, theirs = (statistics.median(noted) for noted in speeds)
        print(f"| {name} | {ours:,.0f} | {theirs:,.0f} | {ours / theirs:.2f} |", flush=True)
    for process in engines:
        process.kill()


if __name__ == "__main__":
    main()
