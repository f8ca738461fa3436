"""The time of one sampling call in vLLM's runner V1 on the CPU, with its own sampler and with onedraw's, in one run.

Both get the same batch of vLLM's own classes and the same logits, and both see the token of the step before
appended, as the runner does. The median of many calls counts; the two take turns.
"""

from __future__ import annotations

import argparse
import statistics
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import vllm.v1.worker.gpu_model_runner as runner_module
from onedraw import Batch
from onedraw.vllm.requests import Requests
from onedraw.vllm.runner_v1 import Drawing
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import build_logitsprocs
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

KINDS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 0.8},
    "top-k 50 + top-p 0.9": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "three penalties": {"temperature": 0.8, "repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    "five logprobs": {"temperature": 0.8, "logprobs": 5},
}
PROMPT = 64


class Ours(Drawing, runner_module.GPUModelRunner):
    """vLLM's runner with onedraw."""


def runner(kind: type, vocabulary: int, rows: int, params: dict[str, Any]) -> Any:
    """A runner with a batch of requests of one kind."""
    config = SimpleNamespace(speculative_config=None, scheduler_config=SimpleNamespace(max_num_seqs=rows))
    device = torch.device("cpu")
    batch = InputBatch(
        max_num_reqs=rows,
        max_model_len=4096,
        max_num_batched_tokens=8192,
        device=device,
        vocab_size=vocabulary,
        block_sizes=[32],
        max_num_blocks_per_req=[128],
        logitsprocs=build_logitsprocs(config, device, False, False),
    )
    generator = np.random.default_rng(1)
    requests = {}
    for place in range(rows):
        own = SamplingParams(**params, seed=place, max_tokens=4000)
        state = CachedRequestState(
            req_id=f"request-{place}",
            prompt_token_ids=generator.integers(vocabulary, size=PROMPT).tolist(),
            mm_features=[],
            sampling_params=own,
            generator=torch.Generator().manual_seed(place),
            block_ids=([0],),
            num_computed_tokens=PROMPT,
            output_token_ids=[],
        )
        batch.add_request(state)
        requests[state.req_id] = state
    batch.refresh_metadata()
    own = object.__new__(kind)
    own.__dict__.update(
        {
            "input_batch": batch,
            "requests": requests,
            "sampler": Sampler(),
            "model_config": SimpleNamespace(logprobs_mode="raw_logprobs"),
            "discard_request_mask": SimpleNamespace(np=np.zeros(rows, dtype=bool)),
            "use_async_scheduling": False,
            "_onedraw": Requests(Batch()),
            "_masks": None,
            "_users": None,
        }
    )
    return own


def call(own: Any, logits: torch.Tensor) -> float:
    """The seconds of a call. What it drew is appended."""
    begun = time.perf_counter()
    output = own._sample(logits, None)
    tokens = output.sampled_token_ids.tolist()
    if output.logprobs_tensors is not None:
        output.logprobs_tensors.tolists()
    seconds = time.perf_counter() - begun
    for name, drawn in zip(own.input_batch.req_ids, tokens, strict=True):
        own.requests[name].output_token_ids.extend(drawn)
    return seconds


def measure(vocabulary: int, rows: int, params: dict[str, Any], calls: int) -> tuple[float, float]:
    """The medians of onedraw and of vLLM, in seconds."""
    generator = torch.Generator().manual_seed(3)
    # As peaked as a model's: a normal distribution, and some likely tokens.
    logits = torch.randn((4, rows, vocabulary), generator=generator) * 2
    logits[..., :40] += torch.randn((4, rows, 40), generator=generator).abs() * 6
    ours, theirs = runner(Ours, vocabulary, rows, params), runner(runner_module.GPUModelRunner, vocabulary, rows, params)
    times: tuple[list[float], list[float]] = ([], [])
    for place in range(calls + 3):
        for own, noted in zip((ours, theirs), times, strict=True):
            # vLLM's sampler changes its logits.
            noted.append(call(own, logits[place % 4].clone()))
    return statistics.median(times[0][3:]), statistics.median(times[1][3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=41)
    arguments = parser.parse_args()
    print(f"PyTorch with {torch.get_num_threads()} threads, onedraw with one; µs, medians of {arguments.calls}\n")
    print("| vocabulary | rows | parameters | onedraw | vLLM | ratio |\n|---:|---:|---|---:|---:|---:|")
    for vocabulary in (4_096, 128_256):
        for rows in (1, 8, 32):
            for name, params in KINDS.items():
                ours, theirs = measure(vocabulary, rows, params, arguments.calls)
                print(f"| {vocabulary:,} | {rows} | {name} | {ours * 1e6:,.0f} | {theirs * 1e6:,.0f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
