"""The sampler for GPUs in a whole engine, with a driver that runs its kernels on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from compare import ACCEPTED
from engines import Write
from kinds import KINDS, N_GRAM, requests

pytestmark = [pytest.mark.vllm, pytest.mark.long]


@pytest.fixture(scope="module")
def emulated() -> Path:
    """The folder of the driver, which `.ci/vllm --all` builds."""
    folder = os.environ.get("ONEDRAW_EMULATED")
    if folder is None:
        pytest.skip("ONEDRAW_EMULATED does not say where crates/onedraw-cuda/emulate/run built its driver")
    return Path(folder)


@pytest.mark.parametrize("guesses", [None, {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 1}], ids=["plain", "n-grams"])
def test_the_device_writes_the_texts_of_the_cpu(together: list[dict[str, Any]], write: Write, emulated: Path, guesses: dict[str, Any] | None) -> None:
    length = 20
    asked = dict(zip(KINDS, requests(length), strict=True))
    engine = {} if guesses is None else {"speculative_config": guesses}
    written = write([list(asked.values())], runner=2, emulated=emulated, max_num_seqs=8, **engine)
    assert "onedraw.vllm.sampler_v2_device.DeviceSampler" in written["sampler"]
    assert (written["metrics"].get(ACCEPTED, 0) > 0) == (guesses is not None)
    expected = dict(zip(KINDS, together, strict=True))
    for name, text in zip(asked, written["runs"][0], strict=True):
        assert text["tokens"] == expected[name]["tokens"][:length], name
        assert len(text["logprobs"]) == (len(text["tokens"]) if name == "logprobs" else 0)
        for ours, theirs in zip(text["logprobs"], expected[name]["logprobs"][: len(text["tokens"])], strict=True):
            assert {token: rank for token, (_, rank) in ours.items()} == {token: rank for token, (_, rank) in theirs.items()}
            assert all(abs(ours[token][0] - theirs[token][0]) < 1e-5 for token in ours)


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
def test_the_device_lists_all_tokens(write: Write, emulated: Path, mode: str) -> None:
    """Requests with lists of different lengths, together in a step."""
    kinds = {name: {"temperature": 0.8, "top_k": top_k, "logprobs": logprobs} for name, top_k, logprobs in (("all", 0, -1), ("some", 20, -1), ("few", 20, 3))}
    engine = {"runner": 2, "logprobs_mode": mode, "max_logprobs": -1}
    ours, theirs = (write([requests(4, kinds)], **engine, **where)["runs"][0] for where in ({"emulated": emulated}, {}))
    for name, text, expected in zip(kinds, ours, theirs, strict=True):
        assert text["tokens"] == expected["tokens"], name
        for listed, other in zip(text["logprobs"], expected["logprobs"], strict=True):
            assert {token: rank for token, (_, rank) in listed.items()} == {token: rank for token, (_, rank) in other.items()}, name
            assert all(abs(listed[token][0] - other[token][0]) < 1e-5 for token in listed if listed[token][0] > float("-inf")), name


@pytest.mark.parametrize("guesses", [None, N_GRAM], ids=["plain", "n-grams"])
def test_the_device_reports_the_sets_of_the_cpu(write: Write, emulated: Path, guesses: dict[str, Any] | None) -> None:
    """Small ones and those of nearly all tokens, one for each token."""
    # vLLM reports no sets of greedy requests.
    asked = {name: one for name, one in zip(KINDS, requests(20), strict=True) if name != "greedy"}
    engine = {"runner": 2, "logprobs_mode": "processed_logprobs", "return_sampling_mask": True, "max_num_seqs": 8, "speculative_config": guesses}
    ours, theirs = (write([list(asked.values())], **engine, **where) for where in ({"emulated": emulated}, {}))
    assert "onedraw.vllm.sampler_v2_device.DeviceSampler" in ours["sampler"]
    assert (ours["metrics"].get(ACCEPTED, 0) > 0) == (guesses is not None)
    for name, text, expected in zip(asked, ours["runs"][0], theirs["runs"][0], strict=True):
        assert text["tokens"] == expected["tokens"], name
        assert len(text["sampling_mask"]) == len(text["tokens"]) > 0
        assert text["sampling_mask"] == expected["sampling_mask"], name


def test_a_preempted_request_goes_on(write: Write, emulated: Path) -> None:
    """Mirostat goes on with what it has learned."""
    learning = {f"mirostat {place}": {"extra_args": {"onedraw": {"mirostat": 1 + place % 2, "mirostat_tau": 3.0, "mirostat_eta": 0.5}}} for place in range(6)}
    asked = requests(40, {**learning, "penalties": KINDS["penalties"], "sigma and DRY": KINDS["sigma and DRY"]})
    [plain] = write([asked], runner=2, max_num_seqs=16)["runs"]
    written = write([asked], runner=2, emulated=emulated, num_gpu_blocks_override=12, max_num_batched_tokens=32, max_num_seqs=16)
    assert written["metrics"]["vllm:num_preemptions"] > 0
    assert [one["tokens"] for one in written["runs"][0]] == [one["tokens"] for one in plain]


def test_a_request_without_memory_ends_alone(write: Write, emulated: Path) -> None:
    kinds = {name: KINDS[name] for name in ("top-p", "penalties", "temperature")}
    full, plain = (write([requests(8, kinds)], runner=2, emulated=emulated, watched=watched)["runs"][0] for watched in ({"full": 1001}, None))
    assert (full[1]["tokens"], full[1]["finish_reason"]) == ([], "error")
    assert full[1]["stop_reason"] == "onedraw: the device has no memory for what this request's parameters need"
    assert [full[0], full[2]] == [plain[0], plain[2]] and len(plain[1]["tokens"]) == 8
