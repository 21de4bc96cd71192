"""Questions of controllers about namespaces."""

from __future__ import annotations

from typing import Any

from controlplane.client.errors import ApiError


def namespace_is_terminating(error: Exception) -> bool:
    """Return whether nothing can be created because the namespace is going away."""
    if not isinstance(error, ApiError):
        return False
    causes: list[dict[str, Any]] = (error.status.get("details") or {}).get("causes") or []
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
