"""Texts of the embedded model and of folders."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import onedraw


@pytest.fixture(scope="module")
def generator() -> onedraw.Generator:
    return onedraw.Generator()


def test_the_folder_of_the_embedded_model_writes_the_same(generator: onedraw.Generator, root: Path) -> None:
    folder = onedraw.Generator(root / "models/stories", threads=1, kernel="auto")
    for seed in range(3):
        assert folder.generate("One day", seed=seed, max_tokens=30).text == generator.generate("One day", seed=seed, max_tokens=30).text
    assert (folder.vocabulary_size, folder.context, folder.eos_token_ids) == (4096, 512, [0])


def test_settings_of_the_model_and_of_the_caller(generator: onedraw.Generator) -> None:
    own = generator.params()
    assert (own.temperature, own.top_k, own.top_p, own.max_tokens, own.eos_token_id) == (0.7, 50, 0.9, 256, [0])
    assert generator.params(temperature=1.5).top_k == 50
    assert generator.params(mirostat=2).top_k == 0, "what the model comes with gives way"
    assert (generator.params("creative").temperature, generator.params("creative").max_tokens) == (1.2, 256)
    assert generator.params({"temperature": 1.5}, seed=3) == generator.params(temperature=1.5, seed=3), "a dict is keyword arguments"
    given = generator.params(onedraw.SamplingParams(seed=1))
    assert (given.temperature, given.max_tokens, given.eos_token_id) == (1.0, 16, [0])
    with pytest.raises(onedraw.ParamError, match="top_p: must be in"):
        generator.generate("a", top_p=2)
    with pytest.raises(onedraw.ParamError, match="unknown field `wild`"):
        generator.generate("a", wild=2)  # type: ignore[call-overload]


def test_forms_of_a_prompt(generator: onedraw.Generator) -> None:
    text = generator.generate("Once upon", temperature=0, max_tokens=5).text
    tokens = generator.tokenizer.encode("Once upon")
    several = [["Once upon", "Once upon"], ("Once upon",), [tokens], [np.array(tokens)]]
    assert all(generator.generate(one, temperature=0, max_tokens=5).text == text for one in (tokens, tuple(tokens), np.array(tokens)))
    assert all(one.text == text for prompts in several for one in generator.generate(prompts, temperature=0, max_tokens=5))
    assert [one.text for one in generator.generate(["Once upon"], ({"temperature": 0, "max_tokens": 5},))] == [text]


def test_a_stream_is_the_text(generator: onedraw.Generator) -> None:
    whole = generator.generate("Once upon a time", seed=5, max_tokens=40)
    events = list(generator.stream("Once upon a time", seed=5, max_tokens=40))
    assert "".join(event.text for event in events) == whole.text
    assert [event.sampled.token for event in events if event.sampled] == whole.tokens
    assert [event.is_last for event in events] == [False] * (len(events) - 1) + [True]
    assert (events[-1].finish_reason, whole.finish_reason, whole.seed) == ("length", "length", 5)
    assert str(whole) == whole.text


def test_requests_join_and_leave(generator: onedraw.Generator) -> None:
    prompts = ["Once upon a time", "The dog", "Tom"]
    texts = {}
    first = generator.add(prompts[0], seed=1, max_tokens=20)
    texts[first] = ""
    waiting = list(enumerate(prompts))[1:]
    while not generator.is_done:
        for event in generator.step():
            texts[event.request] += event.text
        if waiting:
            seed, prompt = waiting.pop()
            texts[generator.add(prompt, seed=seed + 1, max_tokens=20)] = ""
    alone = [generator.generate(prompt, seed=seed + 1, max_tokens=20).text for seed, prompt in enumerate(prompts)]
    assert sorted(texts.values()) == sorted(alone)
    cancelled = generator.add("The", max_tokens=50)
    generator.step()
    assert [event.is_last or event.text for event in generator.cancel(cancelled)] != []
    assert generator.is_done


@pytest.mark.parametrize("draft", ["model", "eagle", "ngram", 2])
def test_guesses_change_no_token(generator: onedraw.Generator, draft: str | int) -> None:
    guessing = onedraw.Generator(draft=draft, depth=3)
    for params in ({"seed": 3}, {"temperature": 0}, {"seed": 4, "repetition_penalty": 1.2, "logprobs": 2}):
        with_guesses = guessing.generate("Once upon a time", max_tokens=60, **params)
        plain = generator.generate("Once upon a time", max_tokens=60, **params)
        assert with_guesses.text == plain.text
        if "seed" in params:
            assert with_guesses.sampled == plain.sampled


def test_other_ways_to_judge_guesses() -> None:
    for verify in ("rejection", "block", "typical"):
        text = onedraw.Generator(draft="model", verify=verify).generate("Once upon a time", seed=1, max_tokens=30)
        assert len(text.tokens) == 30
        assert text.text == onedraw.Generator(draft="model", verify=verify).generate("Once upon a time", seed=1, max_tokens=30).text


def test_grammars(generator: onedraw.Generator) -> None:
    schema = {"type": "object", "properties": {"name": {"enum": ["Tom", "Sue"]}, "age": {"type": "integer", "maximum": 9, "minimum": 1}},
              "required": ["name", "age"], "additionalProperties": False}
    grammar = onedraw.Grammar.json_schema(generator.vocabulary(), schema)
    for seed in range(5):
        pet = json.loads(generator.generate("A child:", seed=seed, max_tokens=60, grammar=grammar).text)
        assert pet["name"] in ("Tom", "Sue") and 1 <= pet["age"] <= 9
    streamed = "".join(event.text for event in generator.stream("A child:", seed=3, max_tokens=60, grammar=grammar.start()))
    assert streamed == generator.generate("A child:", seed=3, max_tokens=60, grammar=grammar).text
    best = generator.beams("Say", width=3, max_tokens=20, grammar=onedraw.Grammar.choices(generator.vocabulary(), [" yes", " no"]))
    assert best[0].text in (" yes", " no")


def test_beams(generator: onedraw.Generator) -> None:
    found = generator.beams("Once upon a time", width=4, n=3, max_tokens=12, length_penalty=1.0)
    assert len(found) == 3
    assert found[0].score >= found[1].score >= found[2].score
    # The score is the sum of the model's own logprobs over the length.
    prompt = generator.tokenizer.encode("Once upon a time")
    rows = generator.logits([*prompt, *found[0].tokens])[len(prompt) - 1 : -1]
    logprobs = rows - np.log(np.exp(rows.astype("f8")).sum(axis=1, keepdims=True))
    total = sum(logprobs[i, token] for i, token in enumerate(found[0].tokens))
    assert found[0].logprob == pytest.approx(total, abs=1e-4)
    assert found[0].score == pytest.approx(total / len(found[0].tokens), abs=1e-5)
    drawn = generator.beams("Once", width=3, stochastic=True, max_tokens=5, seed=2, temperature=1.5, top_p=1.0)
    assert len({text.text for text in drawn}) == 3


def test_logits_are_what_texts_are_drawn_from(generator: onedraw.Generator) -> None:
    text = generator.generate("Once upon a time", seed=8, temperature=1.3, max_tokens=25, logprobs=0, probability=True)
    prompt = generator.tokenizer.encode("Once upon a time")
    rows = generator.logits([*prompt, *text.tokens])
    assert rows.shape == (len(prompt) + 25, 4096)
    sampler = onedraw.Sampler(generator.params(seed=8, temperature=1.3, logprobs=0))
    assert [sampler.sample(rows[len(prompt) - 1 + i]) for i in range(25)] == text.sampled


def test_prompt_logprobs(generator: onedraw.Generator) -> None:
    text = generator.generate("Once upon a time", temperature=0, max_tokens=1, prompt_logprobs=0)
    reports = text.prompt_logprobs
    assert reports is not None
    assert reports[0] is None
    assert [report.rank for report in reports[1:]] == [1] * (len(reports) - 1), "the model knows how stories begin"


def test_what_cannot_be_asked(generator: onedraw.Generator, tmp_path: Path) -> None:
    with pytest.raises(onedraw.ModelError, match="config.json"):
        onedraw.Generator(tmp_path)
    with pytest.raises(onedraw.ModelError, match="more than the model's context of 512"):
        generator.generate([5] * 600)
    with pytest.raises(onedraw.ModelError, match="token 5000 of the prompt is outside the vocabulary of 4096"):
        generator.logits([5000])
    with pytest.raises(onedraw.ModelError):
        onedraw.Generator(draft=9)
    with pytest.raises(onedraw.ParamError, match="params: are 1 for 2 prompts; give one for all, or one a prompt"):
        generator.generate(["a", "b"], [onedraw.SamplingParams()])
    with pytest.raises(TypeError, match="grammar is a Grammar or a Matcher, not an object of the type str"):
        generator.generate("a", grammar="yes")  # type: ignore[call-overload]
    for prompt in (b"Once", None):
        with pytest.raises(TypeError, match="tokens are ids, not an object of the type"):
            generator.generate(prompt)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="a token is an id, not an object of the type str"):
        generator.stream(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(onedraw.ParamError, match="draft: must be"):
        onedraw.Generator(draft=True)
    with pytest.raises(onedraw.GrammarError, match="4294967301 tokens are more than 1048576"):
        generator.tokenizer.vocabulary([0], size=2**32 + 5)
    with pytest.raises(onedraw.ModelError, match="the prompt is empty"):
        generator.generate([])


def test_tokens_of_the_model(generator: onedraw.Generator, root: Path) -> None:
    tokenizer = generator.tokenizer
    tokens = tokenizer.encode("Once upon a time 🦀")
    assert tokenizer.text(np.array(tokens)) == "Once upon a time 🦀"
    assert b"".join(tokenizer.bytes(token) for token in tokens) == "Once upon a time 🦀".encode()
    assert (tokenizer.is_special(0), tokenizer.bytes(0), len(tokenizer)) == (True, b"", 4096)
    again = onedraw.Tokenizer.from_json((root / "models/stories/tokenizer.json").read_text())
    assert again.encode("The cat", special=False) == onedraw.Tokenizer.open(root / "models/stories").encode("The cat", special=False)
    assert tokenizer.id(tokenizer.piece(0)) == 0
    assert len(again.vocabulary([0], size=5000)) == 5000
