"""Connections that say nothing."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import openai
from conftest import MODEL, Server

CONNECTIONS = 10_000


def most_connections() -> int:
    """Ten thousand, or as many as a process may have here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return CONNECTIONS if most == resource.RLIM_INFINITY else min(CONNECTIONS, most - 500)


def connect(server: Server, count: int) -> list[socket.socket]:
    """Connections that say nothing."""
    address = (urlsplit(server.url).hostname, urlsplit(server.url).port)
    return [socket.create_connection(address, timeout=60) for _ in range(count)]


def until_served(client: openai.OpenAI, request: dict[str, Any]) -> str:
    """The text of a request that is asked for again while there are too many connections."""
    end = time.monotonic() + 60
    while True:
        try:
            return client.completions.create(**request).choices[0].text
        except openai.InternalServerError as error:
            assert error.status_code == 503 and time.monotonic() < end
            time.sleep(0.2)


REQUEST = {"model": MODEL, "prompt": "Once upon a time", "seed": 7, "max_tokens": 400}


def test_idle_connections_beyond_the_limit_are_told_so(start: Callable[..., Server]) -> None:
    """A text that is being written goes on, those that are too many are told so, and once the others have gone everybody
    is served."""
    count = most_connections()
    limit = count // 3
    server = start("--header-timeout", "600", "--max-connections", str(limit))
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
    alone = client.completions.create(**REQUEST).choices[0].text
    stream = iter(client.completions.create(**REQUEST, stream=True))
    parts = [next(stream).choices[0].text]
    idle = connect(server, count)
    try:
        parts += [part.choices[0].text for part in stream]
        assert "".join(parts) == alone
        for connection in idle[-10:]:
            refused = b"".join(iter(lambda: connection.recv(4096), b""))
            assert refused.startswith(b"HTTP/1.1 503 ") and b"too_many_connections" in refused
    finally:
        for connection in idle:
            connection.close()
    assert until_served(client, REQUEST) == alone
    client.close()
    # The one that asks.
    server.wait_for("onedraw_connections", 1, 30)


def test_idle_connections_are_closed(start: Callable[..., Server]) -> None:
    """The server closes connections that say nothing, and whoever asks in the meantime is served."""
    count = most_connections()
    server = start("--header-timeout", "2", "--max-connections", str(2 * CONNECTIONS))
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
    alone = client.completions.create(**REQUEST).choices[0].text
    idle = connect(server, count)
    try:
        assert client.completions.create(**REQUEST).choices[0].text == alone
        server.wait_for("onedraw_connections", 1, 60)
        assert all(connection.recv(1) == b"" for connection in idle)
    finally:
        for connection in idle:
            connection.close()
