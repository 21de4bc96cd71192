"""Paths that are no resources: discovery, version, health."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.apiserver.routing import HttpRequest, no_such_path

if TYPE_CHECKING:
    from controlplane.apiserver.server import ApiServer

__all__ = ["answer"]

Answer = tuple[int, dict[str, str | list[str]], Any, str | None]


def answer(server: ApiServer, http: HttpRequest) -> Answer:
    """Code, headers, JSON body, text body."""
    raise no_such_path()
