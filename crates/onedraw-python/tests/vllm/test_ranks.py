"""Engines of several processes: the texts of one, and what happens when a rank fails."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from compare import ACCEPTED, check_logprobs, drawn_from, tokens
from engines import Write
from kinds import N_GRAM, PROMPTS, requests
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.vllm

MODEL = Path(__file__).parents[4] / "models/stories"


@pytest.fixture(scope="session")
def ranked(write: Write) -> dict[str, Any]:
    """The texts of all kinds from two ranks, each of which has all logits, and of some kinds with fewer neighbours."""
    return write([requests(), requests()[:6]], processes=True, tensor_parallel_size=2, trace=True)


def test_two_ranks(expected: dict[str, Any], together: list[dict[str, Any]], ranked: dict[str, Any]) -> None:
    assert tokens(ranked["runs"][0]) == tokens(together)
    # Both draw, and nobody compares what.
    first, second = ranked["traces"]
    assert first == second
    # Where the bits of a row are equal, the token is. Here that is so in two batches of the same ranks.
    one, two = drawn_from(expected["traces"]), drawn_from([first])
    assert all(len(each) == 1 for each in two.values())
    assert len(first) - len(two) > 100 and len(two) > 300
    # Two ranks add up in another order than one, so that hardly a row (one of 816 when this was written) has the same
    # bits as there. What the two have in common are the texts.
    assert all(one[row] == drawn for row, drawn in two.items() if row in one)
    assert any(row not in one for row in two)


@pytest.mark.long
@pytest.mark.parametrize("guesses", [None, N_GRAM], ids=["plain", "n-grams"])
def test_two_ranks_that_keep_their_logits(ranked: dict[str, Any], write: Write, guesses: dict[str, Any] | None) -> None:
    gathered = ranked["runs"][0]
    written = write([requests()], processes=True, tensor_parallel_size=2, onedraw={"shards": True}, speculative_config=guesses, trace=True)
    # Logprobs, too. Those of one process differ more, because two ranks add up in another order.
    check_logprobs(gathered, written["runs"][0])
    assert tokens(written["runs"][0]) == tokens(gathered)
    assert (written["metrics"].get(ACCEPTED, 0) > 0) == (guesses is not None)
    first, second = ([(seed, position, token) for seed, position, _, token in trace] for trace in written["traces"])
    assert first == second
    # Each has another part of every row.
    assert not {row for _, _, row, _ in written["traces"][0]} & {row for _, _, row, _ in written["traces"][1]}


def test_which_logits_are_gathered() -> None:
    """Processors that vLLM has loaded from installed packages need whole rows, too: the configuration does not name
    them."""
    from onedraw.vllm.shards import why_gathered

    def config(ranks: int) -> SimpleNamespace:
        return SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=ranks), model_config=SimpleNamespace(logits_processors=None))

    model = SimpleNamespace(compute_logits_local=print, lm_head=SimpleNamespace(shard_indices=None))
    assert why_gathered(config(2), model, []) is None
    assert why_gathered(config(2), model, [object()]) == "processors of logits need whole rows"
    assert why_gathered(config(1), model, []) == "there is one rank"
    assert why_gathered(config(2), SimpleNamespace(), []) == "SimpleNamespace cannot leave its logits ungathered"


@pytest.mark.long
def test_two_stages(together: list[dict[str, Any]], write: Write) -> None:
    """Pipeline parallel: only the last stage draws. vLLM's runner for the CPU prepares a stage's input only where
    it may compile the model."""
    written = write([requests()], processes=True, pipeline_parallel_size=2, enforce_eager=False, trace=True)
    assert tokens(written["runs"][0]) == tokens(together)
    assert len(written["traces"]) == 1


def seeded(seed: int, **params: Any) -> dict[str, Any]:
    return {"prompt": PROMPTS[0], "params": {"temperature": 0.8, "max_tokens": 24, "seed": seed, **params}}


@pytest.mark.long
def test_rows_and_ranks_that_fail(write: Write) -> None:
    """A NaN in one rank's part of a row, or parameters that differ, end that request alone. A rank that dies while
    the others wait for it ends the engine, at once and by name."""
    asked = [seeded(seed) for seed in (1, 2, 3, 4)]
    watched = {"poison": [[2, 5]], "doubt": [1, 3], "death": [1, 9, 4]}
    engine: dict[str, Any] = {"processes": True, "tensor_parallel_size": 2, "onedraw": {"shards": True}}
    written = write([[asked[0], asked[3]], asked, [seeded(8), seeded(9)], [seeded(8)]], watched=watched, **engine)
    alone, disturbed, *dead = written["runs"]
    assert [one["finish_reason"] for one in disturbed] == ["length", "error", "error", "length"]
    assert [len(one["tokens"]) for one in disturbed] == [24, 5, 0, 24]
    assert [disturbed[0]["tokens"], disturbed[3]["tokens"]] == [one["tokens"] for one in alone]
    assert "shard 1 disagrees with shard 0 about the parameters" in written["said"]
    # No text, rather than a part of one.
    assert all(len(run) == 1 and "EngineCore encountered an issue" in run[0]["error"] for run in dead)
    assert "VllmWorker-1 died unexpectedly" in written["said"]


@pytest.mark.long
def test_a_vocabulary_that_is_padded(write: Write, tmp_path: Path) -> None:
    """vLLM pads 4,000 tokens to 4,032, 2,016 for each rank. A model that has only the first 4,000 tokens writes what
    the whole model writes that may use only these."""
    kept = 4000
    model = shutil.copytree(MODEL, tmp_path / "model", ignore=shutil.ignore_patterns("src", "training"))
    weights = load_file(MODEL / "model.safetensors")
    weights["model.embed_tokens.weight"] = weights["model.embed_tokens.weight"][:kept].clone()
    save_file(weights, model / "model.safetensors")
    (model / "config.json").write_text(json.dumps(json.loads((MODEL / "config.json").read_text()) | {"vocab_size": kept}))
    kinds: list[dict[str, Any]] = [{}, {"temperature": 0}, {"temperature": 2.0}, {"top_k": 40, "top_p": 0.9}, {"min_p": 0.1}, {"repetition_penalty": 1.3}]
    asked = [seeded(seed, **params) for seed, params in enumerate(kinds)]
    allowed = [{**one, "params": {**one["params"], "allowed_token_ids": list(range(kept))}} for one in asked]
    engines: list[dict[str, Any]] = [{}, {"runner": 2}, {"processes": True, "tensor_parallel_size": 2, "onedraw": {"shards": True}}]
    [whole] = write([allowed])["runs"]
    for engine in engines:
        written = write([asked], model=str(model), **engine)["runs"][0]
        assert [one["tokens"] for one in written] == [one["tokens"] for one in whole], engine
