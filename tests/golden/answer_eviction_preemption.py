"""The kubelet's predicates, and what a critical pod displaces."""

from __future__ import annotations

from typing import Any

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.kubelet.node.admission import admit
from controlplane.kubelet.pod.preemption import PREEMPTED_CONDITION, PREEMPTED_STATUS


def answer(case: Any) -> Any:
    """A victim whose kill fails is passed over; the decision stands all the same."""
    pods = [Pod.from_tree(tree) for tree in case["pods"]]
    found = admit(Pod.from_tree(case["pod"]), Node.from_tree(case["node"]), pods)
    return {
        "admit": found.admitted,
        "reason": found.reason,
        "message": found.message,
        "killed": [
            {
                **PREEMPTED_STATUS,
                "conditions": [PREEMPTED_CONDITION],
                "evict": True,
                "grace_nil": True,
                "pod": pod.name,
            }
            for pod in found.victims
        ],
    }
