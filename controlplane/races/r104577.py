"""Kubernetes issue 104560: a pod that has ended takes room on its node until it is cleaned up.

A pod of a job ends, and its status says so. The scheduler gives its room to the next one, but the kubelet goes by
its workers: until the worker has cleaned up, the pod counts. The next one is refused with OutOfmemory or OutOfcpu.

Pull request 104577 let no pod count that has ended. Soon after, those that are being terminated had to count
again (104817), which brought the same back by another way, and 108366 shut that. So it is looked for here in
the world before 108366, and the fix is the one of its time.
"""

from __future__ import annotations

from controlplane.races.r108366 import NODE, run_to_their_end
from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.invariants.nodes import placed_pods_are_admitted

SCENARIO = Scenario(
    "race 104577",
    workload=run_to_their_end,
    invariants=(placed_pods_are_admitted(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.22.0; fix: 1.22.1",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod that the scheduler places where there is room is admitted",
    scenario=SCENARIO,
    schedules=100,
    # # A scheduler that is not notified early that a pod has ended (108366) cannot be too early either.
    broken={"without_fix": ("104577", "108366")},
    fixed={"fix": ("104577=terminal-never",), "without_fix": ("108366",)},
)
