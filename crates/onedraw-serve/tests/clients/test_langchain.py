"""LangChain's models over OpenAI's interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import openai
import pytest
from conftest import MODEL, Server
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel

PROMPT = "Once upon a time"

Generate = Callable[..., list[dict[str, Any]]]


class Pet(BaseModel):
    """A pet."""

    kind: Literal["cat", "dog", "bird"]
    happy: bool


def chat(server: Server, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, base_url=server.base_url, api_key="none", max_retries=0, **settings)


def test_a_chat_has_the_text_of_generate(server: Server, generate: Generate) -> None:
    [written] = generate(PROMPT, "--chat", seed=7, max_tokens=30)
    message = chat(server, seed=7, max_tokens=30).invoke(PROMPT)
    assert message.content == written["text"]
    assert message.response_metadata["finish_reason"] == "length"
    assert message.response_metadata["model_name"] == MODEL
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (5, 30)


def test_a_chat_has_roles(server: Server, generate: Generate) -> None:
    message = chat(server, seed=4, max_tokens=20).invoke([("system", "A story."), ("human", PROMPT)])
    [written] = generate(PROMPT, "--chat", "--system", "A story.", seed=4, max_tokens=20)
    assert message.content == written["text"]


def test_a_streamed_chat_is_the_same_in_parts(server: Server) -> None:
    model = chat(server, seed=7, max_tokens=30, stream_usage=True)
    whole = model.invoke(PROMPT)
    parts = list(model.stream(PROMPT))
    assert "".join(str(part.content) for part in parts) == whole.content
    assert sum(part.content != "" for part in parts) > 20
    joined = parts[0]
    for part in parts[1:]:
        joined += part
    assert joined.response_metadata["finish_reason"] == "length"
    assert joined.usage_metadata == whole.usage_metadata


def test_logprobs(server: Server, generate: Generate) -> None:
    message = chat(server, seed=7, max_tokens=10, logprobs=True, top_logprobs=2).invoke(PROMPT)
    [written] = generate(PROMPT, seed=7, max_tokens=10, logprobs=2)
    entries = message.response_metadata["logprobs"]["content"]
    assert [entry["logprob"] for entry in entries] == [token["logprob"] for token in written["logprobs"]]
    assert [len(entry["top_logprobs"]) for entry in entries] == [2] * 10


def test_structured_output_is_an_object_of_a_class(server: Server) -> None:
    answer = chat(server, seed=7).with_structured_output(Pet, method="json_schema", include_raw=True).invoke("A pet:")
    assert isinstance(answer, dict)
    assert answer["parsing_error"] is None
    assert answer["parsed"] == Pet.model_validate_json(answer["raw"].content)
    schema = {**Pet.model_json_schema(), "additionalProperties": False}
    plain = chat(server, seed=7).with_structured_output(schema, method="json_schema").invoke("A pet:")
    assert plain == answer["parsed"].model_dump()


def test_structured_output_by_a_tool_is_refused(server: Server) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(server, seed=7).with_structured_output(Pet, method="function_calling").invoke("A pet:")
    assert refused.value.param == "tools"


def test_a_chat_over_responses(server: Server) -> None:
    model = chat(server, max_tokens=20, use_responses_api=True, extra_body={"seed": 7})
    [part] = model.invoke(PROMPT).content
    assert isinstance(part, dict)
    assert part["text"] == chat(server, seed=7, max_tokens=20).invoke(PROMPT).content


@pytest.mark.parametrize("seed", [0, 7, 2**53 - 1])
def test_a_completion_has_the_text_of_generate(server: Server, generate: Generate, seed: int) -> None:
    settings: Any = {"temperature": 0.9, "top_p": 0.95, "max_tokens": 30, "seed": seed}
    model = OpenAI(model=MODEL, base_url=server.base_url, api_key="none", max_retries=0, **settings)
    [written] = generate(PROMPT, **settings)
    assert model.invoke(PROMPT) == written["text"]
    assert "".join(model.stream(PROMPT)) == written["text"]
    prompts = [PROMPT, "The cat", "One day"]
    texts = [generation.text for [generation] in model.generate(prompts).generations]
    assert texts == [generate(prompt, **settings)[0]["text"] for prompt in prompts]
    assert model.invoke(PROMPT, stop=["."]) == written["text"].split(".")[0]
