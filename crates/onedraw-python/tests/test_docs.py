"""The examples in the documentation of the package give what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

import onedraw

# Modules of the package that are of use with other libraries alone.
NEEDS = {"distributed": ("torch",), "torch": ("torch",), "plot": ("matplotlib",), "transformers": ("torch", "transformers")}


def modules() -> Iterator[ModuleType]:
    """The public modules that can be imported here."""
    yield onedraw
    folder = Path(onedraw.__file__).parent
    for path in sorted([*folder.glob("*.py"), folder / "torch"]):
        if not path.stem.startswith("_") and all(find_spec(library) for library in NEEDS.get(path.stem, ())):
            yield importlib.import_module(f"onedraw.{path.stem}")
    # What is compiled is seen through `onedraw`, where it is public.


def documented(name: str, thing: Any) -> Iterator[tuple[str, str]]:
    """A thing and what is in it, each with its text. Doctest's own search does not go into compiled classes."""
    # Not `getdoc`, which would hand down the text of a base class.
    if text := getattr(thing, "__doc__", None):
        yield name, text
    if inspect.isclass(thing):
        for member, value in vars(thing).items():
            if not member.startswith("_"):
                yield from documented(f"{name}.{member}", getattr(value, "__func__", value))


def texts() -> dict[str, str]:
    """Every text by the name of what it is about. What is public in two modules is in here once."""
    found: dict[str, str] = {}
    seen: set[int] = set()
    for module in modules():
        names = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        things = [(module.__name__, module)] + [(f"{module.__name__}.{name}", getattr(module, name)) for name in names]
        for name, thing in things:
            is_ours = inspect.ismodule(thing) or str(getattr(thing, "__module__", "")).startswith("onedraw")
            if id(thing) not in seen and (is_ours or inspect.isbuiltin(thing)):
                seen.add(id(thing))
                found.update(documented(name, thing))
    return found


TEXTS = texts()
EXAMPLES = {name: examples for name, text in TEXTS.items() if (examples := doctest.DocTestParser().get_examples(text, name))}


def test_there_are_examples() -> None:
    assert sum(map(len, EXAMPLES.values())) >= 20
    # In functions, classes, methods and modules, compiled or not.
    assert {"onedraw", "onedraw.presets", "onedraw.sample", "onedraw.Sampler", "onedraw.Batch.verify"} <= EXAMPLES.keys()


def test_everything_public_is_documented() -> None:
    things = {f"onedraw.{name}": getattr(onedraw, name) for name in onedraw.__all__ if name not in ("__version__", "STREAM_VERSION")}
    classes = {name: thing for name, thing in things.items() if inspect.isclass(thing)}
    members = {f"{name}.{member}" for name, thing in classes.items() for member in vars(thing) if not member.startswith("_")}
    assert sorted((things.keys() | members) - TEXTS.keys()) == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_give_what_they_say(name: str) -> None:
    if f"{name}.".startswith("onedraw.cuda.") and "torch" in TEXTS[name]:
        if why_not := onedraw.cuda.why_not():
            pytest.skip(why_not)
        if not pytest.importorskip("torch").cuda.is_available():
            pytest.skip("this PyTorch has no CUDA")
    # As doctest does it, an example has the names of its module.
    module = next(module for module in reversed(list(modules())) if f"{name}.".startswith(f"{module.__name__}."))
    test = doctest.DocTest(EXAMPLES[name], dict(vars(module)), name, None, None, TEXTS[name])
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)


@pytest.mark.parametrize("page", ["getting-started", "python", "adding-a-stage", "audit"])
def test_the_book_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page of the book has in Python, one block after the other."""
    text = (ROOT / "docs" / "src" / f"{page}.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert blocks
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102


def test_the_readme_runs() -> None:
    """What the project's README has in Python, one block after the other."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in readme.split("```python\n")[1:]]
    assert len(blocks) == 1
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)  # noqa: S102
    # The comment beside the first call says what it prints.
    assert repr(onedraw.sample(names["logits"], temperature=0.8, top_p=0.9, seed=1)) in blocks[0]
    assert names["tokens"].shape == (8,)
