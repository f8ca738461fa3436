"""The golden files, which the Rust library and the program are held to as well: one seed, one draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import golden_row, philox, read_json

import onedraw

DRAWS = read_json("golden/draws.json")
SPECULATION = read_json("golden/speculation.json")
STORIES = read_json("golden/stories.json")


def test_the_files_are_whole() -> None:
    assert (len(DRAWS), len(SPECULATION), len(STORIES)) == (216, 42, 9)


def test_the_rows_are_made_of_the_noise_that_is_pinned() -> None:
    for case in read_json("golden/numbers.json")["philox"]:
        words = philox(tuple(case["key"]), np.array([case["counter"]], dtype=np.uint64))
        assert words[0].tolist() == case["words"]


@pytest.mark.parametrize("number", range(len(DRAWS)))
def test_draws(number: int) -> None:
    case = DRAWS[number]
    logits = golden_row(case["row"])
    sampler = onedraw.Sampler(onedraw.SamplingParams(**named(case["params"])))
    assert [sampler.peek(logits, ahead).token for ahead in range(16)] == case["tokens"]
    begun = len(case["params"].get("output_token_ids", []))
    uniform = []
    for eighth in range(8):
        uniform.append(sampler.sample_uniform(logits, eighth / 8).token)
        sampler.rewind(begun)
    assert uniform == case["uniform"]
    distribution = sampler.distribution(logits)
    assert len(distribution) == case["kept"]
    assert int(distribution.logprobs[:1].view(np.uint64)[0]) == case["first_logprob_bits"]
    # The same from a single call, and from a dict of JSON.
    assert onedraw.sample(logits, case["params"]).token == case["tokens"][0]


def named(params: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments as a Python program would write them: ids are numbers."""
    bias = {int(token): value for token, value in params.get("logit_bias", {}).items()}
    return {**params, **({"logit_bias": bias} if bias else {})}


def test_a_batch_draws_the_same_as_single_calls() -> None:
    cases = [case for case in DRAWS if case["row"].get("vocabulary") == 32_000]
    assert len(cases) == 27
    for threads in (1, 2):
        batch = onedraw.Batch(threads=threads, shards=3)
        sequences = [batch.add(case["params"]) for case in cases]
        rows = np.stack([golden_row(case["row"]) for case in cases])
        assert batch.sample(sequences, rows).tokens.tolist() == [case["tokens"][0] for case in cases]


def logits_after(path: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """The target's logits after a path of tokens, and the drafter's."""
    seed = 1
    for token in path:
        seed = (31 * seed + token + 1) & 0xFFFFFFFF
    wide = [golden_row({"shape": "wide", "vocabulary": 300, "seed": (seed + more) & 0xFFFFFFFF}) for more in (0, 1)]
    return wide[0], (np.where(np.arange(300) % 2 == 0, wide[0], wide[1]) / np.float32(2)).astype("f4")


@pytest.mark.parametrize("number", range(len(SPECULATION)))
def test_speculation(number: int) -> None:
    case = SPECULATION[number]
    batch = onedraw.Batch()
    sequence = batch.add(case["params"])
    begun = len(batch.output(sequence))
    draft, rows = onedraw.Draft(), [logits_after([])[0]]
    level: list[tuple[int | None, list[int]]] = [(None, [])]
    for _ in range(case["depth"]):
        next_level: list[tuple[int | None, list[int]]] = []
        for node, path in level:
            fork = batch.fork(sequence)
            for token in path:
                batch.accept(fork, token)
            _, drafter = logits_after(path)
            guesses: Any
            if case["verify"] == "exact":
                guesses = [runner.token for runner in batch.runners(fork, drafter, case["width"])]
            else:
                guesses = batch.guess(fork, drafter, case["width"], begun)
            batch.remove(fork)
            for child in draft.grow(node, guesses):
                longer = [*path, draft.tokens[child]]
                rows.append(logits_after(longer)[0])
                next_level.append((child, longer))
        level = next_level
    assert (draft.tokens, draft.parents) == (case["guesses"], case["parents"])
    verdict = batch.verify(sequence, draft, rows, verify=case["verify"])
    assert (verdict.path, verdict.tokens, verdict.error) == (case["path"], case["tokens"], None)
    assert len(batch) == 1


@pytest.fixture(scope="module")
def generator() -> onedraw.Generator:
    return onedraw.Generator()


@pytest.mark.parametrize("number", range(len(STORIES)))
def test_stories(number: int, generator: onedraw.Generator) -> None:
    stories = STORIES[number]
    params = onedraw.SamplingParams(**stories[0]["params"])
    texts = generator.generate(stories[0]["prompt"], params)
    texts = texts if isinstance(texts, list) else [texts]
    assert [(text.text, text.tokens, text.finish_reason) for text in texts] == [
        (story["text"], story["tokens"], story["finish"]) for story in stories
    ]


def test_stories_in_company(generator: onedraw.Generator) -> None:
    lists = [onedraw.SamplingParams(**stories[0]["params"]) for stories in STORIES]
    texts = generator.generate([stories[0]["prompt"] for stories in STORIES], lists)
    assert [text.text for text in texts] == [story["text"] for stories in STORIES for story in stories]
