"""Objects that are there before a server has clients: installations that a world begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import Request
from controlplane.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.tree import Tree
    from controlplane.apiserver.requests.server import ApiServer

__all__ = ["install"]

CONFLICT: Final = 409


def install(
    server: ApiServer, objects: Iterable[tuple[tuple[str, str, str], Tree]], now: int
) -> None:
    """Create objects; what is there already stays as it is.

    Args:
        server: A server that has no clients yet.
        objects: Group, version and plural name of the resource, and the object.
        now: Time of the creation in nanoseconds since the Unix epoch.

    Raises:
        UsageError: The server refuses one.
    """
    for (group, version, plural), tree in objects:
        metadata = tree["metadata"]
        made = Request("create", group, version, plural, metadata.get("namespace", ""), body=tree)
        response: Any = server.handle(made, now)
        if not response.ok and response.code != CONFLICT:
            raise UsageError(f"{tree['kind']}/{metadata['name']}: {response.message}")
        server.settle(now)
