"""Policies, scopes and options of the topology manager, and how hints are merged."""

from __future__ import annotations

from typing import Any

from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.topologymanager.hints import nodes_of
from controlplane.kubelet.cm.topologymanager.manager import TopologyManager
from tests.golden.kubelet_machines import hints_of, memory_of


def answer(case: Any) -> Any:
    """One merge."""
    try:
        manager = TopologyManager(
            memory_of(case["nodes"]), case["policy"], case["scope"], case.get("options")
        )
    except ManagerError as error:
        return {"error": str(error)}
    hint, admit = manager.merge([hints_of(given) for given in case["providers"]])
    nodes = None if hint.mask is None else list(nodes_of(hint.mask))
    return {
        "admit": admit,
        "error": None,
        "hint": {"nodes": nodes, "preferred": hint.preferred},
        "policy": manager.policy_name,
        "scope": manager.scope,
    }
