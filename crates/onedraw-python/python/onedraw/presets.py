"""Four settings with a name. Each is a plain `SamplingParams` to start from.

>>> from onedraw import presets
>>> presets.creative().replace(seed=7)
SamplingParams(temperature=1.2, top_k=100, top_p=0.95, repetition_penalty=1.1, seed=7)
"""

from ._onedraw import PRESETS, SamplingParams

__all__ = ["NAMES", "balanced", "by_name", "creative", "deterministic", "precise"]

NAMES: tuple[str, ...] = tuple(PRESETS)
"""The names, in the order they are listed."""


def creative() -> SamplingParams:
    """Wide and warm: for stories and ideas."""
    return by_name("creative")


def precise() -> SamplingParams:
    """Narrow and cool: for facts and code."""
    return by_name("precise")


def balanced() -> SamplingParams:
    """Between the two: for conversation."""
    return by_name("balanced")


def deterministic() -> SamplingParams:
    """The best token each time, whatever the seed."""
    return by_name("deterministic")


def by_name(name: str) -> SamplingParams:
    """The preset of that name."""
    return SamplingParams.preset(name)
