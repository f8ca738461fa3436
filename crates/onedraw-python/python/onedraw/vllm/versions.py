"""The versions of vLLM whose inner parts are known here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

KNOWN = ("0.32",)
"""The versions that were tested, without the last number."""


def check_version() -> str:
    """The version of this vLLM, without the last number. An error if it is not one of those known."""
    import vllm

    version = ".".join(vllm.__version__.split(".")[:2])
    if version not in KNOWN:
        raise RuntimeError(f"onedraw knows vLLM {', '.join(f'{known}.x' for known in KNOWN)}, and this is {vllm.__version__}; install one of those, or leave `sampler` off")
    return version


def check(function: Callable[..., Any], expected: tuple[str, ...]) -> None:
    """An error if this vLLM is not one of those known, or if one of its functions has other parameters than it had
    there."""
    import vllm

    version = check_version()
    found = tuple(inspect.signature(function).parameters)
    if found != expected:
        raise RuntimeError(f"onedraw knows {function.__qualname__}({', '.join(expected)}) of vLLM {version}, and this vLLM {vllm.__version__} has ({', '.join(found)}); leave `sampler` off")
