"""Requests of the session itself, as the administrator: they enter the world as those of clients do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import trio

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.http.message import packed
from controlplane.cluster_config import APISERVER
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.inlet import Inlet
    from controlplane.api.tree import Tree
    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.cluster import Cluster

__all__ = ["APPLY_PATCH", "MERGE", "Administrator", "path_of"]

APPLY_PATCH: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
_FIRST: Final = 1 << 40
"""The first number of these requests: far from those of connections."""


class Administrator:
    """The client of one session."""

    def __init__(self, cluster: Cluster, inlet: Inlet) -> None:
        self._cluster = cluster
        self._inlet = inlet
        self._number = _FIRST

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        media: str = JSON,
        answered: Callable[[Any], None] | None = None,
        **query: str,
    ) -> None:
        """Send a request, and do not wait for its answer."""
        self._number += 1
        data = b"" if body is None else json.dumps(body).encode()
        headers = [("content-type", media), ("accept", JSON), ("user-agent", "operator-session")]
        asked = {key: [value] for key, value in query.items()}
        value = packed(self._number, method, path, asked, headers, data, ADMIN)
        self._inlet.put(APISERVER, value, answered or _ignored)

    async def ask(
        self, method: str, path: str, body: Any = None, media: str = JSON, **query: str
    ) -> Any:
        """Return the JSON of the answer. Raises UsageError with the server's message."""
        found: list[Any] = []
        came = trio.Event()

        def answered(piece: Any) -> None:
            found.append(piece)
            came.set()

        self.send(method, path, body, media, answered, **query)
        await came.wait()
        answer = found[0]
        if not isinstance(answer, HttpAnswer):
            raise UsageError(f"{method} {path}: the API server is down")
        if answer.code >= 300:
            raise UsageError(f"{method} {path}: {answer.tree.get('message', answer.code)}")
        return answer.tree

    def info(self, resource: str) -> ResourceInfo | None:
        """Return a resource by its name, `deployments` or `deployments.apps`; None for an unknown one."""
        name, _, group = resource.partition(".")
        for info in self._table():
            if info.resource == name and (not group or info.group == group):
                return info
        return None

    def info_of_kind(self, api_version: str, kind: str) -> ResourceInfo | None:
        """Return the resource of a kind."""
        group, _, version = api_version.rpartition("/")
        for info in self._table():
            if (info.group, info.version, info.kind) == (group, version, kind):
                return info
        return None

    def stored(self, info: ResourceInfo, namespace: str, name: str) -> Tree | None:
        """Return an object as it is stored."""
        key = f"{namespace}/{name}" if info.namespaced else name
        entry = self._cluster.store.keyspace(info.storage_prefix).get(key)
        return None if entry is None else entry.object.tree

    def find(self, resource: str, namespace: str, name: str) -> Tree | None:
        """Return an object of the core group as it is stored."""
        entry = self._cluster.store.keyspace(f"/registry/{resource}/").get(f"{namespace}/{name}")
        return None if entry is None else entry.object.tree

    def _table(self) -> list[ResourceInfo]:
        servers = self._cluster.servers
        return list(servers[APISERVER].table) if APISERVER in servers else []


def path_of(info: ResourceInfo, namespace: str, name: str = "") -> str:
    """Return the path of an object, or of its collection."""
    root = f"/apis/{info.group}/{info.version}" if info.group else f"/api/{info.version}"
    place = f"/namespaces/{namespace}" if info.namespaced else ""
    return f"{root}{place}/{info.resource}{f'/{name}' if name else ''}"


def _ignored(_piece: Any) -> None:
    """An answer that is not waited for."""
