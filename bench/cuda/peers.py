"""Other samplers from logits to tokens, for `measure.py`: PyTorch, FlashInfer, and vLLM's Triton kernels.

Each is a function of a matrix of logits that launches kernels and waits for nothing, so that a CUDA graph may hold it. What a
row needs beside its logits (seeds, counts, values of parameters) is in tensors that are made before.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import torch

DEVICE = torch.device("cuda")
STEPS = 64
Peer = Callable[[torch.Tensor], Any]
Peers = Callable[[int, int], dict[str, Peer]]
"""By name, for so many rows of so many logits."""


def race(logits: torch.Tensor) -> torch.Tensor:
    """A draw as vLLM and others make it without a wait: probabilities divided by exponential noise."""
    probabilities = torch.softmax(logits, dim=-1)
    return probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(dim=-1)


def logprobs(logits: torch.Tensor, tokens: torch.Tensor, count: int = 5) -> tuple[torch.Tensor, ...]:
    """The best tokens of each row and the one that was drawn, with its rank."""
    values = torch.log_softmax(logits, dim=-1)
    drawn = values.gather(1, tokens.unsqueeze(1))
    return *torch.topk(values, count, dim=-1), drawn, (values > drawn).sum(dim=-1)


def torch_temperature(logits: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(torch.softmax(logits / 0.8, dim=-1), 1)


def torch_top_k_top_p(logits: torch.Tensor) -> torch.Tensor:
    """The way of vLLM's fallback: sort, cut, scatter, draw."""
    ordered, order = torch.sort(logits / 0.8, dim=-1, descending=False)
    threshold = ordered[:, -50].unsqueeze(1)
    ordered = ordered.masked_fill(ordered < threshold, -torch.inf)
    return race(torch.empty_like(logits).scatter_(1, order, nucleus(ordered)))


def torch_top_p(logits: torch.Tensor) -> torch.Tensor:
    ordered, order = torch.sort(logits / 0.8, dim=-1, descending=False)
    return race(torch.empty_like(logits).scatter_(1, order, nucleus(ordered)))


def nucleus(ordered: torch.Tensor) -> torch.Tensor:
    """The logits of a row in rising order without those beyond 0.9 of the mass."""
    removed = torch.cumsum(torch.softmax(ordered, dim=-1), dim=-1) <= 1 - 0.9
    removed[:, -1] = False
    return ordered.masked_fill(removed, -torch.inf)


def torch_min_p(logits: torch.Tensor) -> torch.Tensor:
    scaled = logits / 0.8
    probabilities = torch.softmax(scaled, dim=-1)
    return race(scaled.masked_fill(probabilities < 0.05 * probabilities.amax(dim=-1, keepdim=True), -torch.inf))


def torch_raw_logprobs(logits: torch.Tensor) -> Any:
    tokens = race(logits / 0.8)
    return tokens, logprobs(logits, tokens)


def torch_xtc(logits: torch.Tensor) -> torch.Tensor:
    scaled = logits / 0.8
    probabilities = torch.softmax(scaled, dim=-1)
    is_top = probabilities >= 0.1
    least = probabilities.masked_fill(~is_top, torch.inf).amin(dim=-1, keepdim=True)
    coin = torch.rand((len(logits), 1), device=logits.device) < 0.5
    return race(scaled.masked_fill(is_top & (probabilities > least) & coin, -torch.inf))


def torch_dynamic_temperature(logits: torch.Tensor) -> torch.Tensor:
    values = torch.log_softmax(logits, dim=-1)
    entropy = -(values.exp() * values).sum(dim=-1, keepdim=True)
    return race(logits / (0.3 + (1.3 - 0.3) * entropy / math.log(logits.shape[1])))


def torch_smoothing(logits: torch.Tensor) -> torch.Tensor:
    best = logits.amax(dim=-1, keepdim=True)
    return race((best - 0.3 * (logits - best) ** 2) / 0.8)


def torch_peers(rows: int, size: int) -> dict[str, Peer]:
    return {
        "torch argmax": lambda logits: logits.argmax(dim=-1),
        "torch temperature": torch_temperature,
        "torch temperature, by a race": lambda logits: race(logits / 0.8),
        "torch top-k, top-p": torch_top_k_top_p,
        "torch top-p": torch_top_p,
        "torch min-p": torch_min_p,
        "torch temperature, logprobs 5": torch_raw_logprobs,
        "torch three penalties, logprobs 5": torch_penalties(rows, size),
        "torch XTC": torch_xtc,
        "torch mirostat 2": torch_mirostat(rows),
        "torch dynamic temperature": torch_dynamic_temperature,
        "torch smoothing": torch_smoothing,
    }


def torch_penalties(rows: int, size: int) -> Peer:
    """Three penalties with five raw logprobs. Counts of the output and the prompt's tokens are kept as matrices."""
    prompt = torch.zeros((rows, size), dtype=torch.bool, device=DEVICE)
    prompt.scatter_(1, torch.randint(0, size, (rows, 200), device=DEVICE), True)
    counts = torch.zeros((rows, size), device=DEVICE)
    ones = torch.ones((rows, 1), device=DEVICE)

    def draw(logits: torch.Tensor) -> Any:
        scale = torch.where(prompt | (counts > 0), 1.1, 1.0)
        edited = torch.where(logits > 0, logits / scale, logits * scale) - 0.2 * counts - 0.1 * (counts > 0)
        tokens = race(edited / 0.8)
        counts.scatter_add_(1, tokens.unsqueeze(1), ones)
        return tokens, logprobs(logits, tokens)

    return draw


def torch_mirostat(rows: int) -> Peer:
    mu = torch.full((rows, 1), 10.0, device=DEVICE)

    def draw(logits: torch.Tensor) -> torch.Tensor:
        scaled = logits / 0.8
        surprise = -torch.log2(torch.softmax(scaled, dim=-1))
        left = scaled.masked_fill((surprise > mu) & (surprise > surprise.amin(dim=-1, keepdim=True)), -torch.inf)
        tokens = race(left)
        mu.sub_(0.1 * (surprise.gather(1, tokens.unsqueeze(1)) - 5.0))
        return tokens

    return draw


def compiled_peers(rows: int, size: int) -> dict[str, Peer]:
    """Those of PyTorch's that have no sort, each compiled into few kernels: seconds for each number of rows."""
    named = {
        "temperature, by a race": lambda logits: race(logits / 0.8),
        "min-p": torch_min_p,
        "temperature, logprobs 5": torch_raw_logprobs,
        "three penalties, logprobs 5": torch_penalties(rows, size),
    }
    return {f"torch.compile {name}": torch.compile(peer, dynamic=False) for name, peer in named.items()}


VLLM_NAMES: dict[str, dict[str, Any]] = {
    "vLLM greedy": {"temperature": 0.0},
    "vLLM temperature": {"temperature": 0.8},
    "vLLM top-k, top-p": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "vLLM top-p": {"temperature": 0.8, "top_p": 0.9},
    "vLLM min-p": {"temperature": 0.8, "min_p": 0.05},
    "vLLM temperature, logprobs 5": {"temperature": 0.8, "logprobs": 5},
    "vLLM three penalties, logprobs 5": {
        "temperature": 0.8, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1, "logprobs": 5,
    },
}  # fmt: skip


def vllm_peers(rows: int, size: int) -> dict[str, Peer]:
    """The sampler of vLLM's runner V2, with its own request states: its Triton kernels, and PyTorch's top-k for logprobs.

    `bench/vllm` must be on the path, with vLLM or the folder that `bench/vllm/stub` makes. Requests have seeds, so vLLM does not
    use FlashInfer.
    """
    try:
        from steps import Part, Steps
        from vllm.sampling_params import SamplingParams
    except ImportError as error:
        return say(f"vLLM is not measured: {error}")

    def sampler(given: dict[str, Any]) -> Peer:
        steps, chance = Steps(size, rows, "cuda"), random.Random(1)
        names = [f"request-{row}" for row in range(rows)]
        for row, name in enumerate(names):
            params = SamplingParams(seed=1000 + row, max_tokens=100, num_logprobs=given.get("logprobs"), **given)
            steps.add(name, params, [chance.randrange(size) for _ in range(200)])
        steps.states.num_computed_tokens.gpu[:] = 200
        steps.states.last_sampled_tokens[:] = 7
        batch = steps.batch([Part(name, 1) for name in names])
        return lambda logits: steps.sampler(logits, batch)

    # Made when it is first called: the counts of its penalties are as large as the logits.
    def later(given: dict[str, Any]) -> Peer:
        made: list[Peer] = []

        def draw(logits: torch.Tensor) -> Any:
            if not made:
                made.append(sampler(given))
            return made[0](logits)

        return draw

    return {name: later(given) for name, given in VLLM_NAMES.items()}


def flashinfer_peers(rows: int, size: int) -> dict[str, Peer]:
    """FlashInfer's public calls with a value a row, and all they need of logits: its own softmax, or a division by the temperature.

    Seeds and offsets are tensors, as graphs want them; every step has an offset of its own, because the rounds of a rejection sampler are a matter of luck.
    Top-k and top-p go one after the other, as ours do, from logits (vLLM's way), from probabilities, or there in one kernel, whose seed is a number; or
    jointly (SGLang's way, another distribution).
    """
    try:
        import flashinfer
        from flashinfer import sampling
    except (ImportError, OSError, RuntimeError) as error:  # some of what it loads may be missing, too
        return say(f"FlashInfer is not measured: {type(error).__name__}: {error}")
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


said: set[str] = set()


def say(what: str) -> dict[str, Peer]:
    """Says once that something is missing. Nothing of it is measured."""
    if what not in said:
        print(what)
        said.add(what)
    return {}
