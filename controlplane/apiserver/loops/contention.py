"""Which requests meet: whether another one can come between what a request reads and what it writes.

A request reads its object, asks admission about others, and writes if nobody wrote the object
meanwhile. Each of these is a point of its own. Where no other request that waits or is under way
meets it, the points are left out, for nothing can be seen from them: whatever could happen there,
messages that are yet to be sent among it, could as well have happened before the request began, and
then it would be among those that wait. A request from outside, of which nothing but its first line is
read yet, is taken for what that line says: one that creates may be about any name.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from actors.inlet import ExternalMessage
from controlplane.api.request import Request
from controlplane.apiserver.requests.routing import parse_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Message

__all__ = ["READ_VERBS", "UNREAD", "Crowd", "from_outside", "meets"]

READ_VERBS = ("get", "list", "watch")
LOOKED_UP = frozenset(
    (
        "clusterrolebindings", "clusterroles", "customresourcedefinitions", "ingressclasses",
        "limitranges", "namespaces", "priorityclasses", "resourcequotas", "rolebindings", "roles",
        "runtimeclasses", "serviceaccounts", "storageclasses",
    )
)  # fmt: skip
"""Resources that admission looks at when it is asked about others."""
ALLOCATING = ("services",)
"""Resources whose objects share a range of addresses and ports."""
BESIDE = {"resize": "nodes", "eviction": "poddisruptionbudgets"}
"""Subresources of pods that look at one more resource."""
UNREAD: Final = object()
"""Stands for the body of a request from outside."""
_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
FEW: Final = 4
"""So many that came last are not counted."""
LONG: Final = 1024
"""Longer paths are not remembered."""


def meets(one: Request, other: Request, has_quotas: Callable[[str], bool]) -> bool:
    """Whether the order of the parts of two requests can make a difference.

    `has_quotas` tells of a namespace whether creations in it are counted.
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


def from_outside(message: ExternalMessage) -> Request | None:
    """What a request from outside is about; None if that is not to be told. News of a connection reads."""
    method, path = message.value.get("m"), message.value.get("p", "")
    if method not in _VERBS:
        return _READS
    return _about(method, path) if len(path) <= LONG else _told_by(method, path)


_READS: Final = Request("get")


def _told_by(method: str, path: str) -> Request | None:
    target = parse_path(path)
    if target is None or not target.resource:
        return None
    verb = _VERBS[method]
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


_about = lru_cache(maxsize=1024)(_told_by)


class Crowd:
    """The requests that wait or are under way, counted so that nobody has to look at each of them.

    In a large cluster thousands wait at once. Each is counted under a few keys, and whoever asks looks for the
    keys under which those stand that it meets: `meets_any` is the same as asking `meets` of each. A few that
    came last are not counted yet, and each is asked: where few wait nothing is counted at all.
    """

    __slots__ = ("_counts", "_last", "size")

    def __init__(self) -> None:
        self.size = 0
        """How many there are, those that read among them."""
        self._counts: dict[Key, int] = {}
        self._last: list[object] = []

    def come(self, request: object) -> None:
        """One more."""
        self.size += 1
        last = self._last
        last.append(request)
        if len(last) > FEW:
            counts = self._counts
            for each in last:
                for key in _shown(each):
                    counts[key] = counts.get(key, 0) + 1
            last.clear()

    def go(self, request: object) -> None:
        """One goes, the very object that had come."""
        self.size -= 1
        last = self._last
        for at, each in enumerate(last):
            if each is request:
                del last[at]
                return
        counts = self._counts
        for key in _shown(request):
            left = counts[key] - 1
            if left:
                counts[key] = left
            else:
                del counts[key]

    def arrived(self, message: Message) -> None:
        """A message waits in the mailbox that this is the census of."""
        self.come(message.payload)

    def taken(self, message: Message) -> None:
        """It waits no more."""
        self.go(message.payload)

    def meets_any(self, one: Request | None, has_quotas: Callable[[str], bool]) -> bool:
        """Whether a request meets one of these. One of which nothing is known meets everybody, and all meet it."""
        counts = self._counts
        if one is None:
            return self.size > 0
        if one.verb in READ_VERBS:
            return False
        for each in self._last:
            other = from_outside(each) if isinstance(each, ExternalMessage) else each
            if not isinstance(other, Request) or meets(one, other, has_quotas):
                return True
        return bool(counts) and (
            any(key in counts for key in _sought(one))
            or (
                _is_creation(one)
                and (_CREATION, one.namespace) in counts
                and has_quotas(one.namespace)
            )
        )


Key = tuple[str, ...]
_UNKNOWN, _WRITES, _LOOKED_UP = "unknown", "writes", "looked up"
_OF, _BESIDE = "of", "beside"
_CREATION, _CREATED, _CREATED_AT = "creation", "created", "created at"
_CREATED_SOMEWHERE = "created somewhere"
_NAMED, _MANY, _AT = "named", "many", "at"


def _is_creation(request: Request) -> bool:
    return request.verb == "create" and not request.subresource


def _shown(request: object) -> tuple[Key, ...]:
    """Under which keys a request is counted."""
    if isinstance(request, ExternalMessage):
        request = from_outside(request)
    if not isinstance(request, Request):
        return ((_UNKNOWN,),)
    if request.verb in READ_VERBS:
        return ()
    resource, namespace, name = _resource(request), request.namespace, _names(request)
    keys: tuple[Key, ...] = ((_WRITES,), (_OF, resource))
    if resource in LOOKED_UP:
        keys += ((_LOOKED_UP,),)
    if request.subresource in BESIDE:
        keys += ((_BESIDE, BESIDE[request.subresource]),)
    if _is_creation(request):
        return (
            *keys,
            (_CREATION, namespace),
            (_CREATED, resource),
            (_CREATED, resource, namespace),
            (_CREATED_SOMEWHERE, resource, namespace)
            if name is None
            else (_CREATED_AT, resource, namespace, name),
        )
    if name is None:
        return (*keys, (_AT, resource, namespace), (_MANY, resource, namespace))
    return (*keys, (_AT, resource, namespace), (_NAMED, resource, namespace, name))


def _sought(one: Request) -> Iterator[Key]:
    """Under which keys those stand that a writing request meets; but for what quotas count."""
    mine, namespace, name = _resource(one), one.namespace, _names(one)
    yield (_UNKNOWN,)
    yield (_LOOKED_UP,)
    if mine in LOOKED_UP:
        yield (_WRITES,)
    if one.subresource in BESIDE:
        yield _OF, BESIDE[one.subresource]
    yield _BESIDE, mine
    all_of_them = mine in ALLOCATING or name is None
    if all_of_them:
        yield _AT, mine, namespace
    else:
        yield _MANY, mine, namespace
        yield _NAMED, mine, namespace, name or ""
    if not _is_creation(one):
        if all_of_them:
            yield _CREATED, mine, namespace
        else:
            yield _CREATED_SOMEWHERE, mine, namespace
            yield _CREATED_AT, mine, namespace, name or ""
    elif mine in ALLOCATING:
        yield _CREATED, mine
