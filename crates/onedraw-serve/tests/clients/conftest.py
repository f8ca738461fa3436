"""What the tests share: servers of the program that is to be tested, and texts that the program writes itself."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

MODEL = "stories"
"""The name of the model that is part of the program."""


@dataclass
class Server:
    """A server that is running."""

    url: str
    process: subprocess.Popen[str]

    @property
    def base_url(self) -> str:
        """What a client of OpenAI's is given."""
        return f"{self.url}/v1"

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """The answer on a path that the clients have no function for."""
        head = {"content-type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), head)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def metric(self, name: str) -> float:
        """The value of a metric without labels."""
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        [value] = [line.split()[1] for line in lines if line.split(" ")[0] == name]
        return float(value)

    def wait_for(self, name: str, value: float, seconds: float = 5.0) -> None:
        """Waits until a metric has a value."""
        end = time.monotonic() + seconds
        while (found := self.metric(name)) != value:
            assert time.monotonic() < end, f"{name} is {found} after {seconds} seconds, not {value}"
            time.sleep(0.01)

    def end(self) -> int:
        """Tells the server to end, and gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def serving(*flags: str) -> Iterator[Server]:
    """A server with these flags, at a port that was free. At the end, it must have ended well."""
    program = os.environ["ONEDRAW_PROGRAM"]
    environment = {name: value for name, value in os.environ.items() if name != "ONEDRAW_API_KEY"}
    command = [program, "serve", "--port", "0", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        server = Server(process.stdout.readline().strip(), process)
        assert server.url.startswith("http://127.0.0.1:"), f"{command} printed {server.url!r}"
        yield server
        if process.poll() is None:
            server.end()
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server of most tests."""
    with serving() as server:
        yield server


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    """Starts a server with flags of its own, for one test."""
    with contextlib.ExitStack() as servers:
        yield lambda *flags: servers.enter_context(serving(*flags))


@pytest.fixture(scope="session")
def generate() -> Callable[..., list[dict[str, Any]]]:
    """The texts that `onedraw generate` writes: a prompt, flags, and parameters by their names."""

    def run(prompt: str, *flags: str, **params: Any) -> list[dict[str, Any]]:
        command = [os.environ["ONEDRAW_PROGRAM"], "generate", prompt, "--format", "json", *flags]
        command += ["--params", json.dumps(params)]
        written = subprocess.run(command, capture_output=True, text=True, check=False)
        assert written.returncode == 0, written.stderr
        return [json.loads(line) for line in written.stdout.splitlines()]

    return run
