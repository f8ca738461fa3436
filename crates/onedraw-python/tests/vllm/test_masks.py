"""The set that each token was drawn from, where an engine is asked for them (`return_sampling_mask`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compare import ACCEPTED, tokens
from engines import Write
from kinds import KINDS, N_GRAM, PROMPTS, requests
from numpy.typing import NDArray

import onedraw
from onedraw.kept import KeptSets

pytestmark = pytest.mark.vllm

MODEL = Path(__file__).parents[4] / "models/stories"
VOCABULARY = 4096
LENGTH = 40
ENGINE: dict[str, Any] = {"runner": 2, "logprobs_mode": "processed_logprobs", "return_sampling_mask": True}

# vLLM reports no sets of greedy requests.
ASKED = {kind: one for kind, one in zip(KINDS, requests(LENGTH), strict=True) if kind != "greedy"}
FAILING = [{"prompt": PROMPTS[0], "params": {"temperature": 0.8, "top_p": 0.9, "max_tokens": 8, "seed": seed}} for seed in (1, 2, 3)]
POISON = {"poison": [[2, 5]]}
BAD = {
    "temperature: must be above 0 in an engine with return_sampling_mask": {"temperature": 0},
    "kept: cannot be set for a request of vLLM": {"extra_args": {"onedraw": {"kept": "summary"}}},
}

# What a row and a kind's parameters do not say: the words as tokens, and the tokens that end a text.
NEEDS_MORE = ("bad words", "min tokens")


@pytest.fixture(scope="module")
def masked(write: Write) -> dict[str, Any]:
    """The texts of all kinds in one batch, of some requests of which one fails, and the errors of bad ones."""
    bad = [[{"prompt": PROMPTS[0], "params": params}] for params in BAD.values()]
    return write([list(ASKED.values()), FAILING, *bad], trace=True, watched={"logits": True, **POISON}, **ENGINE)


def rows_of(written: dict[str, Any]) -> dict[tuple[int, int], NDArray[np.float32]]:
    """The logits that were drawn from, by seed and position."""
    [trace], folder = written["traces"], Path(written["folder"])
    rows = np.fromfile(folder / "logits0", np.float32).reshape(len(trace), -1)
    return {(seed, position): row for (seed, position, _, _), row in zip(trace, rows, strict=True)}


def sampler(kind: str) -> onedraw.Sampler:
    """What draws for a kind outside of an engine."""
    prompt = onedraw.Tokenizer.open(MODEL).encode(ASKED[kind]["prompt"])
    params = {name: value for name, value in ASKED[kind]["params"].items() if name not in ("extra_args", "structured_outputs", "logprobs")}
    ours = ASKED[kind]["params"].get("extra_args", {}).get("onedraw", {})
    return onedraw.Sampler(**params, **ours, prompt_token_ids=prompt, kept="ids")


def test_texts_are_those_of_an_engine_without_sets(masked: dict[str, Any], together: list[dict[str, Any]]) -> None:
    texts = dict(zip(ASKED, masked["runs"][0], strict=True))
    assert {kind: one["tokens"] for kind, one in texts.items()} == {kind: own[:LENGTH] for kind, own in tokens(together).items() if kind in ASKED}


def test_a_set_is_the_one_that_was_drawn_from(masked: dict[str, Any]) -> None:
    """One for each token, with that token in it: what a sampler keeps of the same row."""
    rows = rows_of(masked)
    for kind, one in zip(ASKED, masked["runs"][0], strict=True):
        sets = KeptSets.from_vllm(one["sampling_mask"])
        assert len(sets) == len(one["tokens"]) > 0
        assert all(token in sets.ids(place) for place, token in enumerate(one["tokens"])), kind
        if kind in NEEDS_MORE:
            continue
        own, seed = sampler(kind), ASKED[kind]["params"]["seed"]
        drawn = [own.sample(rows[seed, place]) for place in range(len(sets))]
        assert [each.token for each in drawn] == one["tokens"], kind
        assert KeptSets.of(drawn).to_sglang() == one["sampling_mask"], kind


def test_sets_by_their_definitions(masked: dict[str, Any]) -> None:
    """Without a limit on their size: vLLM's own sampler wants a top-k for every request."""
    rows, texts = rows_of(masked), dict(zip(ASKED, masked["runs"][0], strict=True))
    assert all(mask == list(range(VOCABULARY)) for mask in texts["temperature"]["sampling_mask"])
    for kind in ("top-k", "top-p"):
        seed = ASKED[kind]["params"]["seed"]
        for place, mask in enumerate(texts[kind]["sampling_mask"]):
            row = rows[seed, place].astype(np.float64)
            order = np.argsort(-row, kind="stable")
            shares = np.exp(row[order] - row.max())
            count = 20 if kind == "top-k" else 1 + int(np.searchsorted(np.cumsum(shares), 0.8 * shares.sum()))
            assert mask == sorted(order[:count].tolist()), (kind, place)
    assert len({len(mask) for mask in texts["top-p"]["sampling_mask"]}) > 10


def test_logprobs_are_those_of_a_trainer_with_the_sets(masked: dict[str, Any]) -> None:
    """A softmax over the set gives the probability that the token was drawn with."""
    rows, [one] = rows_of(masked), [one for kind, one in zip(ASKED, masked["runs"][0], strict=True) if kind == "logprobs"]
    params = ASKED["logprobs"]["params"]
    compared = 0
    for place, (token, mask, listed) in enumerate(zip(one["tokens"], one["sampling_mask"], one["logprobs"], strict=True)):
        scaled = rows[params["seed"], place].astype(np.float64) / params["temperature"]
        total = np.log(np.exp(scaled[mask] - scaled.max()).sum()) + scaled.max()
        assert listed[str(token)][0] == pytest.approx(scaled[token] - total, abs=1e-5)
        for other, (value, _) in listed.items():
            assert (value > -1e30) == (int(other) in mask)
            compared += 1
    assert compared > 100


def test_a_row_that_cannot_be_sampled_and_bad_requests(masked: dict[str, Any]) -> None:
    _, failing, *bad = masked["runs"]
    assert [one["finish_reason"] for one in failing] == ["length", "error", "length"]
    assert [len(one["sampling_mask"]) for one in failing] == [len(one["tokens"]) for one in failing] == [8, 5, 8]
    assert all(token in mask for one in failing for token, mask in zip(one["tokens"], one["sampling_mask"], strict=True))
    for message, [one] in zip(BAD, bad, strict=True):
        assert one["error"].startswith(message)


@pytest.mark.long
@pytest.mark.parametrize(
    "engine",
    [{"speculative_config": N_GRAM}, {"num_gpu_blocks_override": 12, "max_num_batched_tokens": 32, "max_num_seqs": 16}],
    ids=["n-grams", "preemption and chunks"],
)
def test_guesses_and_preemption_change_no_set(masked: dict[str, Any], write: Write, engine: dict[str, Any]) -> None:
    written = write([list(ASKED.values()), FAILING], watched=POISON, **ENGINE, **engine)
    for run, plain in zip(written["runs"], masked["runs"], strict=False):
        for one, other in zip(run, plain, strict=True):
            assert (one["tokens"], one["sampling_mask"]) == (other["tokens"], other["sampling_mask"])
    assert written["metrics"][ACCEPTED if "speculative_config" in engine else "vllm:num_preemptions"] > 0


@pytest.mark.long
def test_two_ranks(masked: dict[str, Any], write: Write) -> None:
    """The sets of the first one. The last bits of its logits differ from those of one process, and so may a border."""
    [run] = write([list(ASKED.values())], processes=True, tensor_parallel_size=2, **ENGINE)["runs"]
    equal = []
    for one, other in zip(run, masked["runs"][0], strict=True):
        assert one["tokens"] == other["tokens"]
        assert all(token in mask for token, mask in zip(one["tokens"], one["sampling_mask"], strict=True))
        equal += [own == its for own, its in zip(one["sampling_mask"], other["sampling_mask"], strict=True)]
    assert sum(equal) > 0.95 * len(equal)


@pytest.mark.long
def test_what_vllm_does_not_offer(write: Write) -> None:
    assert "sampling distribution replay requires Model Runner V2" in write([FAILING], **ENGINE | {"runner": 1})["refused"]
