"""Extends vLLM's classes: when their module is imported, and only the objects of an engine that asks for it. Until then
nothing is imported or read that another version of vLLM may not have."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, TypeAlias

from .settings import settings_of
from .versions import check_version

Install: TypeAlias = Callable[[ModuleType], None]
"""What is done with a module of vLLM once it is imported."""

_waiting: dict[str, Install] = {}


def when_imported(module: str, install: Install) -> None:
    """Calls `install` with `module` once that is imported, or at once if it was."""
    if module in _waiting:
        return
    _waiting[module] = install
    if module in sys.modules:
        install(sys.modules[module])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def extends(name: str, mixin: str) -> Install:
    """Puts a class before the class of new objects of the class `name`, if their configuration asks for our sampler.
    `mixin` is the place of ours, as `module:class`."""

    def install(module: ModuleType) -> None:
        original: Any = getattr(module, name, None)
        if original is None:
            return _is_missing()
        made: Any = original.__new__

        def __new__(cls: type, *arguments: Any, **named: Any) -> Any:
            if settings_of(named.get("vllm_config", next(iter(arguments), None))).sampler:
                check_version()
                cls = type(cls.__name__, (_ours(mixin), cls), {"__module__": cls.__module__})
            return made(cls) if made is object.__new__ else made(cls, *arguments, **named)

        original.__new__ = __new__

    return install


def replaces(name: str, method: str, function: str) -> Install:
    """Lets a function change what a method of the class `name` returns, for objects whose configuration asks for our
    sampler. It gets the object, what the method returned, and the arguments."""

    def install(module: ModuleType) -> None:
        owner: Any = getattr(module, name, None)
        original: Any = getattr(owner, method, None)
        if original is None:
            return _is_missing()

        @functools.wraps(original)
        def replaced(self: Any, *arguments: Any, **named: Any) -> Any:
            returned = original(self, *arguments, **named)
            if not settings_of(getattr(self, "vllm_config", None)).sampler:
                return returned
            check_version()
            return _ours(function)(self, returned, *arguments, **named)

        setattr(owner, method, replaced)

    return install


def _is_missing() -> None:
    """This vLLM does not have what is to be extended. That is an error only if our sampler is asked for, which only the
    environment can say here."""
    if settings_of(None).sampler:
        check_version()


def _ours(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(f".{module}", __package__), name)


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in _waiting:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(Loader):
    """A loader that extends the module after another has executed it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _waiting[module.__name__](module)

    def __getattr__(self, name: str) -> object:
        # Resources and sources are the other loader's.
        return getattr(self._loader, name)
