"""What an engine asks of onedraw."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

VARIABLE = "ONEDRAW_VLLM"


@dataclass(frozen=True)
class Settings:
    """The settings of an engine, the same in all of its processes."""

    sampler: bool = False
    """Whether onedraw draws the tokens."""
    shards: bool = False
    """Whether tensor-parallel ranks keep their parts of the logits, where the model can leave them ungathered."""
    threads: int = 1
    """Threads of a draw on the CPU; 0: one for each core."""


def settings_of(vllm_config: Any) -> Settings:
    """The settings in `additional_config["onedraw"]`; without them, those of the environment."""
    additional = getattr(vllm_config, "additional_config", None)
    if isinstance(additional, Mapping) and "onedraw" in additional:
        return _read(additional["onedraw"], "additional_config['onedraw']")
    return _of_environment(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=1)
def _of_environment(text: str) -> Settings:
    if not text.strip():
        return Settings()
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: cannot be read as JSON: {error}") from None
    return _read(given, VARIABLE)


def _read(given: Any, source: str) -> Settings:
    if not isinstance(given, Mapping):
        raise ValueError(f'{source}: settings are an object such as {{"sampler": true}}, not {given!r}')
    known = {field.name: field for field in fields(Settings)}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{source}: `{name}` is not a setting; there are {', '.join(known)}")
        if type(value) is not type(known[name].default):
            raise ValueError(f"{source}: {name} is {value!r}, but a value such as {known[name].default!r} is wanted")
    if not 0 <= given.get("threads", 1) <= 1024:
        raise ValueError(f"{source}: threads must be in [0, 1024], not {given['threads']}")
    settings = Settings(**given)
    if settings.shards and not settings.sampler:
        raise ValueError(f"{source}: shards needs sampler")
    return settings
