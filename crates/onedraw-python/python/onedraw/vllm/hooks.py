"""Extends vLLM's classes: when their module is imported, and only the objects of an engine that asks for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .settings import settings_of

_waiting: dict[str, str] = {}


def when_imported(module: str, extension: str) -> None:
    """Calls `install` of the module `extension` with `module` once that is imported, or at once if it was."""
    if module in _waiting:
        return
    _waiting[module] = extension
    if module in sys.modules:
        _extend(sys.modules[module])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def extend(original: Any, mixin: type) -> None:
    """Puts `mixin` before the class of new objects of `original`, if their configuration asks for our sampler."""

    def __new__(cls: type, vllm_config: Any, *arguments: Any, **named: Any) -> Any:
        if settings_of(vllm_config).sampler:
            cls = type(cls.__name__, (mixin, cls), {"__module__": cls.__module__})
        return object.__new__(cls)

    original.__new__ = __new__


def _extend(module: ModuleType) -> None:
    importlib.import_module(_waiting[module.__name__]).install(module)


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
        _extend(module)

    def __getattr__(self, name: str) -> object:
        # Resources and sources are the other loader's.
        return getattr(self._loader, name)
