"""Does a step touch only what it says? A debug mode of the runtime.

A step that declares what it touches of its actor's memory (`Context.reads`, `Context.writes`) is
taken at its word by every search over partial orders. `Guard` does not: the objects that are the
parts of an actor's memory (`Context.part`) are watched, each look at one of their attributes is
noted, and a step that declared something but not that part ends the run. A part that was only to
be read must be the same after the step.

What is watched is the object itself and what only it leads to; a list that was taken out of it and
kept elsewhere is not. Watching costs a function call for each attribute, so it is for tests.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.footprint import Footprint

NAME: Final = "steps touch what they say"
_DEPTH: Final = 6


class _Part(NamedTuple):
    guard: Guard
    actor: str
    name: str
    apart: Mapping[str, str]


_PARTS: dict[int, _Part] = {}
"""Watched objects by address; the guard keeps them alive."""
_GUARDED: dict[type, type] = {}


class Guard:
    """Watches the parts of the memories of one world's actors. `report` ends the run with a line."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self.alone = False
        """Footprints are recorded for this check only."""
        self._watched: list[tuple[Any, type]] = []
        self._footprint: Footprint | None = None
        self._actor = ""
        self._touched: dict[str, bool] = {}
        self._before: dict[str, tuple[Any, Any]] = {}

    def watch(self, actor: str, name: str, obj: Any, apart: Mapping[str, str]) -> None:
        """From now on `obj` is (part of) the part `name` of an actor's memory.

        `apart`: attributes that are of other parts, or ("") do not change.
        """
        if id(obj) in _PARTS:
            return
        cls = type(obj)
        guarded = _GUARDED.get(cls)
        if guarded is None:
            guarded = _GUARDED[cls] = _guarded(cls)
        _PARTS[id(obj)] = _Part(self, actor, name, apart)
        self._watched.append((obj, cls))
        obj.__class__ = guarded

    def close(self) -> None:
        """The run is over."""
        watched, self._watched = self._watched, []
        for obj, cls in watched:
            del _PARTS[id(obj)]
            obj.__class__ = cls

    def begin(self, footprint: Footprint, actor: str) -> None:
        """A step begins."""
        self._footprint = footprint
        self._actor = actor

    def end(self) -> None:
        """The step is over."""
        footprint, touched = self._footprint, self._touched
        self._footprint = None
        if footprint is not None and footprint.declared:
            for name, wrote in touched.items():
                if not footprint.admits(name, write=False):
                    self._complain(footprint, "looks at", name)
                elif wrote and not footprint.admits(name, write=True):
                    self._complain(footprint, "writes", name)
            for name, (obj, digest) in self._before.items():
                if not footprint.admits(name, write=True) and _digest(obj) != digest:
                    self._complain(footprint, "changes", name)
        if touched:
            self._touched = {}
            self._before = {}

    def _complain(self, footprint: Footprint, does: str, name: str) -> None:
        line = f"{footprint.describe()} {does} {name!r} of its actor's memory, and does not say so"
        self._report(NAME, line)

    def quietly(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call something without noting what it touches, and so with the method that it gives."""
        footprint, self._footprint = self._footprint, None
        try:
            found = call(*args, **kwargs)
        finally:
            self._footprint = footprint
        return partial(self.quietly, found) if isinstance(found, MethodType) else found

    def noted(self, part: _Part, obj: Any, attribute: str, *, write: bool) -> None:
        """An attribute was touched."""
        footprint = self._footprint
        if footprint is None or part.actor != self._actor:
            return
        name = part.apart.get(attribute, part.name)
        if not name:
            return
        if name not in self._touched:
            self._touched[name] = write
            if name == part.name and not footprint.admits(name, write=True):
                self._footprint = None  # the digest looks at it too
                self._before[name] = (obj, _digest(obj))
                self._footprint = footprint
        elif write:
            self._touched[name] = True


def _guarded(cls: type) -> type:
    """A class like `cls` that notes each look at an attribute."""
    plain: Any = cls
    look, change = plain.__getattribute__, plain.__setattr__

    def __getattribute__(self: Any, name: str) -> Any:  # noqa: N807
        if not name.startswith("__"):
            part = _PARTS.get(id(self))
            if part is not None:
                guard = part.guard
                guard.noted(part, self, name, write=False)
                if name in part.apart:
                    return guard.quietly(look, self, name)
        return look(self, name)

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807
        part = _PARTS.get(id(self))
        if part is not None:
            part.guard.noted(part, self, name, write=True)
        change(self, name, value)

    body = {
        "__slots__": (),
        "__getattribute__": __getattribute__,
        "__setattr__": __setattr__,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    return type(cls.__name__, (cls,), body)


def _digest(obj: Any, depth: int = _DEPTH) -> Any:
    """Return the content of an object as a value to compare; an opaque object counts by its identity."""
    if obj is None or isinstance(obj, str | bytes | int | float):
        return obj
    if not depth:
        return id(obj)
    below = depth - 1
    if isinstance(obj, dict):
        return [(_digest(key, below), _digest(value, below)) for key, value in obj.items()]
    if isinstance(obj, list | tuple | deque):
        return [_digest(each, below) for each in obj]
    if isinstance(obj, set | frozenset):
        return sorted(map(id, obj))
    if depth == _DEPTH or (id(obj) in _PARTS):
        fields = dict(getattr(obj, "__dict__", {}))
        for cls in type(obj).__mro__:
            for name in getattr(cls, "__slots__", ()):
                if not name.startswith("__") and hasattr(obj, name):
                    fields[name] = getattr(obj, name)
        return _digest(fields, below)
    return id(obj)
