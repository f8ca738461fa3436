"""The parts of `onedraw.vllm` that need no vLLM: parameters, seeds, settings, hooks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import onedraw
from onedraw.vllm.hooks import Install, extends, replaces, when_imported
from onedraw.vllm.params import check_device, derived_seed, listed, room, signed, translated
from onedraw.vllm.requests import Requests
from onedraw.vllm.settings import Settings, settings_of


def asked(**given: Any) -> SimpleNamespace:
    """A request's parameters, with vLLM's defaults."""
    defaults: dict[str, Any] = {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_tokens": 0,
        "max_tokens": 16,
        "seed": None,
        "logprobs": None,
        "logit_bias": None,
        "allowed_token_ids": None,
        "bad_words_token_ids": None,
        "all_stop_token_ids": set(),
        "structured_outputs": None,
        "extra_args": None,
    }
    return SimpleNamespace(**{**defaults, **given})


def read(mode: str = "raw_logprobs", prompt: list[int] | None = None, **given: Any) -> onedraw.SamplingParams:
    return translated(asked(**given), mode=mode, vocabulary=100, prompt=prompt)


def test_parameters_are_translated() -> None:
    assert read() == onedraw.SamplingParams()
    params = read(
        prompt=[1, 2, 100, -1],
        temperature=0.5,
        top_k=5000,
        seed=-3,
        logprobs=2,
        logit_bias={"7": 1.5},
        bad_words_token_ids=[[1, 2]],
        all_stop_token_ids={9, 4},
        min_tokens=3,
        extra_args={"onedraw": {"typical_p": 0.9}, "other": 1},
    )
    # The whole vocabulary is kept, and tokens outside of it have no logit.
    assert (params.temperature, params.top_k, params.typical_p, params.min_tokens) == (0.5, 100, 0.9, 3)
    assert (params.seed, params.logprobs, params.logprobs_mode) == (2**64 - 3, 2, "raw_logprobs")
    assert (params.logit_bias, params.bad_words_ids, params.stop_token_ids, params.prompt_token_ids) == ({7: 1.5}, [[1, 2]], [4, 9], [1, 2])
    assert read(extra_args={"onedraw": '{"mirostat": 2}'}).mirostat == 2
    # vLLM is greedy below this temperature.
    assert read(temperature=9e-6).temperature == 0
    # The engine says whether sets are reported, and not the request.
    assert [translated(asked(), mode="raw_logprobs", vocabulary=100, masks=masks).kept for masks in (False, True)] == ["none", "ids"]


def test_processed_logprobs_of_a_greedy_request_are_a_list() -> None:
    greedy = asked(temperature=0.0, logprobs=0)
    assert [listed(greedy, mode) for mode in ("raw_logprobs", "processed_logprobs")] == [None, 0]
    params = read("processed_logits", temperature=0.0, logprobs=0)
    assert (params.temperature, params.logprobs) == (1.0, 1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"top_p": 0.5}, "top_p: is vLLM's own parameter"),
        ({"stop": "x"}, "stop: is vLLM's own parameter"),
        ({"probability": True}, "probability: cannot be set for a request of vLLM"),
        ({"kept": "ids"}, "kept: cannot be set for a request of vLLM"),
        ({"typical_p": 7}, "typical_p: must be"),
        ({"tipical_p": 0.5}, "did you mean `typical_p`"),
        ("{", "extra_args: `onedraw` cannot be read as JSON"),
        (7, "extra_args: `onedraw` holds parameters by name"),
    ],
)
def test_what_cannot_be_used_is_named(given: Any, message: str) -> None:
    with pytest.raises(onedraw.ParamError) as error:
        read(extra_args={"onedraw": given})
    assert message in str(error.value)


def test_seeds_of_requests_without_one() -> None:
    # They stay what they are: a run that is repeated with a later version has the same texts.
    assert derived_seed("0", 0) == 3695006699338063073
    assert derived_seed("cmpl-7", 42) == 1389502747795463304
    seeds = {derived_seed(str(request), engine) for request in range(50) for engine in (0, -1, 2**64 + 5)}
    assert len(seeds) == 150
    # vLLM counts up from it, in 64 bits with a sign.
    assert all(0 <= seed < 2**62 for seed in seeds)
    assert [signed(seed) for seed in (5, -1, 2**63 - 1, 2**63, 2**64 - 1, 2**64 + 7)] == [5, -1, 2**63 - 1, -(2**63), -1, 7]


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(additional: Any) -> Settings:
        return settings_of(SimpleNamespace(additional_config=additional))

    assert of({}) == of({"other": 1}) == Settings(sampler=False, shards=False, threads=1)
    assert of({"onedraw": {"sampler": True, "threads": 2}}) == Settings(sampler=True, threads=2)
    for wrong, message in [
        ({"smapler": True}, "`smapler` is not a setting; there are sampler, shards, threads"),
        ({"sampler": 1}, "sampler is 1, but a value such as False is wanted"),
        ({"threads": -1}, "threads must be in"),
        ({"shards": True}, "shards needs sampler"),
        ({"sampler": False, "shards": True}, "shards needs sampler"),
        ([], "settings are an object"),
    ]:
        with pytest.raises(ValueError, match=r"additional_config\['onedraw'\]") as error:
            of({"onedraw": wrong})
        assert message in str(error.value)
    monkeypatch.setenv("ONEDRAW_VLLM", '{"sampler": true}')
    assert of({}) == Settings(sampler=True)
    assert of({"onedraw": {"sampler": False}}) == Settings()
    monkeypatch.setenv("ONEDRAW_VLLM", "yes")
    with pytest.raises(ValueError, match="ONEDRAW_VLLM: cannot be read as JSON"):
        of({})


def test_a_module_is_extended_when_it_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "engine_of_test.py").write_text("value = 1\n", encoding="utf-8")
    seen: list[ModuleType] = []
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    when_imported("engine_of_test", seen.append)
    assert seen == []
    module = importlib.import_module("engine_of_test")
    assert seen == [module] and module.value == 1
    # Once is enough.
    when_imported("engine_of_test", seen.append)
    assert seen == [module]
    sys.modules.pop("engine_of_test")


def configured(**ours: Any) -> SimpleNamespace:
    """The configuration of an engine with such settings."""
    return SimpleNamespace(additional_config={"onedraw": ours} if ours else {})


class Made:
    """A class of an engine, and the state of a model."""

    def __init__(self, vllm_config: Any, other: int = 0) -> None:
        self.vllm_config, self.other = vllm_config, other

    def custom_sampler(self, sampler: Any) -> Any:
        return None


@pytest.fixture
def another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vLLM that nobody knows here. Nothing can be imported from it."""
    module = ModuleType("vllm")
    module.__version__ = "0.99.1"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    for name in ("frontend", "runner_v2"):
        monkeypatch.delitem(sys.modules, f"onedraw.vllm.{name}", raising=False)


KNOWN = r"^onedraw knows vLLM 0\.32\.x, and this is 0\.99\.1; install one of those, or leave `sampler` off$"
HOOKS = [extends("Made", "frontend:Checked"), replaces("Made", "custom_sampler", "runner_v2:custom_sampler")]


@pytest.mark.parametrize("install", HOOKS, ids=["class", "method"])
def test_a_vllm_without_what_is_extended_is_left_alone(another_version: None, monkeypatch: pytest.MonkeyPatch, install: Install) -> None:
    before = set(sys.modules)
    install(ModuleType("empty"))
    assert set(sys.modules) == before
    # Nobody else would say that the sampler is not used.
    monkeypatch.setenv("ONEDRAW_VLLM", '{"sampler": true}')
    with pytest.raises(RuntimeError, match=KNOWN):
        install(ModuleType("empty"))


def test_a_method_that_a_class_does_not_have_is_left_alone(another_version: None) -> None:
    module = ModuleType("other")
    module.Made = other = type("Made", (), {})  # type: ignore[attr-defined]
    HOOKS[1](module)
    assert not hasattr(other, "custom_sampler")


def test_until_it_is_asked_for_nothing_is_imported_or_checked(another_version: None) -> None:
    module, before = ModuleType("other"), set(sys.modules)
    module.Made = Extended = type("Made", (Made,), {})  # type: ignore[attr-defined]
    for install in HOOKS:
        install(module)
    made = [Extended(configured(), 7), Extended(vllm_config=configured(sampler=False), other=7)]
    assert [(type(one), one.other, one.custom_sampler(None)) for one in made] == [(Extended, 7, None)] * 2
    assert set(sys.modules) == before
    for given in ({"vllm_config": configured(sampler=True)}, {"vllm_config": configured(sampler=True), "other": 7}):
        with pytest.raises(RuntimeError, match=KNOWN):
            Extended(**given)
    with pytest.raises(RuntimeError, match=KNOWN):
        Extended(configured(sampler=True))
    made[0].vllm_config = configured(sampler=True)
    with pytest.raises(RuntimeError, match=KNOWN):
        made[0].custom_sampler(None)


def test_a_class_may_make_its_objects_itself() -> None:
    class Counted(Made):
        count = 0

        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            Counted.count += 1
            return super().__new__(cls)

    module = ModuleType("other")
    module.Made = Counted  # type: ignore[attr-defined]
    HOOKS[0](module)
    assert Counted(configured(), other=3).other == 3 and Counted.count == 1


def test_a_device_has_room_for_the_best_of_a_list() -> None:
    assert [room(most, rows=8, vocabulary=3000) for most in (-1, 0, 1, 20, 1024, 2000, 5000)] == [3000, 1, 1, 20, 1024, 2000, 3000]
    assert [room(-1, rows=rows, vocabulary=128_256) for rows in (1, 256, 400, 1024)] == [128_256, 128_256, 39_515, 1024]
    assert [room(5000, rows=rows, vocabulary=128_256) for rows in (1, 500, 503, 1024)] == [5000, 5000, 5000, 1024]


def test_ids_outside_the_vocabulary() -> None:
    # A token that cannot be drawn ends no text; vLLM takes it, too.
    assert read(all_stop_token_ids={4, 100}).stop_token_ids == [4]
    params = read(bad_words_token_ids=[[7, 100]], extra_args={"onedraw": {"dry_sequence_breakers": [[5]]}})
    with pytest.raises(onedraw.ParamError, match="bad_words_ids: token 100 is outside the vocabulary"):
        params.check_vocabulary(100)


def test_sequences_follow_what_was_written() -> None:
    requests = Requests(onedraw.Batch())
    plain = requests.add("plain", "owner", onedraw.SamplingParams(temperature=0.8, seed=1))
    learning = requests.add("learning", "owner", onedraw.SamplingParams(mirostat=2, seed=2))
    rows = [[1.0, 2.0, 3.0, 0.5], [0.1, 0.4, 0.2, 0.9]]
    sampler = onedraw.Sampler(mirostat=2, seed=2)
    for step in range(3):
        drawn = [requests.batch.peek(one.sequence, row) for one, row in zip((plain, learning), rows, strict=True)]
        learning.drawn = [drawn[1]]
        # Nothing was appended, so the draw is the same again.
        assert requests.batch.peek(plain.sequence, rows[0]).token == drawn[0].token
        outputs = [requests.batch.output(one.sequence) + [one_drawn.token] for one, one_drawn in zip((plain, learning), drawn, strict=True)]
        requests.follow(zip((plain, learning), outputs, strict=True))
        assert sampler.sample(rows[1]).token == outputs[1][-1]
        assert [plain.written, learning.written] == [step + 1, step + 1]
    assert requests.batch.mirostat_mu(learning.sequence) == sampler.mirostat_mu
    # Tokens that are gone, others in their place, several at once.
    requests.follow([(plain, [3, 1]), (learning, [])])
    assert requests.batch.output(plain.sequence) == [3, 1]
    assert requests.batch.mirostat_mu(learning.sequence) == onedraw.Sampler(mirostat=2).mirostat_mu
    requests.follow([(plain, [3, 1, 2, 0])])
    assert requests.batch.output(plain.sequence) == [3, 1, 2, 0]
    requests.keep({"learning"}, 1)
    assert len(requests.batch) == 1 and requests.find("plain", "owner") is None and requests.find("learning", "owner") is learning


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"extra_args": {"onedraw": {"order": [onedraw.Truncation("own", lambda view: [0])]}}},
            "extra_args: own is a stage of your own, which a device cannot run: draw these rows on the CPU, or make it a logit_bias or a mask",
        ),
        ({"logprobs": 51}, r"logprobs: must be in \[0, 50\] on this GPU, not 51: 1024 MB of device memory hold no longer lists for all rows of a step"),
        ({"logprobs": -1}, r"logprobs: must be in \[0, 50\] on this GPU, not -1: .*; a smaller max_num_seqs leaves room for more"),
        ({"min_tokens": 2, "structured_outputs": object()}, "min_tokens: does not work together with structured outputs on a GPU yet"),
    ],
)
def test_what_a_gpu_cannot_draw_is_the_request_s_error(given: dict[str, Any], words: str) -> None:
    params = asked(**given)
    with pytest.raises(onedraw.ParamError, match=words):
        check_device(params, translated(params, mode="raw_logprobs", vocabulary=100), most=50, vocabulary=100)


@pytest.mark.parametrize(
    "given",
    [
        {"top_p": 0.9, "logprobs": 50, "seed": 1},
        {"extra_args": {"onedraw": {"xtc_probability": 0.5}}},
        {"extra_args": {"onedraw": {"dry_multiplier": 0.8, "no_repeat_ngram_size": 3}}},
        {"extra_args": {"onedraw": {"mirostat": 2}}},
        {"extra_args": {"onedraw": {"smoothing_factor": 0.2, "dynatemp_range": 0.4}}},
        {"logit_bias": {7: 1.5}, "extra_args": {"onedraw": {"order": "temperature,logit_bias"}}},
    ],
)
def test_what_a_gpu_draws(given: dict[str, Any]) -> None:
    params = asked(**given)
    check_device(params, translated(params, mode="raw_logprobs", vocabulary=100), most=50, vocabulary=100)
    every = asked(**{**given, "logprobs": -1})
    check_device(every, translated(every, mode="raw_logprobs", vocabulary=100), most=100, vocabulary=100)
