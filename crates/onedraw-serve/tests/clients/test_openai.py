"""OpenAI's client for Python, and the texts of `onedraw generate`."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import openai
import pytest
from conftest import MODEL, Server
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

PROMPT = "Once upon a time"

Generate = Callable[..., list[dict[str, Any]]]


class Pet(BaseModel):
    """Its fields are not in the order of the alphabet."""

    kind: Literal["cat", "dog", "bird"]
    happy: bool
    colour: Literal["red", "blue"]


def connect(server: Server, key: str = "none") -> OpenAI:
    """A client that does not try again."""
    return OpenAI(base_url=server.base_url, api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def client(server: Server) -> OpenAI:
    return connect(server)


def user(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


def finish(reason: str) -> str:
    """OpenAI's word for how a text of the program has ended."""
    return "stop" if reason == "eos" else reason


# Completions


@pytest.mark.parametrize("seed", [7, 2**53 - 1, 2**64 - 1])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 1.2, "top_p": 0.95, "n": 3},
        {"temperature": 0},
        {"stop": [".", "\n"]},
        {"stop": " was"},
        {"frequency_penalty": 0.5, "presence_penalty": 0.3},
        {"logit_bias": {"372": 3.5, "438": -100}},
    ],
    ids=str,
)
def test_a_completion_is_the_text_of_generate(
    client: OpenAI, generate: Generate, params: dict[str, Any], seed: int
) -> None:
    params = {**params, "seed": seed, "max_tokens": 24}
    answer = client.completions.create(model=MODEL, prompt=PROMPT, **params, extra_body={"return_token_ids": True})
    written = generate(PROMPT, **params)
    assert [choice.text for choice in answer.choices] == [text["text"] for text in written]
    assert [choice.token_ids for choice in answer.choices] == [text["tokens"] for text in written]
    assert [choice.finish_reason for choice in answer.choices] == [finish(text["finish_reason"]) for text in written]
    assert [choice.index for choice in answer.choices] == list(range(len(written)))
    assert answer.seed == seed
    assert answer.usage.completion_tokens == sum(len(text["tokens"]) for text in written)


@pytest.mark.parametrize(
    "extra",
    [
        {"min_p": 0.1, "top_k": 0},
        {"xtc_probability": 0.5, "xtc_threshold": 0.05, "temperature": 1.5},
        {"banned_strings": ["Lily", "girl"]},
        {"dry_multiplier": 0.8, "repetition_penalty": 1.1},
        {"mirostat": 2, "mirostat_tau": 3.0},
    ],
    ids=str,
)
def test_parameters_that_openai_does_not_have_are_extra_fields(
    client: OpenAI, generate: Generate, extra: dict[str, Any]
) -> None:
    answer = client.completions.create(model=MODEL, prompt=PROMPT, seed=11, max_tokens=40, extra_body=extra)
    [written] = generate(PROMPT, seed=11, max_tokens=40, **extra)
    assert answer.choices[0].text == written["text"]


@pytest.mark.parametrize("preset", ["creative", "precise", "balanced", "deterministic"])
def test_a_preset_is_an_extra_field(client: OpenAI, generate: Generate, preset: str) -> None:
    answer = client.completions.create(
        model=MODEL, prompt=PROMPT, seed=5, max_tokens=40, top_p=0.8, extra_body={"preset": preset}
    )
    [written] = generate(PROMPT, "--preset", preset, seed=5, max_tokens=40, top_p=0.8)
    assert answer.choices[0].text == written["text"]


def test_a_completion_has_16_tokens_unless_the_request_says(client: OpenAI, generate: Generate) -> None:
    answer = client.completions.create(model=MODEL, prompt=PROMPT, seed=7)
    [written] = generate(PROMPT, seed=7, max_tokens=16)
    assert answer.choices[0].text == written["text"]
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (5, 16, 21)
    assert (answer.object, answer.model) == ("text_completion", MODEL)


def test_a_seed_that_the_server_chose_writes_the_text_again(client: OpenAI) -> None:
    texts = [client.completions.create(model=MODEL, prompt=PROMPT, temperature=1.5, n=2) for _ in range(2)]
    assert texts[0].seed != texts[1].seed
    for text in texts:
        assert 0 <= text.seed < 2**53
        again = client.completions.create(model=MODEL, prompt=PROMPT, temperature=1.5, n=2, seed=text.seed)
        assert again.choices == text.choices


def test_several_prompts_are_answered_in_their_order(client: OpenAI, generate: Generate) -> None:
    prompts = [PROMPT, "The cat", "One day, a bird"]
    answer = client.completions.create(model=MODEL, prompt=prompts, n=2, seed=3)
    written = [text for prompt in prompts for text in generate(prompt, n=2, seed=3, max_tokens=16)]
    assert [(choice.index, choice.text) for choice in answer.choices] == [
        (index, text["text"]) for index, text in enumerate(written)
    ]


def test_prompts_may_be_tokens(client: OpenAI, server: Server) -> None:
    texts = [PROMPT, "The cat sat"]
    tokens = [server.post("/tokenize", {"prompt": text})["tokens"] for text in texts]
    alone = [client.completions.create(model=MODEL, prompt=text, seed=9).choices[0].text for text in texts]
    one = client.completions.create(model=MODEL, prompt=tokens[0], seed=9)
    both = client.completions.create(model=MODEL, prompt=tokens, seed=9)
    assert one.choices[0].text == alone[0]
    assert [choice.text for choice in both.choices] == alone
    assert both.usage.prompt_tokens == sum(map(len, tokens))


def test_echo_with_logprobs_has_those_of_the_prompt(client: OpenAI, generate: Generate) -> None:
    answer = client.completions.create(model=MODEL, prompt=PROMPT, echo=True, logprobs=2, seed=7, max_tokens=5)
    [written] = generate(PROMPT, seed=7, max_tokens=5, logprobs=2)
    [choice] = answer.choices
    assert choice.text == PROMPT + written["text"]
    found = choice.logprobs
    # A prompt begins with a token that says so and is no text.
    assert found.tokens[0] == "<|endoftext|>"
    assert "".join(found.tokens[1:]) == choice.text
    assert found.text_offset == [0] + [len("".join(found.tokens[1:place])) for place in range(1, len(found.tokens))]
    assert (found.token_logprobs[0], found.top_logprobs[0]) == (None, None)
    assert found.token_logprobs[5:] == [token["logprob"] for token in written["logprobs"]]
    for token, logprob, best in zip(found.tokens[1:], found.token_logprobs[1:], found.top_logprobs[1:], strict=True):
        # The token itself is listed also where it is none of the best.
        assert best[token] == logprob
        assert len(best) in (2, 3)


def test_a_prompt_can_be_scored_without_a_text(client: OpenAI) -> None:
    scored = client.completions.create(model=MODEL, prompt=PROMPT, echo=True, logprobs=1, max_tokens=0)
    longer = client.completions.create(model=MODEL, prompt=PROMPT, echo=True, logprobs=1, max_tokens=3)
    assert scored.choices[0].text == PROMPT
    assert scored.usage.completion_tokens == 0
    assert scored.choices[0].logprobs.token_logprobs == longer.choices[0].logprobs.token_logprobs[:5]


def test_a_stop_string_ends_the_text_and_is_named(client: OpenAI) -> None:
    request = {"model": MODEL, "prompt": PROMPT, "seed": 7, "max_tokens": 60, "stop": ["!", ". "]}
    [choice] = client.completions.create(**request).choices
    [included] = client.completions.create(**request, extra_body={"include_stop_str_in_output": True}).choices
    assert (choice.finish_reason, choice.stop_reason) == ("stop", ". ")
    assert not any(stop in choice.text for stop in request["stop"])
    assert included.text == choice.text + ". "


def test_a_streamed_completion_is_the_same_in_parts(client: OpenAI) -> None:
    request = {"model": MODEL, "prompt": [PROMPT, "The cat"], "n": 2, "seed": 7, "logprobs": 1, "max_tokens": 12}
    whole = client.completions.create(**request)
    texts, tokens, offsets, ends = [""] * 4, [[] for _ in range(4)], [[] for _ in range(4)], [None] * 4
    *parts, last = client.completions.create(**request, stream=True, stream_options={"include_usage": True})
    for part in parts:
        assert (part.id, part.usage) == (last.id, None)
        [choice] = part.choices
        assert ends[choice.index] is None
        texts[choice.index] += choice.text
        tokens[choice.index] += zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, strict=True)
        offsets[choice.index] += choice.logprobs.text_offset
        ends[choice.index] = choice.finish_reason
    assert last.choices == []
    assert last.usage == whole.usage
    for choice in whole.choices:
        found = choice.logprobs
        assert texts[choice.index] == choice.text
        assert tokens[choice.index] == list(zip(found.tokens, found.token_logprobs, strict=True))
        assert offsets[choice.index] == found.text_offset
        assert ends[choice.index] == choice.finish_reason


# What a text must match


def test_structured_outputs_are_an_extra_field(client: OpenAI, generate: Generate) -> None:
    def text(**form: Any) -> str:
        extra = {"structured_outputs": form}
        answer = client.completions.create(model=MODEL, prompt="My number is ", seed=2, max_tokens=40, extra_body=extra)
        assert answer.choices[0].finish_reason == "stop"
        return answer.choices[0].text

    expression = "[0-9]{3}-[0-9]{4}"
    number = text(regex=expression)
    assert re.fullmatch(expression, number)
    assert number == generate("My number is ", "--regex", expression, seed=2, max_tokens=40)[0]["text"]
    assert text(choice=["cat", "dog"]) in ("cat", "dog")
    assert text(grammar='start: "<" /[a-c]{2}/ ">"') in {f"<{a}{b}>" for a in "abc" for b in "abc"}
    assert json.loads(text(json={"type": "integer", "minimum": 3, "maximum": 5})) in (3, 4, 5)


def test_a_schema_becomes_an_object_of_its_class(client: OpenAI) -> None:
    request = {"model": MODEL, "messages": user("A pet:"), "seed": 7, "response_format": Pet}
    answer = client.chat.completions.parse(**request)
    [choice] = answer.choices
    assert choice.message.parsed == Pet.model_validate_json(choice.message.content)
    assert choice.finish_reason == "stop"
    older = client.beta.chat.completions.parse(**request)
    assert older.choices[0].message.parsed == choice.message.parsed
    with client.chat.completions.stream(**request) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "content.delta")
        streamed = stream.get_final_completion()
    assert deltas == choice.message.content
    assert streamed.choices[0].message.parsed == choice.message.parsed


def test_an_object_has_its_fields_in_the_order_of_the_schema(client: OpenAI) -> None:
    # A model that must reason before it answers depends on that.
    answer = client.chat.completions.parse(model=MODEL, messages=user("A pet:"), seed=7, response_format=Pet)
    written = json.loads(answer.choices[0].message.content)
    assert list(written) == list(Pet.model_fields)
    response = client.responses.parse(model=MODEL, input="A pet:", text_format=Pet, extra_body={"seed": 7})
    assert list(json.loads(response.output_text)) == list(Pet.model_fields)


def test_a_schema_has_the_text_of_generate(client: OpenAI, generate: Generate, tmp_path: Any) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(Pet.model_json_schema()))
    form: Any = {"type": "json_schema", "json_schema": {"name": "pet", "schema": Pet.model_json_schema()}}
    for seed in range(4):
        [written] = generate("A pet:", "--json-schema", str(schema), seed=seed, max_tokens=60)
        answer = client.completions.create(
            model=MODEL, prompt="A pet:", seed=seed, max_tokens=60, extra_body={"response_format": form}
        )
        assert answer.choices[0].text == written["text"]


def test_a_text_that_ends_within_its_schema_is_told_by_the_client(client: OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError) as told:
        client.chat.completions.parse(
            model=MODEL, messages=user("A pet:"), seed=7, max_completion_tokens=3, response_format=Pet
        )
    assert told.value.completion.usage.completion_tokens == 3


def test_json_object_is_an_object(client: OpenAI, server: Server, generate: Generate, tmp_path: Any) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object"}')
    request: Any = {"model": MODEL, "messages": user("A pet:"), "response_format": {"type": "json_object"}}
    answer = client.chat.completions.create(**request, seed=7, max_tokens=60)
    [written] = generate("A pet:", "--chat", "--json-schema", str(schema), seed=7, max_tokens=60)
    assert answer.choices[0].message.content == written["text"]
    assert answer.choices[0].message.content.startswith("{")
    # The small model ends an object late unless it is pushed.
    brace = server.post("/tokenize", {"prompt": "}", "add_special_tokens": False})["tokens"]
    answer = client.chat.completions.create(**request, logit_bias={str(brace[-1]): 100})
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("{}", "stop")


# Chats


def test_a_chat_is_a_completion_after_the_template(client: OpenAI, generate: Generate) -> None:
    params = {"seed": 7, "max_tokens": 30, "n": 2}
    chat = client.chat.completions.create(model=MODEL, messages=user(PROMPT), **params)
    completion = client.completions.create(model=MODEL, prompt=PROMPT, **params)
    written = generate(PROMPT, "--chat", **params)
    assert [choice.message.content for choice in chat.choices] == [choice.text for choice in completion.choices]
    assert [choice.message.content for choice in chat.choices] == [text["text"] for text in written]
    assert [choice.message.role for choice in chat.choices] == ["assistant", "assistant"]
    assert chat.usage == completion.usage


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_chat_may_have_a_system_message_and_parts(client: OpenAI, generate: Generate, role: str) -> None:
    parts = [{"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"}]
    messages: list[Any] = [{"role": role, "content": "A story."}, {"role": "user", "content": parts}]
    chat = client.chat.completions.create(model=MODEL, messages=messages, seed=4, max_completion_tokens=30)
    [written] = generate(PROMPT, "--chat", "--system", "A story.", seed=4, max_tokens=30)
    assert chat.choices[0].message.content == written["text"]


def test_a_chat_goes_on_with_the_message_of_an_answer(client: OpenAI) -> None:
    request: Any = {"model": MODEL, "seed": 4, "max_tokens": 20}
    first = client.chat.completions.create(**request, messages=user(PROMPT)).choices[0].message
    written = {"role": "assistant", "content": first.content}
    second = client.chat.completions.create(**request, messages=[*user(PROMPT), first, *user(" And then")])
    again = client.chat.completions.create(**request, messages=[*user(PROMPT), written, *user(" And then")])
    assert second.choices == again.choices
    assert second.usage.prompt_tokens > 25


def test_a_chat_is_as_long_as_it_becomes_unless_the_request_says(client: OpenAI, generate: Generate) -> None:
    chat = client.chat.completions.create(model=MODEL, messages=user(PROMPT), seed=3)
    [written] = generate(PROMPT, seed=3, max_tokens=500)
    assert chat.choices[0].message.content == written["text"]
    assert chat.choices[0].finish_reason == finish(written["finish_reason"])


def test_a_streamed_chat_is_the_same_in_parts(client: OpenAI) -> None:
    request = {"model": MODEL, "messages": user(PROMPT), "n": 2, "seed": 7, "max_tokens": 20}
    request |= {"logprobs": True, "top_logprobs": 1, "stop": ["."]}
    whole = client.chat.completions.create(**request)
    texts, entries, roles, ends = ["", ""], [[], []], [[], []], [None, None]
    *parts, last = client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True})
    for part in parts:
        assert (part.id, part.object, part.usage) == (last.id, "chat.completion.chunk", None)
        [choice] = part.choices
        assert ends[choice.index] is None
        texts[choice.index] += choice.delta.content
        roles[choice.index].append(choice.delta.role)
        entries[choice.index] += choice.logprobs.content
        ends[choice.index] = choice.finish_reason
    assert last.choices == []
    assert last.usage == whole.usage
    for choice in whole.choices:
        assert texts[choice.index] == choice.message.content
        assert roles[choice.index] == ["assistant"] + [None] * (len(roles[choice.index]) - 1)
        assert [entry.model_dump() for entry in entries[choice.index]] == [
            entry.model_dump() for entry in choice.logprobs.content
        ]
        assert ends[choice.index] == choice.finish_reason
    # Without the option there is no such part.
    *_, last = client.chat.completions.create(**request, stream=True)
    assert (len(last.choices), last.usage) == (1, None)


def test_a_chat_has_logprobs_with_bytes(client: OpenAI, generate: Generate) -> None:
    chat = client.chat.completions.create(
        model=MODEL, messages=user(PROMPT), seed=7, max_tokens=20, temperature=1.5, logprobs=True, top_logprobs=3
    )
    [written] = generate(PROMPT, seed=7, max_tokens=20, temperature=1.5, logprobs=3)
    entries = chat.choices[0].logprobs.content
    assert [entry.logprob for entry in entries] == [token["logprob"] for token in written["logprobs"]]
    assert b"".join(bytes(entry.bytes) for entry in entries).decode() == chat.choices[0].message.content
    for entry, token in zip(entries, written["logprobs"], strict=True):
        assert bytes(entry.bytes).decode() == entry.token
        best = {other["rank"]: other["logprob"] for other in token["logprobs"]}
        assert [other.logprob for other in entry.top_logprobs] == [best[rank] for rank in (1, 2, 3)]
    without = client.chat.completions.create(model=MODEL, messages=user(PROMPT), seed=7, max_tokens=2, logprobs=True)
    assert [entry.top_logprobs for entry in without.choices[0].logprobs.content] == [[], []]


def test_tokens_that_are_parts_of_characters_have_their_bytes(client: OpenAI) -> None:
    chosen = "naïve 🙂"
    chat = client.chat.completions.create(
        model=MODEL, messages=user(PROMPT), logprobs=True, extra_body={"structured_outputs": {"choice": [chosen]}}
    )
    entries = chat.choices[0].logprobs.content
    assert chat.choices[0].message.content == chosen
    written = b"".join(bytes(entry.bytes) for entry in entries if entry.bytes is not None)
    assert written.decode() == chosen
    assert [entry.token for entry in entries if entry.bytes == [0xF0]] in ([], [r"bytes:\xf0"])
    assert any(entry.token.startswith("bytes:") for entry in entries)


# Responses


def test_a_response_is_the_text_of_a_chat(client: OpenAI) -> None:
    extra = {"seed": 7}
    response = client.responses.create(
        model=MODEL, instructions="A story.", input=PROMPT, max_output_tokens=20, extra_body=extra
    )
    messages: list[Any] = [{"role": "system", "content": "A story."}, *user(PROMPT)]
    chat = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=20, seed=7)
    assert response.output_text == chat.choices[0].message.content
    assert (response.status, response.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert (response.instructions, response.max_output_tokens, response.seed) == ("A story.", 20, 7)
    assert response.usage.input_tokens == chat.usage.prompt_tokens
    assert (response.usage.output_tokens, response.usage.total_tokens) == (20, chat.usage.total_tokens)
    items = client.responses.create(model=MODEL, input=messages, max_output_tokens=20, extra_body=extra)
    assert items.output_text == response.output_text
    [answer] = response.output
    more = client.responses.create(model=MODEL, input=[*messages, answer, *user(" And then")], extra_body=extra)
    assert more.status == "completed"
    assert more.usage.input_tokens > response.usage.input_tokens + 20


def test_a_streamed_response_is_the_same_in_events(client: OpenAI) -> None:
    request = {"model": MODEL, "input": PROMPT, "extra_body": {"seed": 7, "stop": ["."]}, "top_logprobs": 2}
    request["include"] = ["message.output_text.logprobs"]
    whole = client.responses.create(**request)
    events = list(client.responses.create(**request, stream=True))
    deltas = [event for event in events if event.type == "response.output_text.delta"]
    before = ["created", "in_progress", "output_item.added", "content_part.added"]
    after = ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert [event.type.removeprefix("response.") for event in events] == [
        *before,
        *["output_text.delta"] * len(deltas),
        *after,
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in deltas) == whole.output_text
    assert whole.status == events[-1].response.status == "completed"
    [item] = events[-1].response.output
    assert item.content == whole.output[0].content
    assert events[-1].response.usage == whole.usage
    entries = [entry for event in deltas for entry in event.logprobs]
    found = whole.output[0].content[0].logprobs
    assert [(entry.token, entry.logprob) for entry in entries] == [(entry.token, entry.logprob) for entry in found]
    assert [len(entry.top_logprobs) for entry in found] == [2] * len(found)


def test_a_response_becomes_an_object_of_a_class(client: OpenAI) -> None:
    request = {"model": MODEL, "input": "A pet:", "text_format": Pet, "extra_body": {"seed": 7}}
    response = client.responses.parse(**request)
    assert response.output_parsed == Pet.model_validate_json(response.output_text)
    chat = client.chat.completions.parse(model=MODEL, messages=user("A pet:"), seed=7, response_format=Pet)
    assert chat.choices[0].message.parsed == response.output_parsed
    with client.responses.stream(**request) as stream:
        stream.until_done()
        assert stream.get_final_response().output_parsed == response.output_parsed


# Models, names and fingerprints


def test_the_model_is_listed_and_found(client: OpenAI) -> None:
    [model] = client.models.list().data
    assert (model.id, model.object, model.owned_by) == (MODEL, "model", "onedraw")
    assert client.models.retrieve(MODEL) == model


def test_answers_have_a_request_id_and_the_fingerprint_of_the_model(client: OpenAI) -> None:
    fingerprint = client.models.retrieve(MODEL).system_fingerprint
    assert re.fullmatch(r"stream-\d+-[0-9a-f]{16}", fingerprint)
    answers = [
        client.completions.create(model=MODEL, prompt=PROMPT),
        client.chat.completions.create(model=MODEL, messages=user(PROMPT), max_tokens=3),
        client.responses.create(model=MODEL, input=PROMPT, max_output_tokens=3),
    ]
    assert [answer.system_fingerprint for answer in answers] == [fingerprint] * 3
    names = [answer._request_id for answer in answers]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"req-[0-9a-f]{16}", name) for name in names)
    assert len({answer.id for answer in answers}) == 3
    raw = client.completions.with_raw_response.create(model=MODEL, prompt=PROMPT)
    assert raw.parse()._request_id == raw.headers["x-request-id"]


# Errors


TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"extra_body": {"temperatur": 1}}, "temperatur"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"n": 1000}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"seed": 2**64}, "seed"),
        ({"logprobs": 1000}, "logprobs"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"suffix": " the end."}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"extra_body": {"preset": "wild"}}, "preset"),
        ({"extra_body": {"structured_outputs": {"regex": "("}}}, "structured_outputs"),
        ({"prompt": [1, 2, 10**6]}, "prompt"),
        ({"prompt": "word " * 600}, "prompt"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_completion_that_cannot_be_written_names_the_field(
    client: OpenAI, params: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(**{"model": MODEL, "prompt": PROMPT, **params})
    error = refused.value
    assert (error.status_code, error.type, error.param) == (400, "invalid_request_error", param)
    assert error.body["message"].startswith(param)
    assert re.fullmatch(r"req-[0-9a-f]{16}", error.request_id)
    assert error.code == ("context_length_exceeded" if params.get("prompt") == "word " * 600 else None)


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"tools": [TOOL]}, "tools"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "4", "tool_call_id": "1"}]}, "messages[0].role"),
        ({"messages": user([{"type": "image_url", "image_url": {"url": "data:,"}}])}, "messages[0].content[0]"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 1000}, "top_logprobs"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "pet"}}}, "response_format"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_chat_that_cannot_be_written_names_the_field(client: OpenAI, params: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{"model": MODEL, "messages": user(PROMPT), **params})
    assert refused.value.param.startswith(param)


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"previous_response_id": "resp-1"}, "previous_response_id"),
        ({"max_output_tokens": -1}, "max_output_tokens"),
        ({"text": {"format": {"type": "json_schema", "name": "pet", "schema": {"type": "pet"}}}}, "text.format"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_response_that_cannot_be_written_names_the_field(client: OpenAI, params: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": MODEL, "input": PROMPT, **params})
    assert refused.value.param.startswith(param)


def test_another_model_is_not_found(client: OpenAI) -> None:
    for ask in (
        lambda: client.completions.create(model="gpt-9", prompt=PROMPT),
        lambda: client.chat.completions.create(model="gpt-9", messages=user(PROMPT)),
        lambda: client.responses.create(model="gpt-9", input=PROMPT),
        lambda: client.models.retrieve("gpt-9"),
    ):
        with pytest.raises(openai.NotFoundError) as refused:
            ask()
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.NotFoundError) as refused:
        client.embeddings.create(model=MODEL, input=PROMPT)
    assert refused.value.code == "unknown_url"


def test_keys(start: Callable[..., Server]) -> None:
    server = start("--api-key", "first", "--api-key", "second")
    for key in ("first", "second"):
        assert connect(server, key).models.retrieve(MODEL).id == MODEL
    for ask in (
        lambda client: client.models.list(),
        lambda client: client.completions.create(model=MODEL, prompt=PROMPT),
    ):
        with pytest.raises(openai.AuthenticationError) as refused:
            ask(connect(server, "third"))
        assert (refused.value.status_code, refused.value.code) == (401, "invalid_api_key")


def test_a_full_queue_limits_the_rate(start: Callable[..., Server]) -> None:
    server = start("--max-running", "1", "--max-waiting", "1")
    request: Any = {"model": MODEL, "prompt": PROMPT, "seed": 7, "max_tokens": 400, "extra_body": {"ignore_eos": True}}
    text = connect(server).completions.create(**request).choices[0].text
    together = threading.Barrier(8)

    def ask(_: int) -> str | openai.RateLimitError:
        client = connect(server)
        together.wait()
        try:
            return client.completions.create(**request).choices[0].text
        except openai.RateLimitError as error:
            return error

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(8)))
    refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
    written = [answer for answer in answers if isinstance(answer, str)]
    # One is written while another one waits; the eight come within the time of one text.
    assert len(refused) >= 1
    assert written == [text] * (8 - len(refused))
    assert len(written) >= 2
    for error in refused:
        assert (error.status_code, error.code, error.type) == (429, "queue_full", "rate_limit_error")
        assert int(error.response.headers["retry-after"]) >= 1
    # A client that tries again, as it does unless told otherwise, gets its text.
    patient = OpenAI(base_url=server.base_url, api_key="none", max_retries=20)
    with ThreadPoolExecutor(4) as threads:
        written = list(threads.map(lambda _: patient.completions.create(**request).choices[0].text, range(4)))
    assert written == [text] * 4


def test_a_request_that_takes_too_long_is_told_so(start: Callable[..., Server]) -> None:
    client = connect(start("--timeout", "1"))
    request: Any = {"model": MODEL, "prompt": PROMPT, "n": 64, "max_tokens": 500, "extra_body": {"ignore_eos": True}}
    with pytest.raises(openai.InternalServerError) as late:
        client.completions.create(**request)
    assert (late.value.status_code, late.value.code) == (504, "timeout")
    parts = []
    with pytest.raises(openai.APIError, match="took longer than 1 seconds") as late_stream:
        for part in client.completions.create(**request, stream=True):
            parts.append(part)
    assert len(parts) > 64
    assert late_stream.value.code == "timeout"


# Many at once


def requests(count: int) -> list[dict[str, Any]]:
    """Requests of many kinds."""
    random_ = random.Random(27)
    beginnings = [PROMPT, "The cat", "One day, a little bird", "Tom and Lily went to the park.", "It was dark"]
    kinds: list[Callable[[], dict[str, Any]]] = [
        lambda: {"temperature": random_.choice([0.5, 1.0, 1.5])},
        lambda: {"n": 3, "logprobs": 2},
        lambda: {"stop": [".", "!"]},
        lambda: {"extra_body": {"min_p": 0.05, "xtc_probability": 0.5}},
        lambda: {"extra_body": {"structured_outputs": {"regex": "[a-z ]{5,60}[.]"}}},
        lambda: {"frequency_penalty": 0.7, "presence_penalty": 0.2},
    ]
    return [
        {
            "model": MODEL,
            "prompt": random_.choice(beginnings),
            "seed": random_.randrange(2**64),
            "max_tokens": random_.randrange(1, 120),
            **kinds[number % len(kinds)](),
        }
        for number in range(count)
    ]


def test_32_requests_at_once_have_the_texts_that_each_has_alone(client: OpenAI, server: Server) -> None:
    asked = requests(32)

    async def at_once() -> list[Any]:
        async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:

            async def ask(number: int, request: dict[str, Any]) -> Any:
                if number % 2 == 0:
                    return (await client.completions.create(**request)).choices
                texts = [""] * request.get("n", 1)
                async for part in await client.completions.create(**request, stream=True):
                    texts[part.choices[0].index] += part.choices[0].text
                return texts

            return await asyncio.gather(*(ask(*numbered) for numbered in enumerate(asked)))

    found = asyncio.run(at_once())
    for number, (request, answer) in enumerate(zip(asked, found, strict=True)):
        alone = client.completions.create(**request).choices
        assert answer == (alone if number % 2 == 0 else [choice.text for choice in alone]), request


def test_a_client_that_leaves_frees_its_places(client: OpenAI, server: Server) -> None:
    before = server.metric("onedraw_cancelled_texts_total")
    request: Any = {"model": MODEL, "prompt": PROMPT, "n": 8, "max_tokens": 500, "seed": 1, "stream": True}
    with client.completions.create(**request, extra_body={"ignore_eos": True}) as stream:
        for part in stream:
            assert part.choices[0].finish_reason is None
            break
    server.wait_for("onedraw_running", 0)
    assert server.metric("onedraw_cancelled_texts_total") == before + 8


def test_a_server_that_is_told_to_end_ends_its_texts(start: Callable[..., Server]) -> None:
    server = start()
    request: Any = {"model": MODEL, "prompt": PROMPT, "seed": 7, "max_tokens": 400, "extra_body": {"ignore_eos": True}}
    alone = connect(server).completions.create(**request).choices[0]
    stream = connect(server).completions.create(**request, stream=True)
    first = next(stream)
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(server.end)
        parts = [first, *stream]
        assert ended.result() == 0
    assert "".join(part.choices[0].text for part in parts) == alone.text
    assert parts[-1].choices[0].finish_reason == alone.finish_reason == "length"
    with pytest.raises(openai.APIConnectionError):
        connect(server).models.list()
