"""Modules of users that an option names: a dotted name, or the path of a .py file."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from controlplane.errors import UsageError

__all__ = ["classes_of", "line_of", "load_module", "named_classes"]

T = TypeVar("T")


def load_module(name: str, what: str) -> ModuleType:
    """Return a module by its name or file. Raises UsageError in one line.

    Args:
        name: as the option has it.
        what: what the module is for, for instance "scheduler plugin".
    """
    if not name.endswith(".py"):
        try:
            return import_module(name)
        except Exception as error:
            raise UsageError(f"{what} module {name}: {line_of(error)}") from error
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"{name}: no such file")
    module_name = f"controlplane_user_{what.replace(' ', '_')}s.{path.stem}"
    spec = spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{name}: {line_of(error)}") from error
    return module


def classes_of(module: ModuleType, base: type[T]) -> Iterator[type[T]]:
    """Yield the classes of a base that a module itself defines, in its order."""
    for value in vars(module).values():
        if (
            inspect.isclass(value)
            and issubclass(value, base)
            and value.__module__ == module.__name__
        ):
            yield value


def named_classes(name: str, what: str, base: type[T]) -> list[type[T]]:
    """Return the classes of a base with a `name` that a module defines. Raises UsageError if it has none.

    Args:
        name: the module or file, as the option has it.
        what: the term for such a class in messages, for instance "scheduler plugin".
        base: the class from which they are derived.
    """
    module = load_module(name, what)
    classes = [each for each in classes_of(module, base) if getattr(each, "name", "")]
    if not classes:
        raise UsageError(f"{name}: defines no {what} with a name")
    return classes


def line_of(error: BaseException) -> str:
    """Return an error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
