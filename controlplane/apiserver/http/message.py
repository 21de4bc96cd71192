"""The values between the HTTP boundary and the world: requests inwards as plain values, answers outwards as objects.

A request is a map that MessagePack can hold, because it is recorded: `n` its number, `m` method,
`p` path, `q` query, `h` headers, `b` body, `u` the user. It holds no credentials and no header that
no decision depends on. `{"gone": n}` says that the client of request `n` closed the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.container_inside import Inside
from controlplane.api.request import Bound, User
from controlplane.apiserver.http.impersonation import EXTRA
from controlplane.apiserver.requests.routing import HttpRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CUT",
    "END",
    "StreamStart",
    "attached",
    "defect",
    "gone",
    "packed",
    "to_request",
    "written",
]

KEPT_HEADERS: Final = (
    "accept",
    "content-type",
    "if-none-match",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-user",
    "upgrade",
    "user-agent",
)


@frozen
class StreamStart:
    """The answer is a stream: tuples of events (or of lines made of them) follow, then END."""

    content_type: str


class _End:
    """The last piece of a stream."""


END: Final = _End()


class _Cut:
    """The connection ends here, without an answer."""


CUT: Final = _Cut()


def packed(
    number: int,
    method: str,
    path: str,
    query: dict[str, list[str]],
    headers: Iterable[tuple[str, str]],
    body: bytes,
    user: User,
) -> dict[str, Any]:
    """A request as it enters the world. The first of repeated headers counts, as in Go; groups add up."""
    kept: dict[str, str] = {}
    for name, value in headers:
        if name not in KEPT_HEADERS and not name.startswith(EXTRA):
            continue
        if name not in kept:
            kept[name] = value
        elif name == "impersonate-group":
            kept[name] = f"{kept[name]}, {value}"
    return {
        "n": number,
        "m": method,
        "p": path,
        "q": query,
        "h": kept,
        "b": body,
        "u": _packed_user(user),
    }


def _packed_user(user: User) -> list[Any]:
    """Name, uid and groups; for an account by its token also what else is known, and what it is bound to."""
    plain: list[Any] = [user.name, user.uid, list(user.groups)]
    if not user.extra and not user.bound:
        return plain
    bound = [[each.resource, each.name, each.uid] for each in user.bound]
    return [*plain, [[key, list(values)] for key, values in user.extra], bound]


def gone(number: int) -> dict[str, Any]:
    """The news that the client of a stream hung up."""
    return {"gone": number}


def defect(told: dict[str, Any]) -> dict[str, Any]:
    """The news that a connection ended with an exception of ours."""
    return {"defect": told}


def written(place: str, path: str, data: bytes | None, *, hides: bool) -> dict[str, Any]:
    """The news that a client's session wrote a file in a container, or (None) removed it."""
    return {"wrote": [place, path, data, hides]}


def attached(inside: Inside, text: str, code: int | None) -> dict[str, Any]:
    """The news of what a client's session at the standard input of a container came to."""
    uid, _, container = inside.key.partition("/")
    run = inside.layer.removeprefix(f"layer/{inside.key}/")
    return {"attached": [inside.node, uid, container, run, text, code]}


def to_request(value: dict[str, Any]) -> HttpRequest:
    """The request that `packed` made."""
    name, uid, groups, *more = value["u"]
    extra, bound = more or ((), ())
    user = User(
        name,
        uid,
        tuple(groups),
        tuple((key, tuple(values)) for key, values in extra),
        tuple(Bound(*each) for each in bound),
    )
    return HttpRequest(value["m"], value["p"], value["q"], value["h"], value["b"], user)
