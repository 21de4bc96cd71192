"""Debug check for objects that actors share and that can change.

Between actors only messages travel, and what travels is immutable. `Sharing` walks everything that
each actor's tasks, mailboxes and start arguments reach, and reports what is mutable and reachable
from two actors.

Three kinds of objects are no report. *Values*: what cannot change (frozen attrs classes and dataclasses, tuples,
functions, enums), and classes that are registered as values although they keep something they
computed. *Trees*: dicts and lists of plain JSON or of values; they are immutable by agreement, so what a tree
held when it was first seen shared is remembered, and reported if it ever changes. *The runtime's
own*: contexts, mailboxes, links, what came in through the inlet, and outlets, behind which the rim begins, which is
outside the world. Experimenters may look into everything, and are not walked.

The walk costs milliseconds per thousand objects; it is for tests, and never moves a step.
"""

from __future__ import annotations

import enum
import functools
import gc
import hashlib
import re
import types
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from actors.choices import ChoiceList
from actors.context import Context
from actors.disk import Disk
from actors.inlet import ExternalMessage, Outlet
from actors.link import Link
from actors.log import EventLog
from actors.process import Actor, Channel, Mailbox, Message, Request, Task
from actors.sync import Condition, Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.kernel import Kernel


class Budget:
    """The number of worlds that are checked, as searches build thousands; `values` joins those that they declare
    themselves.
    """

    def __init__(self, worlds: int, values: Iterable[type] = ()) -> None:
        self._left = worlds
        self.values = tuple(values)

    def spend(self) -> bool:
        """Return whether one more world is checked."""
        self._left -= 1
        return self._left >= 0


CHECK_SHARING: Final[ContextVar[Budget | None]] = ContextVar("CHECK_SHARING", default=None)
"""The check of worlds that do not set it themselves; tests set it."""
CHECK_FOOTPRINTS: Final[ContextVar[Budget | None]] = ContextVar("CHECK_FOOTPRINTS", default=None)
"""The same for the check of what steps say they touch (`actors.guard`)."""
_ATOMS: Final = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    type(...),
    type(NotImplemented),
    range,
    enum.Enum,
    re.Pattern,
    type,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.GenericAlias,
    property,
    type(functools.lru_cache(len)),  # a cache of the process is no actor's
)
_RUNTIME: Final = (
    Actor,
    Channel,
    ChoiceList,
    Condition,
    Context,
    Disk,
    Event,
    EventLog,
    ExternalMessage,
    Link,
    Mailbox,
    Outlet,
    Request,
    Task,
)
_TRANSPARENT: Final = (
    tuple,
    frozenset,
    types.CellType,
    types.CoroutineType,
    types.FrameType,
    types.FunctionType,
    types.GeneratorType,
    types.MappingProxyType,
    types.MethodType,
    functools.partial,
)


_ATOM, _OPAQUE, _MAILBOX, _MESSAGE, _FUNCTION, _THROUGH, _MUTABLE = range(7)
"""Actions of the walk at an object: none, stop there, look into it, or look into it and report it."""


class _Kinds(dict[type, int]):
    """The walk's action for the instances of a class, decided once for each class. `values` are taken for immutable."""

    def __init__(self, values: Iterable[type]) -> None:
        super().__init__()
        self._opaque = (*_RUNTIME, *values)

    def __missing__(self, cls: type) -> int:
        kind = self[cls] = self._of(cls)
        return kind

    def _of(self, cls: type) -> int:
        if issubclass(cls, _ATOMS):
            return _ATOM
        if issubclass(cls, Mailbox):
            return _MAILBOX
        if issubclass(cls, Message):
            return _MESSAGE
        if issubclass(cls, self._opaque) or cls.__module__.startswith(("trio.", "actors.drivers.")):
            return _OPAQUE
        if cls is types.FunctionType:
            return _FUNCTION
        return _THROUGH if issubclass(cls, _TRANSPARENT) or _is_frozen(cls) else _MUTABLE


class _Reach(NamedTuple):
    """The mutable objects that an actor reaches. `came_from`: by the address of an object the one that led to it, or
    the name of the place where the walk began.
    """

    mutable: list[Any]
    came_from: dict[int, Any]

    def way(self, found: Any) -> str:
        """Return the path to an object, made only for a report."""
        names: list[str] = []
        before = self.came_from[id(found)]
        while not isinstance(before, str):
            names.append(_named(before))
            before = self.came_from[id(before)]
        return " > ".join((before, *reversed(names)))


class Sharing:
    """Watches one world for mutable objects that two actors reach. `values`: classes to take for immutable."""

    def __init__(self, kernel: Kernel, values: Iterable[type] = ()) -> None:
        self._kernel = kernel
        self._values = tuple(values)
        self._kinds = _Kinds(self._values)
        self._trees: dict[int, tuple[Any, bytes, str]] = {}

    def violation(self) -> str | None:
        """One line about something shared that can change, or has changed; None if there is nothing."""
        return next(self.violations(), None)

    def violations(self) -> Iterator[str]:
        """All that is wrong, a line each."""
        changed = self._changed()
        if changed is not None:
            yield changed
        owners: dict[int, tuple[str, _Reach]] = {}
        for actor in self._kernel.actors.values():
            if actor.experimenter:
                continue
            reach = self._reached(actor)
            owner = (actor.name, reach)
            for found in reach.mutable:
                name, first = owners.setdefault(id(found), owner)
                if first is reach or id(found) in self._trees:
                    continue
                where = f"reached by {name} ({first.way(found)}) and by {actor.name} ({reach.way(found)})"
                tree = _fingerprint(found, self._values)
                if tree is None:
                    yield f"{type(found).__qualname__} is {where}"
                else:
                    self._trees[id(found)] = (found, tree, where)

    def _changed(self) -> str | None:
        for tree, then, where in self._trees.values():
            if _fingerprint(tree, self._values) != then:
                return f"a shared tree has changed, {where}"
        return None

    def _reached(self, actor: Actor) -> _Reach:
        """Walk everything that an actor reaches: tens of thousands of objects, so the loop calls nothing of ours."""
        kinds, kernel, referents = self._kinds, self._kernel, gc.get_referents
        parts = (kernel, kernel.transport, kernel.timers, kernel.faults, kernel.TIMED_OUT)
        came_from: dict[int, Any] = {id(part): "runtime" for part in parts}
        queue: list[Any] = []
        mutable: list[Any] = []
        for part, place in _beginnings(actor):
            if kinds[type(part)] > _OPAQUE and id(part) not in came_from:
                came_from[id(part)] = place
                queue.append(part)
        for item in queue:  # which grows
            kind = kinds[type(item)]
            found: Iterable[Any]
            if kind >= _THROUGH:
                found = referents(item)
                if kind == _MUTABLE:
                    mutable.append(item)
            elif kind == _FUNCTION:
                found = _closed_over(item)
            elif kind == _MESSAGE:
                found = (item.payload, *referents(item))
            elif item.owner is actor:
                found = [each.payload for each in item.waiting()]
            else:
                continue
            for part in found:
                if kinds[type(part)] > _OPAQUE and id(part) not in came_from:
                    came_from[id(part)] = item
                    queue.append(part)
        return _Reach(mutable, came_from)


def _beginnings(actor: Actor) -> Iterator[tuple[Any, str]]:
    """Yield what an actor holds at first hand, each with the name of the place."""
    yield actor.main, "start arguments"
    for task in actor.tasks.values():
        yield task.body if task.coro is None else task.coro, f"task {task.name}"
        yield task.value, f"task {task.name}, what it waited for"
    yield actor.process, "process"
    yield actor.mailbox, "mailbox"


def _named(item: Any) -> str:
    if isinstance(item, Mailbox):
        return item.name
    if isinstance(item, Message):
        return "message"
    name = getattr(item, "__qualname__", None)
    return name if isinstance(name, str) else type(item).__qualname__


def _closed_over(function: types.FunctionType) -> Iterable[Any]:
    """Return the objects that a function closes over, and its defaults: what else it refers to is its module's."""
    return (
        *(function.__closure__ or ()),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
    )


def _is_frozen(cls: type) -> bool:
    """Return whether instances refuse to have their attributes set: frozen attrs classes and dataclasses do."""
    params = getattr(cls, "__dataclass_params__", None)
    if params is not None and params.frozen:
        return True
    return getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs"


def _fingerprint(item: Any, values: tuple[type, ...]) -> bytes | None:
    """A digest of a tree: dicts and lists of what cannot change. None for anything else."""
    if not isinstance(item, dict | list):
        return None

    def plain(part: Any) -> Any:
        if isinstance(part, dict):
            return [[plain(key), plain(value)] for key, value in part.items()]
        if isinstance(part, list | tuple):
            return [plain(each) for each in part]
        if part is None or isinstance(part, str | bytes | int | float):
            return part
        if isinstance(part, (*_ATOMS, *values)) or _is_frozen(type(part)):
            return f"object {id(part)}"
        raise TypeError

    try:
        packed = msgpack.packb(plain(item))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return hashlib.blake2b(packed, digest_size=16).digest()
