"""What controllers ask about namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controlplane.client.errors import ApiError


def namespace_is_terminating(error: ApiError) -> bool:
    """Whether nothing can be created because the namespace is going away."""
    causes: list[dict[str, Any]] = (error.status.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
