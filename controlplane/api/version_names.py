"""Names of API versions, and which one is preferred. Upstream: apimachinery, pkg/version."""

from __future__ import annotations

import re

__all__ = ["version_preference"]

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def version_preference(version: str) -> tuple[int, ...]:
    """Rank of a version, highest first: v10, v2, v1, v2beta1, v1alpha3, then other names by alphabet."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (-1, *(-ord(char) for char in version), 1)
    stage = {"alpha": 0, "beta": 1}.get(match[2], 2)
    return (stage, int(match[1]), int(match[3] or 0))
