"""What type checkers are told: it is what the compiled module is, it carries typed programs, and it finds their mistakes."""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onedraw

CRATE = Path(__file__).resolve().parents[1]
PACKAGE = CRATE / "python" / "onedraw"

# Stubtest leaves a class that is written in another stub to that stub's own turn, for which it needs a module at run time: without these it would say
# nothing of any class in `_decoding.pyi` and `_cuda.pyi`. The names are those that `_onedraw.pyi` takes from there.
STUBTEST = """
import ast, sys, types
import onedraw._onedraw
from mypy import stubtest

tree = ast.parse(open(sys.argv.pop(1), encoding="utf-8").read())
for stub in ("_decoding", "_cuda"):
    (taken,) = (node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == stub)
    module = sys.modules[f"onedraw.{stub}"] = types.ModuleType(f"onedraw.{stub}")
    vars(module).update((name.name, getattr(onedraw._onedraw, name.name)) for name in taken.names)
sys.exit(stubtest.main())
"""

# The comment names the error that mypy must report in its line.
WRONG = """
import numpy as np
import onedraw

row = np.zeros(4, dtype=np.float32)
onedraw.sample(row, temprature=1)  # call-overload
onedraw.SamplingParams(top_k="a")  # arg-type
onedraw.SamplingParams(top_k=1.5)  # arg-type
onedraw.SamplingParams(banned_strings="abc")  # arg-type
onedraw.SamplingParams(penalty_scope="prompt")  # arg-type
onedraw.SamplingParams().replace(seed="1")  # arg-type
onedraw.SamplingParams().seed = 1  # misc
onedraw.SamplingParams(order=[1])  # list-item
onedraw.Sampler().sample("x")  # arg-type
onedraw.Sampler().sample([row])  # list-item
onedraw.Sampler(kernel="fast")  # arg-type
onedraw.Sampler().accept("1")  # arg-type
onedraw.sample(row).token  # union-attr
onedraw.sample([row]).token  # attr-defined
onedraw.Batch().sample(3, row)  # call-overload
onedraw.Batch().add(unknown=1)  # call-arg
onedraw.cuda.Batch("large")  # arg-type
onedraw.cuda.Batch(8).launch(row, stream="fast")  # arg-type
onedraw.Edit("edit", lambda view: "no")  # arg-type, return-value
onedraw.Draft.chain("abc")  # arg-type
onedraw.Generator(verify="maybe")  # arg-type
onedraw.Utf8Stream().push("text")  # arg-type


class Mine(onedraw.Sampler):  # misc
    pass
"""


def run(*arguments: str | Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python where the package's settings are."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=CRATE, env=os.environ | {"MYPY_CACHE_DIR": str(cache)}, text=True, capture_output=True)


def stubtest(package: Path, settings: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Holds the types of a package against the compiled module."""
    options = ("--concise", "--mypy-config-file", settings)
    return run("-c", STUBTEST, package / "_onedraw.pyi", "onedraw._onedraw", "onedraw._decoding", "onedraw._cuda", *options, cache=cache)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """NumPy's types are read once for all tests."""
    return tmp_path_factory.mktemp("mypy")


def test_the_types_are_those_of_the_compiled_module(cache: Path) -> None:
    ran = stubtest(PACKAGE, CRATE / "pyproject.toml", cache)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_parameters_are_described_as_in_the_library() -> None:
    tree = ast.parse((PACKAGE / "_onedraw.pyi").read_text(encoding="utf-8"))
    (params,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "SamplingParams")
    described = {node.name: ast.get_docstring(node) for node in params.body if isinstance(node, ast.FunctionDef)}
    for name in onedraw.SamplingParams().to_dict():
        says = getattr(onedraw.SamplingParams, name).__doc__.split("\n\n")[0] + "."
        assert " ".join((described[name] or "").split()) == says


def test_types_that_are_not_are_found_in_every_file(cache: Path, tmp_path: Path) -> None:
    package = tmp_path / "onedraw"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    settings = tmp_path / "mypy.ini"
    settings.write_text(f"[mypy]\nmypy_path = {tmp_path}\n", encoding="utf-8")
    changes = [
        ("_onedraw.pyi", "def dense(self, vocabulary: int)", "def dense(self, size: int)"),
        ("_decoding.pyi", "def held_back(self)", "def withheld(self)"),
        ("_decoding.pyi", "def is_special(self, token: Token)", "def is_special(self)"),
        ("_cuda.pyi", "def seed(self, sequence: CudaSequenceId)", "def seed(self)"),
    ]
    for name, right, wrong in changes:
        text = (package / name).read_text(encoding="utf-8")
        assert text.count(right) == 1, right
        (package / name).write_text(text.replace(right, wrong), encoding="utf-8")
    ran = stubtest(package, settings, cache)
    found = {line.split(" ", 1)[0].removeprefix("onedraw.") for line in ran.stdout.splitlines()}
    expected = {"_onedraw.Distribution.dense", "_decoding.StopMatcher.held_back", "_decoding.StopMatcher.withheld", "_decoding.Tokenizer.is_special"}
    expected |= {"_cuda.CudaBatch.seed"}
    assert found == expected, ran.stdout + ran.stderr


def test_the_package_is_typed(cache: Path) -> None:
    ran = run("-m", "mypy", "--strict", *sorted(PACKAGE.rglob("*.py")), cache=cache)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_typed_program_is_accepted_and_runs(cache: Path) -> None:
    ran = run("-m", "mypy", "--strict", "tests/typed_usage.py", cache=cache)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    runpy.run_path(str(CRATE / "tests" / "typed_usage.py"), run_name="__main__")


def test_mistakes_are_found_where_they_are(cache: Path) -> None:
    program = cache / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    ran = run("-m", "mypy", "--strict", "--hide-error-context", "--no-error-summary", program, cache=cache)
    found: dict[int, set[str]] = {}
    for line, code in re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", ran.stdout, flags=re.MULTILINE):
        found.setdefault(int(line), set()).add(code)
    lines = enumerate(WRONG.splitlines(), start=1)
    expected = {number: set(codes.split(", ")) for number, line in lines if (codes := line.partition("  # ")[2])}
    assert found == expected, ran.stdout + ran.stderr


def test_every_public_name_says_what_it_is() -> None:
    nameless = [name for name in onedraw.__all__ if name not in ("__version__", "STREAM_VERSION") and not (getattr(onedraw, name).__doc__ or "").strip()]
    assert nameless == []


def test_the_parameters_are_those_of_the_library() -> None:
    tree = ast.parse((PACKAGE / "_types.pyi").read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Parameters")
    names = [node.target.id for node in typed.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    assert sorted(names) == sorted(onedraw.SamplingParams().to_dict())
