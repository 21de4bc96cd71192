"""Fix gates of scheduler-plugins. A new gate goes to the end."""

from __future__ import annotations

from controlplane.gates.fix_gate import FixGate

GATES: tuple[FixGate, ...] = (
    FixGate(
        number="sp930",
        title="a gang is admitted with a member that was rejected or is gone",
        issue="930",
        component="scheduler",
        variants=("counts-living",),
        fixed_in="",
    ),
    FixGate(
        number="here3",
        title="pods with a node do not count against a quota",
        issue="",
        component="scheduler",
        variants=("recounted",),
        fixed_in="",
    ),
)
