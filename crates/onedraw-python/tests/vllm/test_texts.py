"""One request, one text: alone or in a crowd, however vLLM arranges its work."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import eagle
import pytest
from engines import Write, run
from kinds import KINDS, PROMPTS, requests

pytestmark = pytest.mark.vllm

MODELS = Path(__file__).parents[4] / "models"
N_GRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
DRAFTER = {"method": "draft_model", "model": str(MODELS / "stories-drafters/drafter"), "num_speculative_tokens": 3}
ACCEPTED = "vllm:spec_decode_num_accepted_tokens"


def tokens(run: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The tokens of each kind."""
    assert all("tokens" in one for one in run), run
    return {kind: one["tokens"] for kind, one in zip(KINDS, run, strict=True)}


@pytest.fixture(scope="session")
def expected(write: Write) -> dict[str, Any]:
    """The texts of all kinds in one batch, and alone, in a shuffled order, and with many neighbours."""
    asked = requests()
    shuffled = random.Random(5).sample(range(len(asked)), len(asked))
    crowd = asked + [{**one, "params": {**one["params"], "seed": 7}} for one in asked * 3][: 64 - len(asked)]
    alone = [[one] for one in asked]
    return write([asked, [asked[place] for place in shuffled], crowd, *alone], trace=True, max_num_seqs=64) | {"shuffled": shuffled}


@pytest.fixture(scope="session")
def together(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The texts of all kinds in one batch."""
    texts: list[dict[str, Any]] = expected["runs"][0]
    return texts


def test_alone_and_in_a_crowd(expected: dict[str, Any]) -> None:
    together, shuffled, crowd, *alone = expected["runs"]
    assert tokens([one for run in alone for one in run]) == tokens(together)
    back = sorted(zip(expected["shuffled"], shuffled, strict=True), key=lambda pair: pair[0])
    assert tokens([one for _, one in back]) == tokens(together)
    assert tokens(crowd[: len(together)]) == tokens(together)
    # Texts that could not differ would prove nothing.
    assert len({tuple(one["tokens"]) for one in together}) == len(KINDS)


@pytest.mark.long
def test_equal_rows_give_equal_tokens(expected: dict[str, Any], write: Write) -> None:
    """A model in bf16 gives other bits in another batch; where the bits are equal, the token is."""
    asked = requests(24)
    halves = write([asked, *[[one] for one in asked]], trace=True, dtype="bfloat16")
    for written in (expected, halves):
        drawn: dict[tuple[int, int, str], set[int]] = {}
        [trace] = written["traces"]
        for seed, position, row, token in trace:
            if seed != 7:
                drawn.setdefault((seed, position, row), set()).add(token)
        assert all(len(each) == 1 for each in drawn.values())
        assert len(drawn) > 300
    # What the check is for: some rows did differ.
    rows: dict[tuple[int, int], set[str]] = {}
    for seed, position, row, _ in halves["traces"][0]:
        rows.setdefault((seed, position), set()).add(row)
    assert any(len(each) > 1 for each in rows.values())


@pytest.mark.long
def test_preemption_chunks_and_the_cache_of_prefixes(together: list[dict[str, Any]], write: Write) -> None:
    asked = requests()
    written = write([asked, asked], num_gpu_blocks_override=12, max_num_batched_tokens=32, max_num_seqs=16)
    first, second = written["runs"]
    assert tokens(first) == tokens(together)
    assert tokens(second) == tokens(together)
    assert written["metrics"]["vllm:num_preemptions"] > 0
    # Prompts that are longer than a step, of which the second time a part is known.
    story = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. " * 3
    long = [{**one, "prompt": story + one["prompt"]} for one in asked]
    parts = write([long, long], max_num_batched_tokens=64, max_num_seqs=32)
    whole = write([long], max_num_seqs=32, enable_prefix_caching=False)
    assert tokens(parts["runs"][0]) == tokens(parts["runs"][1]) == tokens(whole["runs"][0])
    assert parts["metrics"]["vllm:prefix_cache_hits"] > 0


@pytest.mark.parametrize(
    "guesses",
    [N_GRAM, pytest.param(DRAFTER, marks=pytest.mark.long)],
    ids=["n-grams", "a draft model"],
)
def test_guesses(together: list[dict[str, Any]], write: Write, guesses: dict[str, Any]) -> None:
    check_guesses(together, write([requests()], speculative_config=guesses))


@pytest.mark.long
def test_guesses_of_a_head(together: list[dict[str, Any]], write: Write, tmp_path: Path) -> None:
    head = {"method": "eagle", "model": str(eagle.convert(MODELS, tmp_path)), "num_speculative_tokens": 3}
    check_guesses(together, write([requests()], speculative_config=head))


def check_guesses(together: list[dict[str, Any]], written: dict[str, Any]) -> None:
    """Some guesses were right, and nothing else changed."""
    assert tokens(written["runs"][0]) == tokens(together)
    assert written["metrics"][ACCEPTED] > 0
    check_logprobs(together, written["runs"][0])


def check_logprobs(plain: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
    """The same positions, tokens, ranks and values."""
    theirs, ours = (run[list(KINDS).index("logprobs")] for run in (plain, other))
    assert len(ours["logprobs"]) == len(ours["tokens"])
    for own, its in zip(ours["logprobs"], theirs["logprobs"], strict=True):
        assert {token: rank for token, (_, rank) in own.items()} == {token: rank for token, (_, rank) in its.items()}
        assert all(abs(own[token][0] - its[token][0]) < 1e-5 for token in own)


@pytest.mark.parametrize("guesses", [None, pytest.param(N_GRAM, marks=pytest.mark.long)], ids=["plain", "n-grams"])
def test_runner_2(together: list[dict[str, Any]], write: Write, guesses: dict[str, Any] | None) -> None:
    written = write([requests()], runner=2, speculative_config=guesses)
    assert tokens(written["runs"][0]) == tokens(together)
    if guesses is not None:
        assert written["metrics"][ACCEPTED] > 0


@pytest.mark.long
def test_runner_2_with_preemption(together: list[dict[str, Any]], write: Write) -> None:
    written = write([requests()], runner=2, num_gpu_blocks_override=12, max_num_batched_tokens=32, max_num_seqs=16)
    assert tokens(written["runs"][0]) == tokens(together)
    assert written["metrics"]["vllm:num_preemptions"] > 0


@pytest.fixture(scope="session")
def ranked(write: Write) -> dict[str, Any]:
    """The texts of all kinds from two ranks, each of which has all logits."""
    return write([requests()], processes=True, tensor_parallel_size=2, trace=True)


def test_two_ranks(together: list[dict[str, Any]], ranked: dict[str, Any]) -> None:
    assert tokens(ranked["runs"][0]) == tokens(together)
    # Both draw, and nobody compares what.
    first, second = ranked["traces"]
    assert first == second
    assert len(first) > 300


@pytest.mark.long
@pytest.mark.parametrize("guesses", [None, N_GRAM], ids=["plain", "n-grams"])
def test_two_ranks_that_keep_their_logits(ranked: dict[str, Any], write: Write, guesses: dict[str, Any] | None) -> None:
    [gathered] = ranked["runs"]
    written = write([requests()], processes=True, tensor_parallel_size=2, onedraw={"shards": True}, speculative_config=guesses, trace=True)
    # Logprobs, too. Those of one process differ more, because two ranks add up in another order.
    check_logprobs(gathered, written["runs"][0])
    assert tokens(written["runs"][0]) == tokens(gathered)
    assert (written["metrics"].get(ACCEPTED, 0) > 0) == (guesses is not None)
    first, second = ([(seed, position, token) for seed, position, _, token in trace] for trace in written["traces"])
    assert first == second
    # Each has another part of every row.
    assert not {row for _, _, row, _ in written["traces"][0]} & {row for _, _, row, _ in written["traces"][1]}


@pytest.mark.long
def test_several_texts_of_a_request(write: Write) -> None:
    params = {"temperature": 1.3, "max_tokens": 32, "n": 3}
    seeded = [{"prompt": PROMPTS[0], "params": {**params, "seed": 40}}]
    single = [{"prompt": PROMPTS[0], "params": {**params, "seed": 40 + place, "n": 1}} for place in range(3)]
    large = [{"prompt": PROMPTS[0], "params": {**params, "seed": 2**64 - 1}}, {"prompt": PROMPTS[0], "params": {**params, "seed": 2**63 - 1, "n": 2}}]
    unseeded = [{"prompt": PROMPTS[0], "params": params}]
    several, each, wide, drawn = write([seeded, single, large, unseeded])["runs"]
    assert [one["tokens"] for one in several] == [one["tokens"] for one in each]
    assert len({tuple(one["tokens"]) for one in several}) == 3
    assert len(wide) == 5
    # Without a seed the texts of a request differ, and the same request of another run has them again.
    again = write([seeded, single, large, unseeded])["runs"][3]
    assert [one["tokens"] for one in drawn] == [one["tokens"] for one in again]
    assert len({tuple(one["tokens"]) for one in drawn}) == 3


@pytest.mark.parametrize("settings", [{}, {"tensor_parallel_size": 2}, {"speculative_config": N_GRAM}], ids=["one process", "two ranks", "n-grams"])
def test_the_story_of_the_book(settings: dict[str, Any]) -> None:
    """The script of the page "Past one machine" writes what `onedraw generate` writes."""
    root = MODELS.parent
    script = root / "examples/python/vllm_story.py"
    page = (root / "docs/src/past-one-machine.md").read_text(encoding="utf-8")
    assert page.split("```python\n")[1].split("```")[0] in script.read_text(encoding="utf-8")
    said = run(script, json.dumps(settings), processes=True, cwd=root)
    generated = subprocess.run([program(root), "generate", "Once upon a time", "--seed", "7"], capture_output=True, text=True, check=True).stdout
    assert generated.strip() in said


def program(root: Path) -> Path:
    """The program that was built last."""
    built = root / os.environ.get("CARGO_TARGET_DIR", "target")
    return max((path for path in built.glob("*/onedraw") if path.is_file()), key=lambda path: path.stat().st_mtime)
