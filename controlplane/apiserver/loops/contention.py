"""Conflicts of requests: whether another one can come between the read and the write of a request.

A request reads its object, asks admission about others, and writes if the object was not written
meanwhile. Each of these is a point of its own. Where no other request that waits or is under way
conflicts, the points are left out, as they have no visible effect: whatever could happen there,
messages that are yet to be sent included, could as well have happened before the request began, and
then it would be among those that wait. An external request of which only the first line is read yet
is judged by that line: one that creates may have any name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from actors.inlet import ExternalMessage
from controlplane.api.request import Request
from controlplane.apiserver.requests.looked_up import ALLOCATING, BESIDE, LOOKED_UP
from controlplane.apiserver.requests.routing import LONGEST_KNOWN, RequestLine, request_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Message

__all__ = [
    "READ_VERBS",
    "UNREAD",
    "Crowd",
    "from_outside",
    "line_of",
    "meets",
    "resource_from_outside",
]

READ_VERBS = ("get", "list", "watch")
UNREAD: Final = object()
"""Stands for the body of a request from outside."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
FEW: Final = 4
"""The number of latest requests that are not counted."""
PLANS: Final = 1024
"""The number of sorts of requests whose cells are remembered; the next one clears them all."""


def meets(one: Request, other: Request, has_quotas: Callable[[str], bool]) -> bool:
    """Return whether the order of the parts of two requests can make a difference.

    `has_quotas` says of a namespace whether creations in it are counted.
    """
    if one.verb in READ_VERBS or other.verb in READ_VERBS:
        return False
    mine, theirs = _resource(one), _resource(other)
    if mine in LOOKED_UP or theirs in LOOKED_UP:
        return True
    if BESIDE.get(one.subresource) == theirs or BESIDE.get(other.subresource) == mine:
        return True
    if one.verb == other.verb == "create" and not one.subresource and not other.subresource:
        if mine == theirs and mine in ALLOCATING:
            return True
        return one.namespace == other.namespace and has_quotas(one.namespace)
    if mine != theirs or one.namespace != other.namespace:
        return False
    if mine in ALLOCATING:
        return True
    names = _names(one), _names(other)
    return None in names or names[0] == names[1]


def _resource(request: Request) -> str:
    return "pods" if request.resource == "bindings" else request.resource


def _names(request: Request) -> str | None:
    """The name of the one object that a request is about, None if it is about many or that is not known."""
    if request.name or request.verb == "deletecollection" or request.body is UNREAD:
        return request.name or None
    body = request.body
    meta = body.get("metadata") if isinstance(body, dict) else None
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else ""


def line_of(message: ExternalMessage) -> RequestLine:
    """Return the first line of a request from outside, parsed; one without a path for a notice of a connection."""
    value = message.value
    return request_line(value.get("m", ""), value.get("p", ""))


def from_outside(message: ExternalMessage) -> Request | None:
    """Return the target of an external request; None if it is unknown. Connection notices count as reads."""
    line = line_of(message)
    if line.method not in _VERBS:
        return _READS
    return _known(line.method, line.path) if len(line.path) <= LONGEST_KNOWN else _written(line)


def _written(line: RequestLine) -> Request | None:
    target = line.target
    if target is None or not target.resource:
        return None
    verb = _VERBS[line.method]
    if verb == "delete" and not target.name:
        verb = "deletecollection"
    return Request(
        verb,
        target.group,
        target.version,
        target.resource,
        target.namespace,
        target.name,
        target.subresource,
        body=UNREAD,
    )


@lru_cache(maxsize=1024)
def _known(method: str, path: str) -> Request | None:
    return _written(request_line(method, path))


_READS: Final = Request("get")


def resource_from_outside(message: ExternalMessage) -> tuple[str, str, str]:
    """Group, version and resource that a request from outside is about, reads included; empty for other paths."""
    target = line_of(message).target
    return ("", "", "") if target is None else (target.group, target.version, target.resource)


class _Cell:
    """The number of requests of one sort, and of those about one object the number per name."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.count = 0
        self.names: dict[str, int] = {}


class _Plan:
    """For all requests that differ in their names only: where each is counted, and what it asks for."""

    __slots__ = ("created", "creates", "many", "named", "quotas", "shown", "somewhere", "sought")

    def __init__(self, one: Request, cell: Callable[..., _Cell]) -> None:
        mine, namespace = _resource(one), one.namespace
        self.creates = one.verb == "create" and not one.subresource
        self.shown = [cell("writes"), cell("of", mine)]
        if mine in LOOKED_UP:
            self.shown.append(cell("looked up"))
        if one.subresource in BESIDE:
            self.shown.append(cell("beside", BESIDE[one.subresource]))
        created, others = ("created", mine, namespace), ("at", mine, namespace)
        if self.creates:
            self.shown += [cell("creation", namespace), cell("created", mine), cell(*created)]
        else:
            self.shown.append(cell(*others))
        self.many = cell("created by many" if self.creates else "many", mine, namespace)
        self.named = cell("created named" if self.creates else "named", mine, namespace)
        self.sought = [cell("looked up"), cell("beside", mine)]
        if mine in LOOKED_UP:
            self.sought.append(cell("writes"))
        if one.subresource in BESIDE:
            self.sought.append(cell("of", BESIDE[one.subresource]))
        if mine in ALLOCATING:
            self.sought.append(cell(*others))
            self.sought.append(cell("created", mine) if self.creates else cell(*created))
        self.somewhere = [cell("many", mine, namespace)]
        self.created = [cell("named", mine, namespace)]
        if not self.creates:
            self.somewhere.append(cell("created by many", mine, namespace))
            self.created.append(cell("created named", mine, namespace))
        self.quotas = cell("creation", namespace)


class Crowd:
    """The requests that wait or are under way, counted so that none has to be examined one by one.

    In a large cluster thousands wait at once. Each is counted in a few cells, and a query looks into the
    cells of the requests that it conflicts with: `meets_any` equals `meets` of each. The latest
    few are not counted yet, and each is compared: where few wait nothing is counted at all.
    """

    __slots__ = ("_cells", "_last", "_plans", "_unknown", "size")

    def __init__(self) -> None:
        self.size = 0
        """The number of requests, reads included."""
        self._last: list[object] = []
        self._unknown = 0
        self._plans: dict[tuple[bool, str, str, str], _Plan] = {}
        self._cells: dict[tuple[str, ...], _Cell] = {}

    def come(self, request: object) -> None:
        """One more."""
        self.size += 1
        last = self._last
        last.append(request)
        if len(last) > FEW:
            for each in last:
                self._count(each, 1)
            last.clear()

    def go(self, request: object) -> None:
        """One goes, the very object that had come."""
        self.size -= 1
        last = self._last
        for at, each in enumerate(last):
            if each is request:
                del last[at]
                return
        self._count(request, -1)

    def arrived(self, message: Message) -> None:
        """A message waits in the mailbox that this is the census of."""
        self.come(message.payload)

    def taken(self, message: Message) -> None:
        """It waits no more."""
        self.go(message.payload)

    def meets_any(self, one: Request | None, has_quotas: Callable[[str], bool]) -> bool:
        """Return whether a request conflicts with one of these. An unknown one (None) conflicts with every other."""
        if one is None:
            return self.size > 0
        if one.verb in READ_VERBS:
            return False
        for each in self._last:
            other = from_outside(each) if isinstance(each, ExternalMessage) else each
            if not isinstance(other, Request) or meets(one, other, has_quotas):
                return True
        if self._unknown:
            return True
        if self.size == len(self._last):
            return False
        plan = self._plan(one)
        for cell in plan.sought:
            if cell.count:
                return True
        for cell in plan.somewhere:
            if cell.count:
                return True
        name = _names(one)
        for cell in plan.created:
            if cell.count and (name is None or name in cell.names):
                return True
        return plan.creates and plan.quotas.count > 0 and has_quotas(one.namespace)

    def _count(self, request: object, by: int) -> None:
        """Count one that came, or that goes."""
        if isinstance(request, ExternalMessage):
            request = from_outside(request)
        if not isinstance(request, Request):
            self._unknown += by
            return
        if request.verb in READ_VERBS:
            return
        plan = self._plan(request)
        for cell in plan.shown:
            cell.count += by
        name = _names(request)
        if name is None:
            plan.many.count += by
            return
        named = plan.named
        named.count += by
        left = named.names.get(name, 0) + by
        if left:
            named.names[name] = left
        else:
            del named.names[name]

    def _plan(self, one: Request) -> _Plan:
        key = (one.verb == "create", one.resource, one.namespace, one.subresource)
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= PLANS:
                self._plans.clear()
                self._cells = {at: cell for at, cell in self._cells.items() if cell.count}
            found = self._plans[key] = _Plan(one, self._cell)
        return found

    def _cell(self, *at: str) -> _Cell:
        found = self._cells.get(at)
        if found is None:
            found = self._cells[at] = _Cell()
        return found
