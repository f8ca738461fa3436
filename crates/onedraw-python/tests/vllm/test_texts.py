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
from compare import ACCEPTED, check_guesses, check_logprobs, drawn_from, tokens
from engines import Write, run
from kinds import KINDS, N_GRAM, NEIGHBOURS, PROMPTS, requests

pytestmark = pytest.mark.vllm

MODELS = Path(__file__).parents[4] / "models"
DRAFTER = {"method": "draft_model", "model": str(MODELS / "stories-drafters/drafter"), "num_speculative_tokens": 3}


def test_alone_and_in_a_crowd(expected: dict[str, Any]) -> None:
    together, shuffled, crowd, *alone = expected["runs"]
    assert tokens([one for run in alone for one in run]) == tokens(together)
    back = sorted(zip(expected["shuffled"], shuffled, strict=True), key=lambda pair: pair[0])
    assert tokens([one for _, one in back]) == tokens(together)
    assert tokens(crowd[: len(together)]) == tokens(together)
    # Texts that could not differ would prove nothing.
    assert len({tuple(one["tokens"]) for one in together}) == len(KINDS)


@pytest.mark.long
def test_batches_of_any_size(together: list[dict[str, Any]], write: Write) -> None:
    """The requests in batches of 2, 3, 5 and 8, and of 32 with others; then five at a time, so that each comes when
    another has ended and has other neighbours at every step."""
    asked = requests()
    sizes = (2, 3, 5, 8)
    batches = [asked[begin : begin + size] for size in sizes for begin in range(0, len(asked), size)]
    others = [{**one, "params": {**one["params"], "seed": NEIGHBOURS}} for one in asked][: 32 - len(asked)]
    *small, large = write([*batches, others + asked], max_num_seqs=32)["runs"]
    texts = [one for run in small for one in run]
    for place in range(len(sizes)):
        assert tokens(texts[place * len(asked) : (place + 1) * len(asked)]) == tokens(together)
    assert tokens(large[len(others) :]) == tokens(together)
    order = random.Random(6).sample(range(len(asked)), len(asked))
    [arrived] = write([[asked[place] for place in order]], max_num_seqs=5)["runs"]
    assert tokens([arrived[order.index(place)] for place in range(len(asked))]) == tokens(together)


@pytest.mark.long
def test_equal_rows_give_equal_tokens(expected: dict[str, Any], write: Write) -> None:
    """A model in bf16 gives other bits in another batch; where the bits are equal, the token is."""
    asked = requests(24)
    halves = write([asked, *[[one] for one in asked]], trace=True, dtype="bfloat16")
    for written in (expected, halves):
        [trace] = written["traces"]
        drawn = drawn_from([[line for line in trace if line[0] != NEIGHBOURS]])
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


# The short form has this runner with other reports, in test_masks.py.
@pytest.mark.long
@pytest.mark.parametrize("guesses", [None, N_GRAM], ids=["plain", "n-grams"])
def test_runner_2(together: list[dict[str, Any]], write: Write, guesses: dict[str, Any] | None) -> None:
    written = write([requests()], runner=2, speculative_config=guesses)
    assert tokens(written["runs"][0]) == tokens(together)
    check_logprobs(together, written["runs"][0])
    if guesses is not None:
        assert written["metrics"][ACCEPTED] > 0


@pytest.mark.long
def test_runner_2_with_preemption(together: list[dict[str, Any]], write: Write) -> None:
    written = write([requests()], runner=2, num_gpu_blocks_override=12, max_num_batched_tokens=32, max_num_seqs=16)
    assert tokens(written["runs"][0]) == tokens(together)
    assert written["metrics"]["vllm:num_preemptions"] > 0


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


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="one process"),
        # Where vLLM does not compile the model, it starts a minute earlier.
        pytest.param({"tensor_parallel_size": 2, "enforce_eager": True}, id="two ranks"),
        pytest.param({"speculative_config": N_GRAM, "enforce_eager": True}, id="n-grams"),
        pytest.param({"tensor_parallel_size": 2}, id="two ranks, compiled", marks=pytest.mark.long),
        pytest.param({"speculative_config": N_GRAM}, id="n-grams, compiled", marks=pytest.mark.long),
    ],
)
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
