"""Queueing hints of DynamicResources, and the devices that the claims of the cluster hold."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.claims import allocated_state
from controlplane.scheduler.dra.hints import queue_after_claim, queue_after_pod
from tests.golden.runner import UNANSWERED


def answer(case: Any) -> Any:
    if len(case["ops"]) != 1 or case.get("gates"):
        return UNANSWERED
    cluster, (op,) = case["cluster"], case["ops"]
    claims = {_key(claim): claim for claim in cluster["resourceClaims"]}

    def find(namespace: str, name: str) -> Tree | None:
        return claims.get((namespace, name))

    (pod,) = (each for each in cluster["pods"] if each["metadata"]["name"] == op["pod"])
    shown: dict[str, Any] = {"allocated": _allocated(cluster["resourceClaims"]), "inFlight": []}
    if op["resource"] == "resourceclaims":
        queued = queue_after_claim(pod, op.get("old"), op["object"], find)
    elif op["resource"] == "pods":
        queued = queue_after_pod(pod, op["object"], find)
    else:
        return {"ops": [{**shown, "noFunction": True}]}
    return {"ops": [{**shown, "hint": "Queue" if queued else "QueueSkip"}]}


def _key(tree: Any) -> tuple[str, str]:
    return tree["metadata"].get("namespace", ""), tree["metadata"]["name"]


def _allocated(claims: list[Any]) -> dict[str, Any]:
    found = allocated_state(claims)
    shown = {
        "devices": sorted(map(str, found.devices)),
        "shares": sorted(map(str, found.shared)),
    }
    return {key: value for key, value in shown.items() if value}
