"""A small operator: every Job of work in `tasks.example.dev` gets a config map, and says so."""

from __future__ import annotations

from typing import Any

import kopf
from kubernetes import client, config

KIND = ("example.dev", "v1", "tasks")


@kopf.on.startup()
def begin(settings: kopf.OperatorSettings, **_: Any) -> None:
    config.load_kube_config()
    settings.posting.level = 20


@kopf.on.create(*KIND)
def made(spec: Any, name: str, namespace: str | None, **_: Any) -> dict[str, str]:
    body = {"metadata": {"name": f"{name}-made"}, "data": {"word": spec["word"]}}
    kopf.adopt(body)
    client.CoreV1Api().create_namespaced_config_map(namespace, body)
    return {"made": body["metadata"]["name"]}


@kopf.on.update(*KIND, field="spec.word")
def changed(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["words"] = f"{old} {new}"


@kopf.on.delete(*KIND)
def gone(name: str, namespace: str | None, **_: Any) -> None:
    client.CoreV1Api().delete_namespaced_config_map(f"{name}-made", namespace)
