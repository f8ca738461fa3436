"""What other systems answered for the same logits and parameters, kept as data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import read_json

import onedraw

DATA = "crates/onedraw-testkit/data"
NEGLIGIBLE = 1e-8
"""Probabilities below this on both sides are not compared: the peers compute in f32."""


def cases(system: str) -> list[dict[str, Any]]:
    return list(read_json(f"{DATA}/{system}.json")["cases"])


def logits_of(case: dict[str, Any]) -> np.ndarray:
    return np.array([-np.inf if x is None else x for x in case["logits"]], dtype="f4")


def expected_of(case: dict[str, Any]) -> np.ndarray:
    if "probabilities_by_id" in case:
        return np.array(case["probabilities_by_id"])
    expected = np.zeros(len(case["logits"]))
    expected[case["tokens"]] = case["probabilities"]
    return expected


@pytest.mark.parametrize(("system", "count", "tolerance"), [("vllm", 160, 2e-6), ("hugging_face", 106, 2e-6), ("llama_cpp", 36, 1e-5)])
def test_distributions(system: str, count: int, tolerance: float) -> None:
    everything = cases(system)
    assert len(everything) == count
    for case in everything:
        order = {"order": case["order"]} if case.get("order") else {}
        expected = expected_of(case)
        got = onedraw.distribution(logits_of(case), case["params"], **order).dense(len(expected))
        assert np.abs(got - expected).max() <= tolerance, case["name"]
        differs = (got == 0) != (expected == 0)
        assert not (differs & (np.maximum(got, expected) >= NEGLIGIBLE)).any(), case["name"]


def test_vllm_raw_logprobs() -> None:
    compared = 0
    for case in cases("vllm"):
        sampled = onedraw.sample(logits_of(case), case["params"], logprobs=-1, seed=0)
        logprobs = {entry.token: entry.logprob for entry in sampled.logprobs}
        for token, expected in zip(case["tokens"], case["raw_logprobs_of_tokens"], strict=True):
            assert abs(logprobs[token] - expected) <= 2e-6 * max(abs(expected), 1), case["name"]
            compared += 1
        assert sampled.logprob == logprobs[sampled.token]
    assert compared == 2525


def test_llama_cpp_queues() -> None:
    queues = read_json(f"{DATA}/llama_cpp.json")["queues"]
    assert len(queues["orders"]) == 15
    with np.errstate(divide="ignore"):
        logits = np.log(np.arange(10_000)).astype("f4")
    names = {"k": ("top_k", queues["k"]), "p": ("top_p", queues["p"]), "m": ("min_p", queues["m"])}
    for letters in queues["orders"]:
        tokens = onedraw.distribution(logits, {names[x][0]: names[x][1] for x in letters}, order=[names[x][0] for x in letters]).tokens
        left = queues["expected"][letters]
        assert (len(tokens), tokens[0], tokens[-1]) == (left["size"], left["first"], left["last"]), letters


def test_hugging_face_beams() -> None:
    data = read_json(f"{DATA}/hugging_face_beam.json")
    assert len(data["cases"]) == 450
    for case in data["cases"]:
        size = case["vocab"]
        table = np.array(data["tables"][str(case["table"])], dtype="f4").reshape(size, size, size)
        width, prompt = case["num_beams"], case["prompt"]
        search = onedraw.BeamSearch(
            width=width,
            length_penalty=case["length_penalty"],
            early_stopping=case["early_stopping"],
            n=width,
            max_tokens=case["max_new_tokens"],
            eos_token_id=case["eos"],
            prompt_token_ids=prompt,
        )
        while not search.is_done:
            texts = [[0, *prompt, *beam.tokens] for beam in search.beams]
            search.step(np.stack([table[text[-2], text[-1]] for text in texts]))
        found = search.finish()
        assert [text.tokens for text in found] == case["sequences"]
        assert np.allclose([text.score for text in found], case["scores"], atol=1e-5)
