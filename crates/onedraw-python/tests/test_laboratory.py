"""The Python that the laboratory's page tells of a text writes this text."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

LABORATORY = ROOT / "crates/onedraw-lab"
TEXTS = LABORATORY / "tests/code"
# Python cannot give tokens in the middle of a text; the page says so.
NAMES = sorted(folder.name for folder in TEXTS.iterdir() if folder.name != "branch")


def test_there_are_texts() -> None:
    assert len(NAMES) == 9


@pytest.mark.parametrize("name", NAMES)
def test_the_code_writes_the_text(name: str) -> None:
    code = TEXTS / name / "code.py"
    # One of them has a model's folder, which is found from here.
    ran = subprocess.run([sys.executable, code], cwd=LABORATORY, capture_output=True, encoding="utf-8", check=True)
    assert ran.stdout == (TEXTS / name / "text.txt").read_text(encoding="utf-8") + "\n"
