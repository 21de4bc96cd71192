"""Building a Table from objects."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object
from controlplane.apiserver.resources import ResourceInfo

__all__ = ["table_of"]

Tree = dict[str, Any]


def table_of(
    info: ResourceInfo, items: list[Object], now: int, include: str, version: str
) -> Tree:
    """The Table of the objects."""
    return {"kind": "Table", "apiVersion": f"meta.k8s.io/{version}", "columnDefinitions": [],
            "rows": []}  # fmt: skip
