"""All fix gates by number. Their order is that of a recording's header."""

from __future__ import annotations

from controlplane.gates import autoscaler, kubernetes, kueue, scheduler_plugins, storage
from controlplane.gates.fix_gate import FixGate

CATALOGUE: dict[str, FixGate] = {
    gate.number: gate
    for gate in (
        *kubernetes.GATES,
        *storage.GATES,
        *scheduler_plugins.GATES,
        *kueue.GATES,
        *autoscaler.GATES,
    )
}
