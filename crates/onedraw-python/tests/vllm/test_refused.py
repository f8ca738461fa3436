"""What an engine with onedraw refuses, and what it leaves to vLLM."""

from __future__ import annotations

from typing import Any

import pytest
from engines import Write
from kinds import N_GRAM, PROMPTS

pytestmark = pytest.mark.vllm


def request(**params: Any) -> dict[str, Any]:
    return {"prompt": PROMPTS[0], "params": {"temperature": 0, "max_tokens": 24, **params}}


@pytest.mark.long
def test_another_version_of_vllm(write: Write) -> None:
    """It is refused before the model is loaded, with the versions that are known. Without our sampler it runs."""
    watched = {"version": "0.99.1"}
    refused = write([[request()]], watched=watched)["refused"]
    assert refused == "onedraw knows vLLM 0.32.x, and this is 0.99.1; install one of those, or leave `sampler` off"
    assert len(write([[request()]], watched=watched, ours=False)["runs"][0][0]["tokens"]) == 24


@pytest.mark.long
def test_a_setting_that_is_not_there(write: Write) -> None:
    assert "`smapler` is not a setting; there are sampler, shards, threads" in write([[request()]], onedraw={"smapler": True})["refused"]


def test_every_parameter_of_vllm_has_a_place() -> None:
    """A new version with a parameter that nobody has thought about fails here."""
    from onedraw.vllm.params import DRAWN_HERE, LEFT_TO_VLLM, REFUSED
    from vllm import SamplingParams

    placed = [*DRAWN_HERE, *LEFT_TO_VLLM, *REFUSED]
    assert sorted(placed) == sorted(name for name in SamplingParams.__struct_fields__ if not name.startswith("_"))


@pytest.mark.long
def test_parameters_for_other_samplers(write: Write) -> None:
    """Each is an error of its request, and the engine goes on."""
    good = request(logprobs=1)
    bad = {
        "trace_decode_token_ids: asks for another sampler than onedraw's": request(trace_decode_token_ids=[5, 6]),
        "logprob_token_ids: needs a raw logprobs_mode with onedraw's sampler": request(logprob_token_ids=[5, 6]),
    }
    engine = {"runner": 2, "enable_trace_replay": True, "logprobs_mode": "processed_logprobs"}
    first, *refused, last = write([[good], *[[one] for one in bad.values()], [good]], **engine)["runs"]
    for message, run in zip(bad, refused, strict=True):
        assert run[0]["error"].startswith(message)
    assert first == last and len(first[0]["tokens"]) == 24


@pytest.mark.long
@pytest.mark.parametrize("guesses", [None, N_GRAM], ids=["plain", "n-grams"])
def test_what_is_left_to_vllm(write: Write, guesses: dict[str, Any] | None) -> None:
    """Ends of texts and their form are vLLM's work: they are the same with its own sampler, greedily."""
    asked = [
        request(stop=["."]),
        request(stop=["there was"], include_stop_str_in_output=True),
        request(stop_token_ids=[438]),
        request(ignore_eos=True, max_tokens=200, min_tokens=150),
        request(detokenize=False),
        request(skip_special_tokens=False, spaces_between_special_tokens=False, max_tokens=200),
        request(repetition_detection={"max_pattern_size": 2, "min_count": 3}, logit_bias={"438": 100.0}),
    ]
    if guesses is not None:
        # vLLM's own sampler refuses a bias together with guesses.
        asked.pop()
    ours, theirs = (write([asked], ours=is_ours, speculative_config=guesses)["runs"][0] for is_ours in (True, False))
    assert [{**one, "logprobs": None} for one in ours] == [{**one, "logprobs": None} for one in theirs]
    assert [one["finish_reason"] for one in ours[:3]] == ["stop"] * 3
    assert len(ours[3]["tokens"]) == 200 and ours[4]["text"] == ""
    if guesses is None:
        assert ours[-1]["finish_reason"] == "repetition"
