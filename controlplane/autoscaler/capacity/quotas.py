"""CapacityQuotas: the limits that they set, and what nodes use of them.

Upstream: `resourcequotas/capacityquota/{controller,provider,validator}.go`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controlplane.api.decoding import decode
from controlplane.api.labels import EVERYTHING, Selector, SelectorError, from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.node import Node
from controlplane.api.quantity import Quantity, parse
from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.autoscaler.quotas import NODES, Quota, counted

__all__ = ["quota_of", "reconciled", "selector_of"]

VALID: Final = "cluster-autoscaler.kubernetes.io/valid"
RECONCILED: Final = "Reconciled"


def selector_of(tree: Tree) -> Selector:
    """Return the selector of nodes. Raises SelectorError."""
    given = tree["spec"].get("selector")
    return EVERYTHING if given is None else from_label_selector(decode(LabelSelector, given))


def quota_of(tree: Tree) -> Quota | None:
    """Return the quota of an object that was found valid."""
    known = (tree.get("status") or {}).get("conditions") or ()
    if not any(each["type"] == VALID and each["status"] == "True" for each in known):
        return None
    try:
        selector = selector_of(tree)
    except SelectorError:
        return None
    limits = {name: parse(str(most)).value() for name, most in _limits(tree).items()}
    return Quota(f"CapacityQuota/{tree['metadata']['name']}", limits, selector)


def reconciled(tree: Tree, nodes: Iterable[Node], now: int) -> Tree:
    """Return the status of an object, given all nodes."""
    generation = tree["metadata"].get("generation", 0)
    status: dict[str, Any] = {**(tree.get("status") or {}), "observedGeneration": generation}
    try:
        selector = selector_of(tree)
    except SelectorError as error:
        shown = json.dumps(tree["spec"].get("selector"), separators=(",", ":"), sort_keys=True)
        told = f"spec.selector: Invalid value: {shown}: {error}"
        found = [
            (VALID, "False", "ValidationFailed", told),
            (RECONCILED, "False", "ReconciliationFailed", "Validation failed"),
        ]
    else:
        used = _used(_limits(tree), [node for node in nodes if selector.matches(node.labels)])
        status["used"] = {"resources": used}
        done = "CapacityQuota successfully reconciled"
        found = [
            (VALID, "True", "ValidationSucceeded", "CapacityQuota is valid"),
            (RECONCILED, "True", "ReconciliationSucceeded", done),
        ]
    for kind, state, reason, message in found:
        made = {"type": kind, "status": state, "reason": reason, "message": message}
        status["conditions"] = _with(
            status.get("conditions") or [], {**made, "observedGeneration": generation}, now
        )
    return status


def _limits(tree: Tree) -> Mapping[str, Any]:
    found: Mapping[str, Any] = tree["spec"]["limits"]["resources"]
    return found


def _used(limits: Iterable[str], nodes: Iterable[Node]) -> dict[str, str]:
    used: dict[str, str] = {}
    tracked = [node for node in nodes if counted(node)]
    for name in limits:
        total = Quantity.parse("0")
        for node in tracked:
            amount = Quantity.parse("1") if name == NODES else node.status.capacity.get(name)
            total = total if amount is None else total + amount
        used[name] = str(total)
    return used


def _with(known: list[Any], made: dict[str, Any], now: int) -> list[Any]:
    """Return conditions with one set; its time is that at which its status changed."""
    old = next((each for each in known if each["type"] == made["type"]), None)
    kept = old is not None and old["status"] == made["status"]
    when = old["lastTransitionTime"] if kept and old is not None else format_time(now)
    made = {**made, "lastTransitionTime": when}
    if old is None:
        return [*known, made]
    return [made if each["type"] == made["type"] else each for each in known]
