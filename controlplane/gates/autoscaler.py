"""Fix gates of the Cluster Autoscaler. A new gate goes to the end."""

from __future__ import annotations

from controlplane.gates.fix_gate import FixGate

GATES: tuple[FixGate, ...] = (
    FixGate(
        number="ca5235",
        title="a node is deleted with a pod that was bound to it meanwhile",
        issue="3886",
        component="cluster-autoscaler",
        variants=("waits",),
        fixed_in="1.26",
    ),
)
