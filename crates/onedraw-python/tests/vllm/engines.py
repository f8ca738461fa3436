"""How engines of vLLM are started here."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

Write = Callable[..., dict[str, Any]]
"""What the fixture `write` gives."""


def environment(processes: bool = False, preload: bool = True) -> dict[str, str]:
    """The environment of an engine on this machine."""
    library = Path(sysconfig.get_path("data"), "lib/libiomp5.so")
    return {
        **os.environ,
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes)),
        "VLLM_CPU_OMP_THREADS_BIND": "0|1" if processes else "auto",
        **({"LD_PRELOAD": str(library)} if preload and library.exists() else {}),
    }
