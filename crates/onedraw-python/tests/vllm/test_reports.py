"""Logprobs beside vLLM's own, in all modes; what is refused, and what ends one request alone."""

from __future__ import annotations

from typing import Any

import pytest
from compare import ACCEPTED
from engines import Write
from kinds import N_GRAM, PROMPTS

pytestmark = pytest.mark.vllm

MODES = ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")


def request(**params: Any) -> dict[str, Any]:
    return {"prompt": PROMPTS[0], "params": {"temperature": 0, "max_tokens": 24, **params}}


# Greedy, so that both samplers write the same text.
REPORTED = [
    request(logprobs=5),
    request(logprobs=0),
    request(logprobs=3, repetition_penalty=1.3, presence_penalty=0.4),
    request(logprobs=2, logit_bias={"438": -2.5, "259": 1.5}),
    request(logprobs=4, min_tokens=20),
    request(logprobs=-1, max_tokens=4),
    request(),
]


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_logprobs_are_vllms(write: Write, mode: str) -> None:
    """Alike within 1e-5, with the same ids and ranks, where a token is left at all; those of both runners."""
    engine = {"logprobs_mode": mode, "max_logprobs": -1}
    [theirs] = write([REPORTED], ours=False, **engine)["runs"]
    for runner in (1, 2):
        check(write([REPORTED], runner=runner, **engine)["runs"][0], theirs)


def check(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    compared = 0
    for own, other in zip(ours, theirs, strict=True):
        assert own["tokens"] == other["tokens"]
        assert len(own["logprobs"]) == len(other["logprobs"])
        for position, (mine, its) in enumerate(zip(own["logprobs"], other["logprobs"], strict=True)):
            # vLLM lists removed tokens, of which none is before another, in any order.
            kept = {token: entry for token, entry in its.items() if entry[0] > -1e30}
            assert kept.keys() <= mine.keys(), position
            values = [value for value, _ in kept.values()]
            for token, (value, rank) in kept.items():
                assert abs(mine[token][0] - value) < 1e-5, (position, token)
                # The order of equal values is ours alone.
                assert abs(mine[token][1] - rank) < values.count(value), (position, token)
                compared += 1
    assert compared > 500


def check_same(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> None:
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.keys() == its.keys()
        assert all(abs(mine[token][0] - its[token][0]) < 1e-5 and mine[token][1] == its[token][1] for token in its)


@pytest.mark.long
def test_scored_tokens_and_prompts(write: Write) -> None:
    """What is left to vLLM: logprobs of the prompt, and of tokens that a request names."""
    asked = [request(logprob_token_ids=[438, 491, 7]), request(logprobs=2, seed=3, temperature=0.5), request(prompt_logprobs=1)]
    ours, theirs = (write([asked], ours=is_ours)["runs"][0] for is_ours in (True, False))
    first = ours[0]["logprobs"]
    assert all({"438", "491", "7"} <= entry.keys() for entry in first)
    check_same(first, theirs[0]["logprobs"])
    # The first token of a prompt has none.
    assert len(ours[2]["prompt_logprobs"]) > 3 and all(ours[2]["prompt_logprobs"][1:])
    check_same(ours[2]["prompt_logprobs"], theirs[2]["prompt_logprobs"])
    # A neighbour's wish does not take away one's own.
    assert all(len(entry) >= 2 for entry in ours[1]["logprobs"])


def test_a_bad_request_is_an_error_of_its_own(write: Write) -> None:
    good = request(seed=5, temperature=0.8)
    bad = {
        "mirostat: must be 1 or 2, or 0 for off, not 5": {"onedraw": {"mirostat": 5}},
        "tempreature: unknown field `tempreature`; did you mean `temperature`?": {"onedraw": {"tempreature": 1}},
        "top_p: is vLLM's own parameter": {"onedraw": {"top_p": 0.5}},
        "seed: is vLLM's own parameter": {"onedraw": {"seed": 5}},
        "probability: cannot be set for a request of vLLM": {"onedraw": {"probability": True}},
        "extra_args: `onedraw` cannot be read as JSON": {"onedraw": "{"},
        "extra_args: `onedraw` holds parameters by name": {"onedraw": [1]},
        "xtc_protected_token_ids: token 9000000 is outside the vocabulary": {"onedraw": {"xtc_protected_token_ids": [9_000_000]}},
    }
    runs = [[good], *[[request(extra_args=extra)] for extra in bad.values()], [good], [request(extra_args={"onedraw": '{"no_repeat_ngram_size": 1}'})]]
    first, *refused, last, from_text = write(runs)["runs"]
    assert first == last
    for message, run in zip(bad, refused, strict=True):
        assert message in run[0]["error"]
    # Over HTTP the parameters are JSON in a string.
    assert len(set(from_text[0]["tokens"])) == len(from_text[0]["tokens"]) > 20


@pytest.mark.long
@pytest.mark.parametrize("runner", [1, 2])
def test_a_first_row_that_cannot_be_sampled_leaves_the_logprobs_of_the_prompt(write: Write, runner: int) -> None:
    asked = [request(seed=seed, prompt_logprobs=1) for seed in (1, 2)]
    both, after = write([asked, asked[:1]], runner=runner, watched={"poison": [[2, 0]]})["runs"]
    assert [one["finish_reason"] for one in both] == ["length", "error"]
    assert both[1]["tokens"] == [] and len(both[1]["prompt_logprobs"]) > 3
    check_same(both[1]["prompt_logprobs"], both[0]["prompt_logprobs"])
    assert after[0]["tokens"] == both[0]["tokens"]


@pytest.mark.long
@pytest.mark.parametrize("runner", [1, 2])
def test_guesses_before_a_row_that_cannot_be_sampled_are_kept(write: Write, runner: int) -> None:
    """A text has the tokens that it would have without guesses, and one that these have ended is not ended again."""
    prompt, positions = PROMPTS[0] + ", a dog ran. A dog ran. A dog ran.", range(3, 15)
    asked = [{**request(seed=seed, logprobs=1), "prompt": prompt} for seed in positions]
    short = [{**one, "params": {**one["params"], "seed": 100 + length, "max_tokens": length}} for one, length in zip(asked, positions, strict=True)]
    poison = [[100 * is_short + position, position] for position in positions for is_short in (0, 1)]
    written = write([[{**asked[0], "params": {**asked[0]["params"], "seed": 1}}], asked, short], runner=runner, speculative_config=N_GRAM, watched={"poison": poison})
    [whole], failed, complete = written["runs"]
    assert written["metrics"][ACCEPTED] > 0
    for position, one, other in zip(positions, failed, complete, strict=True):
        assert (one["finish_reason"], other["finish_reason"]) == ("error", "length")
        assert one["tokens"] == other["tokens"] == whole["tokens"][:position]
        check_same(one["logprobs"], whole["logprobs"][:position])
        assert one["stop_reason"].startswith("onedraw: a row of logits has a NaN")


@pytest.mark.parametrize("runner", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_row_that_cannot_be_sampled_ends_its_request_alone(write: Write, runner: int) -> None:
    asked = [request(seed=seed, temperature=0.8) for seed in (1, 2, 3)]
    alone, poisoned = write([[asked[0], asked[2]], asked], runner=runner, watched={"poison": [[2, 5]]})["runs"]
    assert [one["finish_reason"] for one in poisoned] == ["length", "error", "length"]
    assert len(poisoned[1]["tokens"]) == 5
    assert poisoned[1]["stop_reason"].startswith("onedraw: a row of logits has a NaN")
    assert [poisoned[0]["tokens"], poisoned[2]["tokens"]] == [one["tokens"] for one in alone]


@pytest.mark.long
@pytest.mark.parametrize("runner", [1, 2])
def test_a_grammar_goes_before_min_tokens(write: Write, runner: int) -> None:
    """The object is complete long before twenty tokens, and nothing but the end may follow."""
    asked = [request(seed=4, temperature=0.8, min_tokens=20, structured_outputs={"enum": ["dog", "cat"]}), request(seed=5, min_tokens=20)]
    chosen, other = write([asked], runner=runner)["runs"][0]
    assert (chosen["text"] in ('"dog"', '"cat"'), chosen["finish_reason"]) == (True, "stop")
    assert len(other["tokens"]) >= 20


@pytest.mark.long
def test_processors_of_the_user(write: Write) -> None:
    """They see the model's logits, and the draw sees what they leave."""
    asked = [request(seed=9, temperature=1.0, logprobs=1)]
    plain, forced = (write([asked], logits_processors=processors)["runs"][0][0] for processors in ([], ["processor:Only"]))
    assert set(forced["tokens"]) == {300}
    assert plain["tokens"] != forced["tokens"]
    # Raw logprobs are the model's own.
    assert forced["logprobs"][0]["300"][0] < -1


@pytest.mark.long
def test_without_being_asked_nothing_changes(write: Write) -> None:
    asked = [request(temperature=0.9, seed=3)]
    assert not [name for name in write([asked], ours=False)["classes"] if name.startswith("onedraw.")]
    assert "onedraw.vllm.runner_v1.Drawing" in write([asked])["classes"]
