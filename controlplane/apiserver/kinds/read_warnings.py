"""Warnings that every answer about a kind has. They stand apart from the kinds: a list needs nothing else of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.apiserver.schema.releases import reached

__all__ = ["warnings_of"]

_ENDPOINTS: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
_WARNINGS: Final[Mapping[tuple[str, str], tuple[int, str]]] = {("", "endpoints"): (33, _ENDPOINTS)}
"""By group and resource: the first minor release with a warning, and its text.

Upstream: APILifecycleDeprecated of the types; a server older than the deprecation does not warn.
"""


def warnings_of(group: str, resource: str, earlier: str) -> tuple[str, ...]:
    """Return the warnings that every answer about a resource brings; `earlier` is the release, "" for the latest."""
    since, text = _WARNINGS.get((group, resource), (0, ""))
    return (text,) if text and reached(earlier, since) else ()
