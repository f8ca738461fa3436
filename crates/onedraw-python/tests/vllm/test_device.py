"""The sampler for GPUs in a whole engine, with a driver that runs its kernels on the CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from compare import ACCEPTED
from engines import Write
from kinds import KINDS, requests

pytestmark = [pytest.mark.vllm, pytest.mark.long]

ON_CPU_ALONE = ("sigma and DRY", "XTC", "mirostat")
"""Kinds with stages that the device does not have."""


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
    asked = {name: one for name, one in zip(KINDS, requests(length), strict=True) if name not in ON_CPU_ALONE}
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


def test_the_device_reports_no_sets_yet(write: Write, emulated: Path) -> None:
    engine = {"logprobs_mode": "processed_logprobs", "return_sampling_mask": True}
    refused = write([requests(4)], runner=2, emulated=emulated, **engine)["refused"]
    assert refused == "onedraw does not report on a GPU which tokens it kept; leave `return_sampling_mask` or `sampler` off"
