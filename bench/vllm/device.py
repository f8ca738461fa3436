"""onedraw as the sampler of vLLM's runner V2 on a GPU, around vLLM's own request states and input batches.

    python device.py prove      the tokens and logprobs of every kind of request are those of the CPU
    python device.py measure    the time of a call beside the bare draw and vLLM's own sampler

Needs the package `onedraw`, and vLLM or the folder that `bench/vllm/stub` makes.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import onedraw
import onedraw.cuda
import torch
from onedraw.vllm.params import listed, translated
from onedraw.vllm.sampler_v2_device import DeviceSampler
from steps import Part, Steps
from vllm.sampling_params import SamplingParams

KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.9},
    "top-k": {"temperature": 0.8, "top_k": 20},
    "top-p": {"top_p": 0.8},
    "top-k and top-p": {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
    "min-p": {"temperature": 1.2, "min_p": 0.05},
    "penalties": {"temperature": 0.8, "repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    "bias": {"temperature": 0.8, "logit_bias": {38: 3.0, 91: -100.0}},
    "bad words": {"temperature": 0.8, "bad_words_token_ids": [[17], [5, 6], [1, 2, 3]]},
    "min tokens": {"temperature": 0.6, "min_tokens": 20, "all_stop_token_ids": {2, 3}},
    "allowed": {"allowed_token_ids": list(range(250, 900))},
    "logprobs": {"temperature": 0.8, "top_p": 0.95, "logprobs": 4},
    "typical": {"extra_args": {"onedraw": {"typical_p": 0.9}}},
    "sigma": {"temperature": 1.1, "extra_args": {"onedraw": {"top_n_sigma": 1.5}}},
    "window": {"frequency_penalty": 0.5, "extra_args": {"onedraw": {"penalty_window": 8, "penalty_scope": "all"}}},
    "greedy logprobs": {"temperature": 0.0, "logprobs": 3},
    "mirostat": {"extra_args": {"onedraw": {"mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5}}},
}
MEASURED: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "temperature": {"temperature": 0.8},
    "top-k and top-p": {"temperature": 0.8, "top_k": 50, "top_p": 0.9},
    "top-p": {"temperature": 0.8, "top_p": 0.9},
    "min-p": {"temperature": 0.8, "min_p": 0.05},
    "three penalties, 5 logprobs": {"temperature": 0.8, "repetition_penalty": 1.1, "frequency_penalty": 0.2, "presence_penalty": 0.1, "logprobs": 5},
}
PROMPT, LENGTH, VOCABULARY, ROWS = 13, 40, 1000, 997


def asked(place: int, given: dict[str, Any]) -> SamplingParams:
    return SamplingParams(seed=1000 + place, max_tokens=LENGTH, num_logprobs=given.get("logprobs"), **given)


class Table:
    """A model of which every token and position has a row: what is drawn depends on the whole text, and no sum is taken."""

    def __init__(self, dtype: torch.dtype, device: str) -> None:
        generator = torch.Generator().manual_seed(5)
        bulk = 2 * torch.randn((ROWS, VOCABULARY), generator=generator)
        self.rows = (bulk + 6 * (torch.rand((ROWS, VOCABULARY), generator=generator) > 0.99)).to(dtype)
        self.on_device = self.rows.to(device)

    def row(self, token: int, position: int) -> torch.Tensor:
        return self.rows[(token * 31 + position * 17) % ROWS]

    def __call__(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.on_device[(tokens.long().clamp(min=0) * 31 + positions.long() * 17) % ROWS]


def expected(table: Table, params: SamplingParams, prompt: list[int], mode: str) -> list[Any]:
    """What the CPU draws, one token after the other."""
    sampler = onedraw.Sampler(translated(params, mode=mode, vocabulary=VOCABULARY, prompt=prompt))
    text, drawn = list(prompt), []
    for _ in range(LENGTH):
        one = sampler.peek(table.row(text[-1], len(text) - 1))
        if listed(params, mode) is not None:
            one = min(one.logprobs, key=lambda entry: entry.rank)
        drawn.append(one)
        text.append(one.token)
        # A draw itself, because mirostat learns from it.
        sampler.accept(one if isinstance(one, onedraw.Sampled) else one.token)
    return drawn


def write(table: Table, guesses: int, mode: str, device: str, sampler: Callable[..., Any]) -> int:
    """Writes all texts in batches that change, with prompts in pieces, requests that are preempted and come back, and guesses
    of which some are right. Returns how many were."""
    chance = random.Random(7)
    steps = Steps(VOCABULARY, 8, device, guesses, mode)
    steps.sampler = sampler(steps.sampler, steps.config)
    waiting = [(name, asked(place, given), [chance.randrange(VOCABULARY) for _ in range(PROMPT)]) for place, (name, given) in enumerate(KINDS.items())]
    right = {name: expected(table, params, prompt, mode) for name, params, prompt in waiting}
    running: dict[str, tuple[SamplingParams, list[int], int]] = {}
    texts: dict[str, list[int]] = {}
    held = 0
    while waiting or running:
        while waiting and len(running) < 8:
            name, params, prompt = waiting.pop(0)
            steps.add(name, params, prompt, texts.get(name, []))
            running[name] = (params, prompt, 0)
        parts = []
        for name in chance.sample(sorted(running), chance.randint(1, len(running))):
            params, prompt, computed = running[name]
            known = PROMPT + len(texts.get(name, []))
            if known - computed > 1 and chance.random() < 0.4:
                parts.append(Part(name, chance.randint(1, known - computed - 1)))
                continue
            own = chance.randint(0, guesses) if known - computed == 1 and computed > PROMPT else 0
            after = [one.token for one in right[name]][known - PROMPT :]
            steps.guess(name, [token if chance.random() < 0.7 else chance.choice([-1, 0, VOCABULARY]) for token in after[:own]] + [-1] * (own - len(after[:own])))
            parts.append(Part(name, known - computed + own, own))
        drawn = steps.draw(parts, table)
        for place, (part, count) in enumerate(zip(parts, drawn.num_sampled.tolist(), strict=True)):
            params, prompt, computed = running[part.name]
            held += max(count - 1, 0)
            before = len(texts.get(part.name, []))
            running[part.name] = (params, prompt, computed + part.tokens - int(drawn.num_rejected[place]))
            texts[part.name] = steps.text(part.name)[PROMPT:]
            check(part.name, texts[part.name], right[part.name])
            if params.logprobs is not None and count:
                check_logprobs(part.name, drawn.logprobs_tensors, sum(1 + other.guesses for other in parts[:place]), right[part.name][before:], count, params)
            if len(texts[part.name]) >= LENGTH or chance.random() < 0.03:
                steps.remove(part.name)
                del running[part.name]
                if len(texts[part.name]) < LENGTH:
                    waiting.append((part.name, params, prompt))
    assert not drawn.num_nans.any()
    return held


def check(name: str, text: list[int], right: list[Any]) -> None:
    assert text[:LENGTH] == [one.token for one in right][: len(text)], (name, text, [one.token for one in right])


def check_logprobs(name: str, report: Any, row: int, right: list[Any], count: int, params: SamplingParams) -> None:
    """The values of a request that takes the best token whatever is drawn are those of the list."""
    for place, one in enumerate(right[:count]):
        assert int(report.logprob_token_ids[row + place, 0]) == one.token, name
        assert int(report.selected_token_ranks[row + place]) == one.rank, name
        assert abs(float(report.logprobs[row + place, 0]) - one.logprob) < 1e-6, name
        if hasattr(one, "logprobs"):
            best = sorted(one.logprobs, key=lambda entry: entry.rank)[: params.logprobs]
            ids = report.logprob_token_ids[row + place, 1 : 1 + len(best)].tolist()
            assert ids == [entry.token for entry in best], (name, ids, best)


def prove(device: str = "cuda", sampler: Callable[..., Any] = DeviceSampler) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        table = Table(dtype, device)
        for mode in ("raw_logprobs", "processed_logprobs"):
            for guesses in (0, 3):
                held = write(table, guesses, mode, device, sampler)
                print(f"{len(KINDS)} texts of {LENGTH} tokens, {dtype}, {mode}, {guesses} guesses for each step: those of the CPU; {held} guesses were right", flush=True)
                assert (held > 0) == (guesses > 0)


def does_not_wait() -> None:
    """Calls return while the device is still busy with what was launched before, with everything copied anew and with a new
    request in each."""
    steps, matrices = prepared(32, 128_256)
    steps.sampler = DeviceSampler(steps.sampler, steps.config)
    names = fill(steps, MEASURED["top-k and top-p"], 128_256)
    batches = [steps.batch([Part(name, 1) for name in order]) for order in (names, names[::-1])]

    def launch() -> float:
        begun = time.perf_counter()
        for turn in range(6):
            steps.sampler.add_request(turn, asked(turn, KINDS["penalties"]))
            steps.sampler(matrices[turn], batches[turn % 2])
        return time.perf_counter() - begun

    launch()
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    begun, host = time.perf_counter(), launch()
    assert not torch.cuda.current_stream().query(), "the device was waited for"
    torch.cuda.synchronize()
    busy = time.perf_counter() - begun
    print(f"six steps, each with a new request, were launched in {1000 * host:.2f} ms, while the device was busy with other work for {1000 * busy:.0f} ms")


def fill(steps: Steps, given: dict[str, Any], vocabulary: int) -> list[str]:
    """Requests of a kind in all slots, which have read their prompts."""
    chance, names = random.Random(1), [f"request-{slot}" for slot in range(steps.states.max_num_reqs)]
    for place, name in enumerate(names):
        steps.add(name, asked(place, given), [chance.randrange(vocabulary) for _ in range(200)])
    steps.states.num_computed_tokens.gpu[:] = 200
    steps.states.last_sampled_tokens[:] = 7
    return names


def prepared(rows: int, vocabulary: int) -> tuple[Steps, list[torch.Tensor]]:
    import measure

    return Steps(vocabulary, rows, "cuda"), measure.sets(measure.peaked, rows, vocabulary, torch.float32)


def timed(call: Callable[[torch.Tensor], Any], matrices: list[torch.Tensor]) -> tuple[float, float]:
    """Microseconds of the device and of the host for one call. The device is kept busy until all calls are launched."""
    # Fewer than the copies that may be under way at once: an engine is two or three steps ahead.
    calls, device, host = 12, [], []
    for logits in matrices[:4]:
        call(logits)
    for _ in range(9):
        torch.cuda.synchronize()
        torch.cuda._sleep(40_000_000)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begun = time.perf_counter()
        begin.record()
        for turn in range(calls):
            call(matrices[turn % len(matrices)])
        end.record()
        host.append((time.perf_counter() - begun) * 1e6 / calls)
        assert not begin.query(), "the device was not busy for long enough"
        end.synchronize()
        device.append(begin.elapsed_time(end) * 1000 / calls)
    return statistics.median(device), statistics.median(host)


def measure_all() -> None:
    import measure

    vocabulary = 128_256
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; µs of a call over {vocabulary:,} logits, f32, peaked rows: device (host)\n")
    print("| | rows | bare draw | onedraw's call | ratio | every step another order | vLLM's call |\n|---|---:|---:|---:|---:|---:|---:|")
    for kind, given in MEASURED.items():
        for rows in (1, 8, 32, 128):
            steps, matrices = prepared(rows, vocabulary)
            names = fill(steps, given, vocabulary)
            batch = steps.batch([Part(name, 1) for name in names])
            vllms = timed(lambda logits, steps=steps, batch=batch: steps.sampler(logits, batch), matrices)
            steps = Steps(vocabulary, rows, "cuda")
            steps.sampler = DeviceSampler(steps.sampler, steps.config)
            names = fill(steps, given, vocabulary)
            batch, other = (steps.batch([Part(name, 1) for name in order]) for order in (names, names[::-1]))
            ours = timed(lambda logits, steps=steps, batch=batch: steps.sampler(logits, batch), matrices)
            turns = [batch, other]
            changing = timed(lambda logits, steps=steps, turns=turns: (turns.reverse(), steps.sampler(logits, turns[0])), matrices)
            bare = measure.ours(matrices, given, measure.prompt(kind, vocabulary))
            print(f"| {kind} | {rows} | {bare:.1f} | {ours[0]:.1f} ({ours[1]:.0f}) | {ours[0] / bare:.2f} | {changing[0]:.1f} ({changing[1]:.0f}) | {vllms[0]:.1f} ({vllms[1]:.0f}) |", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "prove":
        prove()
        does_not_wait()
    else:
        measure_all()
