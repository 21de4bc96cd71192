"""Quotas: the usage of one object, and of all objects of a namespace."""

from __future__ import annotations

from typing import Any

from controlplane.api.quantity import parse
from controlplane.api.quota import in_scope, tracked, usage_of
from controlplane.controllers.lifecycle.resourcequota.usage import calculate_usage
from tests.golden.controller_world import START
from tests.golden.runner import difference

KINDS = {"pod": "pods", "pvc": "persistentvolumeclaims", "service": "services"}


def compare(want: Any, got: Any) -> str | None:
    for name in ("usage", "used"):
        if name in want and set(want[name]) == set(got[name]):
            want[name] = {key: parse(text).canonical() for key, text in want[name].items()}
            got[name] = {key: parse(text).canonical() for key, text in got[name].items()}
    return difference(want, got)


def answer(case: Any) -> Any:
    if "hard" in case:
        return _calculate(case)
    (name,) = (name for name in KINDS if name in case)
    usage = usage_of("", KINDS[name], case[name], START)
    return {"error": None, "usage": {key: str(amount) for key, amount in usage.items()}}


def _calculate(case: Any) -> Any:
    objects = {
        ("", "pods"): case["pods"],
        ("", "persistentvolumeclaims"): case["pvcs"],
        ("", "services"): case["services"],
        ("", "secrets"): case["secrets"],
    }
    spec = {name: case[name] for name in ("hard", "scopes", "scopeSelector") if name in case}
    used = calculate_usage(spec, objects, START)
    return {
        "used": {name: str(amount) for name, amount in used.items()},
        # Which pods concern a quota follows from status.hard, which the cases leave out.
        "matchingPods": [
            tree["metadata"]["name"]
            for tree in case["pods"]
            if tracked("", "pods", case.get("status", {}).get("hard", ()))
            and in_scope("", "pods", spec, tree)
        ],
    }
