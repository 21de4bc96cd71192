"""Debug check for objects that actors share and that can change.

Between actors only messages travel, and what travels is immutable. `Sharing` walks everything that
each actor's tasks, mailboxes and start arguments reach, and reports what is mutable and reachable
from two actors.

Three kinds of objects are no report. *Values*: what cannot change (frozen attrs classes, tuples,
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
from collections import deque
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


_ATOM, _OPAQUE, _MAILBOX, _MESSAGE, _THROUGH, _MUTABLE = range(6)
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
        return _THROUGH if issubclass(cls, _TRANSPARENT) or _is_frozen(cls) else _MUTABLE


class _Way(NamedTuple):
    """The path to an object: the path before, and the last thing on it, or its name."""

    before: _Way | None
    last: Any

    def __str__(self) -> str:
        names = []
        way: _Way | None = self
        while way is not None:
            names.append(way.last if isinstance(way.last, str) else _named(way.last))
            way = way.before
        return " > ".join(reversed(names))


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
        owners: dict[int, tuple[str, _Way]] = {}
        for actor in self._kernel.actors.values():
            if actor.experimenter:
                continue
            for found, way in self._reached(actor):
                name, first = owners.setdefault(id(found), (actor.name, way))
                if name == actor.name or id(found) in self._trees:
                    continue
                where = f"reached by {name} ({first}) and by {actor.name} ({way})"
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

    def _reached(self, actor: Actor) -> Iterator[tuple[Any, _Way]]:
        """Yield the mutable objects that an actor reaches, each with its path."""
        kinds, kernel = self._kinds, self._kernel
        parts = (kernel.transport, kernel.timers, kernel.faults, kernel.TIMED_OUT)
        seen = {id(kernel), *map(id, parts)}
        queue: deque[tuple[Any, _Way]] = deque()

        def follow(parts: Iterable[Any], way: _Way) -> None:
            for part in parts:
                if kinds[type(part)] != _ATOM and id(part) not in seen:
                    seen.add(id(part))
                    queue.append((part, way))

        follow((actor.main,), _Way(None, "start arguments"))
        for task in actor.tasks.values():
            follow(
                (task.body if task.coro is None else task.coro,), _Way(None, f"task {task.name}")
            )
            follow((task.value,), _Way(None, f"task {task.name}, what it waited for"))
        follow((actor.process,), _Way(None, "process"))
        follow((actor.mailbox,), _Way(None, "mailbox"))
        while queue:
            item, way = queue.popleft()
            kind = kinds[type(item)]
            if kind == _OPAQUE:
                continue
            if kind == _MAILBOX:
                if item.owner is actor:
                    follow([each.payload for each in item.waiting()], _Way(way, item.name))
                continue
            if kind == _MESSAGE:
                follow((item.payload,), _Way(way, "message"))
            elif kind == _MUTABLE:
                yield item, way
            follow(_parts(item), _Way(way, item))


def _named(item: Any) -> str:
    name = getattr(item, "__qualname__", None)
    return name if isinstance(name, str) else type(item).__qualname__


def _parts(item: Any) -> Iterable[Any]:
    """Return the objects that an object refers to; of a function only those that it closes over."""
    if isinstance(item, types.FunctionType):
        return (
            *(item.__closure__ or ()),
            *(item.__defaults__ or ()),
            *(item.__kwdefaults__ or {}).values(),
        )
    return gc.get_referents(item)


def _is_frozen(cls: type) -> bool:
    """Return whether instances refuse to have their attributes set: frozen attrs classes do."""
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
