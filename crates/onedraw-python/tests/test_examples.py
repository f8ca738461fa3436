"""The scripts of examples/python run as they stand there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def run(script: Path, *arguments: str) -> str:
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=True).stdout


def test_strategies(root: Path, tmp_path: Path) -> None:
    said = run(root / "examples/python/strategies.py", "--seed", "3", "--max-tokens", "30", "--output", str(tmp_path))
    assert [name for name in ("greedy", "creative", "top-p 0.9", "mirostat 3 bits", "4 beams") if name not in said] == []
    pictures = sorted(tmp_path.glob("*.png"))
    assert len(pictures) >= 3
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)
    # A seed gives the same texts and the same numbers again.
    assert said.startswith(run(root / "examples/python/strategies.py", "--seed", "3", "--max-tokens", "30"))


@pytest.mark.peers
def test_torch_loop(root: Path) -> None:
    pytest.importorskip("torch")
    said = run(root / "examples/python/torch_loop.py", "--tokens", "12")
    assert [name for name in ("[greedy] Once upon a time", "[warm]", "[narrow]", "[one sentence]") if name not in said] == []
    assert "length after 12 tokens, seed 0" in said
