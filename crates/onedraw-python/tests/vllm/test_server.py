"""vLLM's OpenAI server with many clients: texts stay the same, bad requests are refused, nothing hangs or grows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engines import end, environment
from kinds import PROMPTS, requests

pytestmark = [pytest.mark.vllm, pytest.mark.long]

MODEL = str(Path(__file__).parents[4] / "models/stories")
REQUESTS = 1000
AT_ONCE = 24
# Of all of the server's processes, once it has seen every kind of request: twice the 30 MB, of 4 GB, that were measured
# with vLLM 0.32 on two cores.
GROWTH = 60_000_000


@contextlib.contextmanager
def serving(*options: str, threads: str = "auto") -> Iterator[tuple[str, int]]:
    """The address of a server, and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--served-model-name", "stories", "--dtype", "float32"]
    command += ["--enforce-eager", "--max-model-len", "256", "--block-size", "32", "--max-num-seqs", "32", "--port", str(port)]
    # Not the model's own settings, which mirostat would refuse.
    command += ["--generation-config", "vllm", "--additional-config", json.dumps({"onedraw": {"sampler": True}}), *options]
    program = subprocess.Popen(command, env=environment(processes=True) | {"VLLM_CPU_OMP_THREADS_BIND": threads}, text=True, start_new_session=True)
    try:
        for _ in range(300):
            time.sleep(1)
            assert program.poll() is None, "the server ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            except OSError:
                continue
        yield f"http://127.0.0.1:{port}", program.pid
    finally:
        end(program)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    with serving() as started:
        yield started


BAD: tuple[dict[str, Any], ...] = (
    {"temperature": -1},
    {"top_p": 1.5},
    {"max_tokens": 100_000},
    {"logprobs": 10_000},
    {"seed": 2**64},
    {"logit_bias": {"9999999": 1}},
    {"extra_body": {"top_k": -5}},
    {"extra_body": {"vllm_xargs": {"onedraw": "{"}}},
    *({"extra_body": {"vllm_xargs": {"onedraw": json.dumps(ours)}}} for ours in ({"typical_p": 7}, {"no_such": 1}, {"mirostat": 9}, {"top_p": 0.5}, {"xtc_protected_token_ids": [9_000_000]})),
)


def asked(generator: random.Random) -> dict[str, Any]:
    """A request of any kind that can be carried out."""
    body: dict[str, Any] = {"max_tokens": generator.randint(1, 24), "temperature": generator.choice([0, 0.5, 1.0, 1.5])}
    extra: dict[str, Any] = {}
    for name, value in {"top_p": 0.9, "presence_penalty": 0.5, "frequency_penalty": 0.3, "seed": generator.getrandbits(40), "logprobs": 3, "stop": ["."]}.items():
        if generator.random() < 0.3:
            body[name] = value
    for name, value in {"top_k": 20, "min_p": 0.05, "repetition_penalty": 1.2, "min_tokens": 1, "bad_words": ["dog"]}.items():
        if generator.random() < 0.2:
            extra[name] = value
    ours: dict[str, float] = generator.choice([{}, {}, {"typical_p": 0.9}, {"top_n_sigma": 1.5}, {"xtc_probability": 0.5}, {"mirostat": 2}, {"dry_multiplier": 0.8}])
    if "mirostat" in ours:
        body.pop("top_p", None)
        extra = {name: value for name, value in extra.items() if name not in ("top_k", "min_p")}
    if ours:
        extra["vllm_xargs"] = {"onedraw": json.dumps(ours)}
    return {"prompt": generator.choice(PROMPTS), **body, "extra_body": extra}


async def send(address: str, count: int, seed: int) -> Counter[str]:
    """How many requests ended in which way. A tenth cannot be carried out, and of a tenth of the others the client goes
    away before the text is complete."""
    from openai import APIStatusError, AsyncOpenAI

    generator, gate, ended = random.Random(seed), asyncio.Semaphore(AT_ONCE), Counter[str]()
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=300) as client:

        async def good(request: dict[str, Any]) -> None:
            answer = await client.completions.create(model="stories", **request)
            ended[answer.choices[0].finish_reason] += 1

        async def left(request: dict[str, Any]) -> None:
            stream = await client.completions.create(model="stories", stream=True, **{**request, "max_tokens": 100})
            async for _ in stream:
                break
            await stream.close()
            ended["left"] += 1

        async def bad(request: dict[str, Any]) -> None:
            try:
                await client.completions.create(model="stories", **request)
                ended["not refused"] += 1
            except APIStatusError as error:
                ended[str(error.status_code)] += 1

        async def one() -> None:
            request, wish = asked(generator), generator.random()
            wrong = generator.choice(BAD)
            async with gate:
                if wish < 0.1:
                    await bad(request | wrong)
                elif wish < 0.2:
                    await left(request)
                else:
                    await good(request)

        await asyncio.gather(*(one() for _ in range(count)))
    return ended


async def story(address: str) -> str:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client:
        answer = await client.completions.create(model="stories", prompt=PROMPTS[0], temperature=0.9, seed=11, max_tokens=40)
        return str(answer.choices[0].text)


def memory(server: int) -> int:
    """Bytes that the processes of the server's session hold."""
    lines = subprocess.run(["ps", "-eo", "sid,rss"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return sum(1024 * int(held) for session, held in map(str.split, lines) if int(session) == server)


def test_a_thousand_requests(server: tuple[str, int]) -> None:
    address, process = server
    first = asyncio.run(story(address))
    ended = asyncio.run(send(address, REQUESTS // 2, seed=1))
    before = memory(process)
    ended += asyncio.run(send(address, REQUESTS // 2, seed=2))
    assert sum(ended.values()) == REQUESTS
    assert set(ended) == {"length", "stop", "left", "400"}, ended
    assert ended["400"] > REQUESTS // 20 and ended["left"] > REQUESTS // 20
    assert 500_000_000 < before and memory(process) - before < GROWTH
    # The engine is alive, and in the crowd nobody's text has changed.
    assert asyncio.run(story(address)) == first


def test_in_a_crowd_of_clients_a_text_is_what_it_is_alone(server: tuple[str, int]) -> None:
    address, _ = server
    alone = asyncio.run(story(address))

    async def crowded() -> str:
        _, text = await asyncio.gather(send(address, 40, seed=3), story(address))
        return text

    assert asyncio.run(crowded()) == alone


def over_http(request: dict[str, Any]) -> dict[str, Any]:
    """A request as the client of the server sends it."""
    params = dict(request["params"])
    extra = {name: params.pop(name) for name in ("top_k", "min_p", "repetition_penalty", "min_tokens", "bad_words", "allowed_token_ids") if name in params}
    if "structured_outputs" in params:
        extra["structured_outputs"] = {"json": params.pop("structured_outputs")}
    if "extra_args" in params:
        extra["vllm_xargs"] = {"onedraw": json.dumps(params.pop("extra_args")["onedraw"])}
    return {"model": "stories", "prompt": request["prompt"], **params, "extra_body": extra}


def test_two_engines_behind_one_address(together: list[dict[str, Any]]) -> None:
    """Data parallel: whichever engine gets a request, its text is that of one engine."""
    from openai import AsyncOpenAI

    async def texts(address: str) -> list[str]:
        async with AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=300) as client:
            answers = await asyncio.gather(*(client.completions.create(**over_http(one)) for one in requests() * 3))
            return [answer.choices[0].text for answer in answers]

    with serving("--data-parallel-size", "2", threads="0|1") as (address, _):
        assert asyncio.run(texts(address)) == [one["text"] for one in together] * 3
        metrics = urllib.request.urlopen(f"{address}/metrics").read().decode()
    ended = [float(count) for count in re.findall(r'vllm:request_success_total\{.*finished_reason="length".*\} (.+)', metrics)]
    assert len(ended) == 2 and min(ended) > 10
