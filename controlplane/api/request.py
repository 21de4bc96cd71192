"""Requests to the API server and their answers: the values that travel between components and server."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from controlplane.api.container_inside import Inside
from controlplane.api.host_access import Reached
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.sharing.quick_init import quick_init

__all__ = [
    "ADMIN",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Bound",
    "Request",
    "Response",
    "User",
]


JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@frozen
class Bound:
    """An object without which a token does not hold: a pod, a secret or a node."""

    resource: str
    name: str
    uid: str


@frozen
class User:
    """The user of a request. `extra` holds further attributes, `bound` the object whose deletion ends the token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bound: tuple[Bound, ...] = ()


ADMIN = User("system:admin", "", ("system:masters", "system:authenticated"))


@frozen(eq=False)
class FollowedLog:
    """A log of which `sent` lines have been looked at, and whose client waits for more."""

    request: Request
    uid: str
    container: str
    sent: int


@quick_init
@frozen(eq=False, weakref_slot=False)
class Request:
    """One API request.

    `verb` is get, list, watch, create, update, patch, delete, deletecollection or connect. Query
    values are plain texts (the first one where several were given). `body` is the parsed tree, None
    when there was no body; `raw` the bytes, where a handler needs them.
    """

    verb: str
    group: str = ""
    version: str = "v1"
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: dict[str, str] = field(factory=dict)
    body: Any = None
    content_type: str = JSON
    user_agent: str = ""
    user: User = ADMIN
    accept: str = ""
    raw: bytes = b""
    path: str = ""
    body_issues: tuple[str, ...] = ()
    upgrade: str = ""
    """The protocol to which the client would change the connection, if any."""

    @property
    def label(self) -> str:
        """Return its name in the event log: verb, resource and subresource."""
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {self.resource}{sub}"

    @property
    def manager(self) -> str:
        """The field manager: the parameter, else the first word of the user agent."""
        named = self.query.get("fieldManager", "")
        return named or self.user_agent.partition("/")[0]


@quick_init
@frozen(eq=False, weakref_slot=False)
class Response:
    """One answer.

    `tree` is the body. For a single stored object `object` is the shared revision whose bytes and
    view are cached; `tree` is its tree. For a list `items` are the shared objects.
    """

    code: int
    tree: Tree
    object: Object | None = None
    items: list[Object] | None = None
    warnings: list[str] = field(factory=list)
    headers: dict[str, str] = field(factory=dict)
    content: bytes | None = None
    content_type: str = JSON
    followed: FollowedLog | None = None
    """The remainder of a followed log."""
    audit: dict[str, str] = field(factory=dict)
    """The audit annotations of admission."""
    entered: Inside | Reached | None = None
    """The target of an upgraded connection: a container, or a target on the serving machine."""

    @property
    def ok(self) -> bool:
        """True for 2xx."""
        return self.code < 300

    @property
    def reason(self) -> str:
        """The reason of a Status body, "" when there is none."""
        if self.code < 300:
            return ""
        reason: str = self.tree.get("reason", "")
        return reason

    @property
    def message(self) -> str:
        """The message of a Status body, "" when there is none."""
        if self.code < 300:
            return ""
        message: str = self.tree.get("message", "")
        return message
