"""Parameters: names, values, words, and what can be done with them."""

from __future__ import annotations

import copy
import json
import math
import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import onedraw
from onedraw import SamplingParams, presets

MANY = {
    "temperature": 0.7,
    "top_k": 50,
    "top_p": 0.9,
    "min_p": 0.05,
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.2,
    "presence_penalty": -0.1,
    "penalty_window": 64,
    "penalty_scope": "all",
    "logit_bias": {3: 1.5, 7: -2.0},
    "allowed_token_ids": [1, 2, 3],
    "bad_words_ids": [[1], [2, 3]],
    "bad_words": ["no"],
    "min_tokens": 2,
    "max_tokens": 99,
    "stop": ["a", "b"],
    "stop_token_ids": [5],
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "eos_token_id": [0, 9],
    "seed": 2**64 - 1,
    "n": 3,
    "logprobs": 5,
    "logprobs_mode": "processed_logprobs",
    "probability": True,
    "kept": "ids",
    "prompt_logprobs": 0,
    "banned_strings": ["x"],
    "prompt_token_ids": [1, 2],
    "output_token_ids": [3],
    "typical_p": 0.95,
    "top_n_sigma": 2.0,
    "epsilon_cutoff": 0.001,
    "eta_cutoff": 0.002,
    "top_a": 0.1,
    "xtc_probability": 0.5,
    "xtc_threshold": 0.2,
    "xtc_protected_token_ids": [4],
    "mirostat": 2,
    "mirostat_tau": 4.0,
    "mirostat_eta": 0.2,
    "mirostat_mu": 6.0,
    "dynatemp_range": 0.3,
    "dynatemp_exponent": 1.5,
    "smoothing_factor": 0.2,
    "smoothing_curve": 1.5,
    "dry_multiplier": 0.8,
    "dry_base": 2.0,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 100,
    "dry_sequence_breakers": [[5], [6, 7]],
    "no_repeat_ngram_size": 4,
    "order": onedraw.order("vllm")[::-1],
}
"""Every parameter, with a value that is not its default."""


def test_every_parameter_is_read_and_given_back() -> None:
    params = SamplingParams(**MANY)
    for name, value in MANY.items():
        assert getattr(params, name) == value, name
    default = SamplingParams().to_dict()
    assert set(default) == set(MANY)
    assert [name for name in MANY if default[name] == MANY[name]] == []
    assert params.changed() == MANY


def test_defaults_are_those_of_the_library() -> None:
    assert json.loads(SamplingParams().to_json()) == {
        name: ({} if name == "logit_bias" else value) for name, value in SamplingParams().to_dict().items() if name != "order"
    }
    assert (SamplingParams().temperature, SamplingParams().max_tokens, SamplingParams().seed) == (1.0, 16, None)


def test_json_goes_both_ways() -> None:
    params = SamplingParams(**MANY)
    assert SamplingParams.from_json(params.to_json()) == params
    with pytest.raises(onedraw.ParamError, match="the key `seed` stands twice"):
        SamplingParams.from_json('{"seed": 1, "seed": 2}')


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda params: pickle.loads(pickle.dumps(params)), lambda params: SamplingParams(**params.to_dict())]
)
def test_copies_and_pickles_are_equal(again: Any) -> None:
    for params in (SamplingParams(), SamplingParams(**MANY), presets.creative()):
        other = again(params)
        assert other == params
        assert repr(other) == repr(params)
    assert SamplingParams(seed=1) != SamplingParams(seed=2)
    assert SamplingParams() != "params"


def test_pickles_of_every_protocol() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(SamplingParams(**MANY), protocol)) == SamplingParams(**MANY)


def test_the_text_is_python() -> None:
    text = repr(SamplingParams(**MANY))
    assert eval(text, {"SamplingParams": SamplingParams}) == SamplingParams(**MANY)  # noqa: S307
    assert repr(SamplingParams()) == "SamplingParams()"


def test_replace_leaves_the_other_values() -> None:
    params = SamplingParams(temperature=0.5, seed=1)
    other = params.replace(seed=2, top_k=3)
    assert (other.temperature, other.seed, other.top_k) == (0.5, 2, 3)
    assert (params.seed, params.top_k) == (1, 0)
    with pytest.raises(onedraw.ParamError, match="top_p: must be in"):
        params.replace(top_p=1.5)
    # What cannot stand beside what is there is an error of both together.
    with pytest.raises(onedraw.ParamError, match="top_k: is set beside mirostat"):
        SamplingParams(top_k=5).replace(mirostat=2)


def test_equal_parameters_are_one_key() -> None:
    assert {SamplingParams(**MANY): 1, SamplingParams(seed=2): 2}[SamplingParams(**MANY)] == 1
    assert len({SamplingParams(seed=1), SamplingParams(seed=1), SamplingParams(seed=2)}) == 2


def test_lists_without_an_end_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = [1]
    for _ in range(100_000):
        deep = [deep]
    itself = type("Itself", (), {"tolist": lambda self: self})()
    for value in (endless, deep, itself):
        for name in ("stop", "eos_token_id", "bad_words_ids", "seed"):
            with pytest.raises(onedraw.ParamError) as raised:
                SamplingParams(**{name: value})
            assert raised.value.field.startswith(name)
    while isinstance(deep, list) and deep:  # Python's own way to let go of it is recursive.
        deep = deep.pop()


def test_it_does_not_change() -> None:
    params = SamplingParams()
    with pytest.raises(AttributeError):
        params.temperature = 2.0  # type: ignore[misc]
    params.logit_bias[3] = 1.0
    assert params.logit_bias == {}


def test_numbers_of_numpy() -> None:
    params = SamplingParams(
        temperature=np.float32(0.5),
        top_k=np.int64(7),
        seed=np.uint64(2**64 - 1),
        ignore_eos=np.bool_(True),
        allowed_token_ids=np.array([3, 1]),
        logit_bias=MappingProxyType({np.int32(4): np.float64(1.5)}),
        bad_words_ids=[np.array([1, 2])],
        stop=("a",),
        prompt_token_ids=range(3),
        stop_token_ids={9},
    )
    assert params == SamplingParams(
        temperature=0.5,
        top_k=7,
        seed=2**64 - 1,
        ignore_eos=True,
        allowed_token_ids=[3, 1],
        logit_bias={4: 1.5},
        bad_words_ids=[[1, 2]],
        stop=["a"],
        prompt_token_ids=[0, 1, 2],
        stop_token_ids=[9],
    )


def test_forms_of_a_value() -> None:
    assert SamplingParams(stop="x").stop == ["x"]
    assert SamplingParams(eos_token_id=5).eos_token_id == [5]
    assert SamplingParams(seed=-1).seed is None
    assert SamplingParams(order="llama.cpp").order == onedraw.order("llama.cpp")
    assert SamplingParams(order="top_k,temperature", top_k=2).order == ["top_k", "temperature"]
    assert SamplingParams(logit_bias={"3": 1}).logit_bias == {3: 1.0}
    assert SamplingParams(order=None, logprobs=None).order is None


@pytest.mark.parametrize(
    ("parameters", "field", "words"),
    [
        ({"temperature": -1}, "temperature", "must be in [0, 1000000], not -1"),
        ({"temperature": math.nan}, "temperature", "must be in [0, 1000000], not NaN"),
        ({"temperature": "warm"}, "temperature", 'invalid type: string "warm", expected a number'),
        ({"temperature": None}, "temperature", "invalid type: None, expected a number"),
        ({"temperature": True}, "temperature", "invalid type: boolean `true`, expected a number"),
        ({"temperature": object()}, "temperature", "an object of the type object cannot be read"),
        ({"top_k": 1.5}, "top_k", "invalid type: floating point `1.5`, expected a whole number"),
        ({"top_k": [1]}, "top_k", "invalid type: sequence, expected a whole number"),
        ({"top_k": 2**80}, "top_k", f"the integer {2**80} does not fit 64 bits"),
        ({"top_p": 1.5}, "top_p", "must be in [0, 1], not 1.5"),
        ({"seed": -2}, "seed", "must be 0 to 2^64-1, or -1, not -2"),
        ({"seed": 1.5}, "seed", "expected 0 to 2^64-1, or -1 or None for a seed from the system"),
        ({"stop": 5}, "stop", "expected a string or a list of strings"),
        ({"logit_bias": [1]}, "logit_bias", "invalid type: sequence, expected an object"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "the key `x` is not a token id"),
        ({"logit_bias": {-1: 1}}, "logit_bias", "the key `-1` is not a token id"),
        ({"allowed_token_ids": [1, -1]}, "allowed_token_ids[1]", "invalid value: integer `-1`, expected a whole number from 0 to 4294967295"),
        ({"penalty_scope": "some"}, "penalty_scope", "unknown variant `some`, expected `output` or `all`"),
        ({"penalty_scope": 1}, "penalty_scope", "expected a string, not an object of the type int"),
        ({"order": "top_k,nucleus"}, "order", "`nucleus` is not a stage; the stages are"),
        ({"order": ["top_p"], "top_k": 5}, "top_k", "is set, but the order does not name its stage top_k"),
        ({"temprature": 1}, "temprature", "unknown field `temprature`; did you mean `temperature`?"),
        ({"mirostat": 2, "top_k": 5}, "top_k", "is set beside mirostat, which takes the place of every other truncation"),
    ],
)
def test_wrong_values_are_named(parameters: dict[str, Any], field: str, words: str) -> None:
    for make in (SamplingParams, onedraw.Sampler, lambda **given: onedraw.sample([0.0, 1.0], **given), lambda **given: onedraw.sample([0.0], given)):
        with pytest.raises(onedraw.ParamError) as raised:
            make(**parameters)
        error = raised.value
        assert error.field == field
        assert words in error.message
        assert str(error) == f"{error.field}: {error.message}"
        assert isinstance(error, onedraw.OnedrawError)
        assert isinstance(error, ValueError)


@pytest.mark.parametrize("given", [5, 1.5, object(), SamplingParams])
def test_params_of_another_type(given: Any) -> None:
    words = "params are SamplingParams, a dict, a preset's name or None, not an object of the type"
    for make in (onedraw.Sampler, lambda params: onedraw.sample([0.0], params), onedraw.Batch().add, onedraw.StopMatcher):
        with pytest.raises(TypeError, match=words):
            make(given)
    with pytest.raises(onedraw.ParamError, match="order: expected an order's name or a list of stages, not an object of the type int"):
        SamplingParams(order=5)
    with pytest.raises(onedraw.ParamError, match="order: a stage is a name, an Edit or a Truncation, not an object of the type int"):
        SamplingParams(order=["top_k", 5])


def test_presets() -> None:
    values = [(params.temperature, params.top_p, params.top_k, params.repetition_penalty) for params in map(presets.by_name, presets.NAMES)]
    assert presets.NAMES == ("creative", "precise", "balanced", "deterministic")
    assert values == [(1.2, 0.95, 100, 1.1), (0.3, 0.9, 20, 1.05), (0.7, 0.9, 50, 1.0), (0.0, 1.0, 0, 1.0)]
    assert [presets.creative(), presets.precise(), presets.balanced(), presets.deterministic()] == [*map(presets.by_name, presets.NAMES)]
    with pytest.raises(onedraw.ParamError, match="preset: \"wild\" is not a preset; the presets are creative, precise, balanced, deterministic"):
        presets.by_name("wild")
    assert onedraw.sample([0.0, 1.0], "deterministic", seed=3) == onedraw.sample([0.0, 1.0], presets.deterministic(), seed=3)


def test_keyword_arguments_go_before_what_they_are_added_to() -> None:
    base = SamplingParams(temperature=0, seed=5)
    logits = [0.0, 1.0, 0.9]
    assert onedraw.sample(logits, base, seed=9).seed == 9
    assert onedraw.sample(logits, {"temperature": 0, "seed": 5}, seed=9).token == 1
    assert onedraw.sample(logits, MappingProxyType({"temperature": 0, "seed": 5})).seed == 5
    assert len(onedraw.distribution(logits, base, temperature=1)) == 3
    assert len(onedraw.distribution(logits, base)) == 1


def test_settings_of_other_systems() -> None:
    params, notes = SamplingParams.import_settings('{"temperature": 0.6, "top_k": 40, "grammar": "root ::= x"}', "llama.cpp")
    assert (params.temperature, params.top_k) == (0.6, 40)
    assert any(note.startswith("lost: grammar") for note in notes)
    with pytest.raises(onedraw.ParamError, match="source: `vim` is not known"):
        SamplingParams.import_settings("{}", "vim")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"xtc_protected_token_ids": [3, 100]}, "xtc_protected_token_ids: token 100 is outside the vocabulary; ids are 0 to 99"),
        ({"dry_sequence_breakers": [[1], [2, 500]]}, "dry_sequence_breakers: token 500 is outside"),
        ({"bad_words_ids": [[7, 101]]}, "bad_words_ids: token 101 is outside"),
        ({"prompt_token_ids": [100]}, "prompt_token_ids: token 100 is outside"),
    ],
)
def test_ids_outside_a_vocabulary_are_found_without_logits(given: dict[str, Any], message: str) -> None:
    params = SamplingParams(**given)
    params.check_vocabulary(1000)
    with pytest.raises(onedraw.ParamError) as raised:
        params.check_vocabulary(100)
    assert message in str(raised.value) and raised.value.field == next(iter(given))


def test_an_empty_vocabulary_has_no_tokens() -> None:
    with pytest.raises(onedraw.ParamError, match="vocabulary: "):
        SamplingParams().check_vocabulary(0)
