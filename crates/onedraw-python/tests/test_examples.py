"""The scripts of examples/python run as they stand there."""

from __future__ import annotations

import re
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


@pytest.mark.peers
def test_kept_training(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("matplotlib")
    said = run(root / "examples/python/kept_training.py", "--steps", "1", "--output", str(tmp_path / "ratios.svg"))
    kept, whole = (re.findall(r"\d\.\d{6}", line) for line in said.splitlines() if "ratios" in line)
    # With kept sets all ratios are 1; without, they are between the kept mass and 1.
    assert all(0.9999 < float(ratio) < 1.0001 for ratio in kept)
    lowest, highest, mean, *texts = map(float, whole)
    assert 0.9 < lowest < 0.92 and highest <= 1.0001 and 0.92 < mean < 0.96
    assert max(texts) < 0.98
    assert (tmp_path / "ratios.svg").read_text(encoding="utf-8").startswith("<?xml")
