"""Connections that say nothing."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import openai
from conftest import MODEL, Server

CONNECTIONS = 10_000


def test_idle_connections_cost_nobody_their_text(start: Callable[..., Server]) -> None:
    """Ten thousand idle connections, or as many as a process may have here: those beyond the limit are told so, a text
    that is being written goes on, and once the idle ones are closed everybody is served."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = CONNECTIONS if most == resource.RLIM_INFINITY else min(CONNECTIONS, most - 500)
    limit = count // 3
    server = start("--header-timeout", "8", "--max-connections", str(limit))
    client = openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
    request = {"model": MODEL, "prompt": "Once upon a time", "seed": 7, "max_tokens": 400}
    alone = client.completions.create(**request).choices[0].text
    stream = iter(client.completions.create(**request, stream=True))
    parts = [next(stream).choices[0].text]
    address = (urlsplit(server.url).hostname, urlsplit(server.url).port)
    idle = [socket.create_connection(address, timeout=30) for _ in range(count)]
    try:
        parts += [part.choices[0].text for part in stream]
        assert "".join(parts) == alone
        # The last ones came when all places were taken.
        refused = b"".join(iter(lambda: idle[-1].recv(4096), b""))
        assert refused.startswith(b"HTTP/1.1 503 ") and b"too_many_connections" in refused
        end = time.monotonic() + 60
        while True:
            try:
                assert client.completions.create(**request).choices[0].text == alone
                break
            except openai.InternalServerError as error:
                assert error.status_code == 503 and time.monotonic() < end
                time.sleep(0.2)
    finally:
        for connection in idle:
            connection.close()
    server.wait_for("onedraw_connections", 1, 30)
