"""Small stored objects for the client's tests."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object


def obj(name: str, version: int = 1, *, uid: str = "", **labels: str) -> Object:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
    }
    return Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
