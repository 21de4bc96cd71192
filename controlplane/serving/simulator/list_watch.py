"""The stream of changes that kube-scheduler-simulator's page reads: one list and watch for each kind of an export.

Upstream: kubernetes-sigs/kube-scheduler-simulator, simulator/resourcewatcher and simulator/server/handler/watcher.go;
client-go tools/watch/retrywatcher.go.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio
from attrs import define, field, frozen

from controlplane.api.json_text import compact
from controlplane.apiserver.front.answering import HttpAnswer, untyped
from controlplane.apiserver.http.answer_bodies import Late
from controlplane.apiserver.http.message import END, StreamStart
from controlplane.apiserver.storage.watch_cache import WatchEvent
from controlplane.scenarios.inputs.simulator_files import KINDS
from controlplane.serving.inner_requests import AGENT, InnerRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.request import User
    from controlplane.api.tree import Tree
    from controlplane.scenarios.inputs.simulator_files import Kind
    from controlplane.serving.inner_requests import Ask

__all__ = ["ListWatch", "versions_of"]

PARAMETERS: Final = {
    "pods": "podsLastResourceVersion",
    "nodes": "nodesLastResourceVersion",
    "pvs": "pvsLastResourceVersion",
    "pvcs": "pvcsLastResourceVersion",
    "storageClasses": "scsLastResourceVersion",
    "priorityClasses": "pcsLastResourceVersion",
    "namespaces": "namespaceLastResourceVersion",
}
"""The query parameters, by the names of the lists of an export."""
ADDED: Final = "ADDED"
ERROR: Final = "ERROR"
SENT: Final = (ADDED, "MODIFIED", "DELETED")
PAUSE_S: Final = 1.0
"""The time, in seconds, between two watches of a kind. Upstream: RetryWatcher's minRestartDelay."""
HEADERS: Final = [("user-agent", AGENT), ("accept", "application/json")]
Push = Callable[[Any], None]


def versions_of(query: Mapping[str, list[str]]) -> dict[str, str]:
    """The resource version from which each kind is watched, by the names of an export's lists; "" for a list first."""
    return {name: (query.get(key) or [""])[0] for name, key in PARAMETERS.items()}


def line(kind: Kind, event: str, tree: Tree) -> bytes:
    """One event of the stream."""
    told = {"Kind": kind.resource, "EventType": event, "Obj": untyped(tree)}
    return compact(told) + b"\n"


class Streams(Protocol):
    """The entrance of requests into the world, with streams as answers."""

    @property
    def ask(self) -> Ask:
        """The entrance."""

    def hung_up(self, number: int) -> None:
        """Let the world know that the client of a stream is gone."""


@define
class _Watch:
    """One watch of a kind: the last version that came, and how it ended."""

    kind: Kind
    version: str
    over: trio.Event = field(factory=trio.Event)
    broken: bool = False
    """The server reported an error, which ends the whole stream."""

    def lines(self, piece: tuple[Any, ...]) -> tuple[bytes, ...]:
        """The lines of some events; notes their version, and an error."""
        found = []
        for each in piece:
            event, tree = _event(each)
            if event == ERROR:
                self.broken = True
                self.over.set()
                break
            self.version = tree["metadata"]["resourceVersion"]
            if event in SENT:
                found.append(line(self.kind, event, tree))
        return tuple(found)

    def take(self, piece: Any, push: Push) -> None:
        """Pass on what the API server answers to a watch."""
        if isinstance(piece, tuple):
            lines = self.lines(piece)
            if lines:
                push(lines)
        elif not isinstance(piece, StreamStart):
            self.broken = self.broken or isinstance(piece, HttpAnswer)
            self.over.set()


def _event(piece: WatchEvent | bytes | Late) -> tuple[str, Tree]:
    """Return type and object of an event, which comes as a value or as JSON."""
    if isinstance(piece, WatchEvent):
        return piece.type, piece.object.tree
    found = json.loads(piece if isinstance(piece, bytes) else piece.made())
    return found["type"], found["object"]


@frozen
class ListWatch:
    """The stream of one client.

    The lists come first, in the order of an export; then all kinds are watched at once, and events come in
    the order in which the API server sends them. A watch that ends is begun again after its last event; an error ends
    the stream.
    """

    _server: Streams
    _user: User
    _versions: Mapping[str, str]

    async def feed(self, push: Push) -> None:
        """Send the lines of the stream, until cancelled or until an error."""
        lists: list[bytes] = []
        watches: list[_Watch] = []
        for name, kind in KINDS.items():
            version = self._versions[name]
            if not version:
                found = await self._list(kind)
                if found is None:
                    push(END)
                    return
                version, trees = found
                lists += [line(kind, ADDED, tree) for tree in trees]
            watches.append(_Watch(kind, version))
        if lists:
            push(tuple(lists))
        async with trio.open_nursery() as nursery:
            for watch in watches:
                nursery.start_soon(self._keep, watch, push, nursery.cancel_scope)
        push(END)

    async def _list(self, kind: Kind) -> tuple[str, list[Tree]] | None:
        """The version and the objects of a list, None if the server refuses it."""
        requests = InnerRequests(self._server.ask, AGENT)
        code, found = await requests.begin("GET", kind.path, user=self._user).answer()
        return (found["metadata"]["resourceVersion"], found["items"]) if code == 200 else None

    async def _keep(self, watch: _Watch, push: Push, scope: trio.CancelScope) -> None:
        """Watch a kind again and again; an error cancels the watches of all kinds."""
        while watch.version != "0" and not watch.broken:
            watch.over = trio.Event()
            query = {
                "watch": ["true"],
                "allowWatchBookmarks": ["true"],
                "resourceVersion": [watch.version],
            }
            number = self._server.ask(
                "GET",
                watch.kind.path,
                query,
                [*HEADERS],
                b"",
                self._user,
                partial(watch.take, push=push),
            )
            try:
                await watch.over.wait()
            finally:
                if not watch.over.is_set() or watch.broken:
                    self._server.hung_up(number)
            if not watch.broken:
                await trio.sleep(PAUSE_S)
        scope.cancel()
