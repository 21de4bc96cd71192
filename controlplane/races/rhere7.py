"""Kueue parks a workload that changes while it is tried with its new shape.

No issue is known. Since pull request 9698 Kueue remembers the shape of a workload that does not fit, and parks others
of that shape untried until something is released. It remembers the shape that the workload has when it is parked,
which need not be the one that was tried. The priority belongs to the shape: raised during the cycle, it counts as one
that was found not to fit, and the workload stays parked although it could preempt others, pull request 9661
notwithstanding.

The repair that is proposed here lets a workload whose shape has changed be tried again at once.
"""

from __future__ import annotations

from controlplane.races.race import Race
from controlplane.races.rkq9661 import raised
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import kueue_alone
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_PARKED_COULD_PREEMPT

SCENARIO = Scenario(
    "race here7",
    workload=raised,
    build=kueue_alone,
    invariants=(AT_REST_NOTHING_PARKED_COULD_PREEMPT,),
)
RACE = Race(
    module=__name__,
    releases="since 0.17, open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no workload is parked that could preempt others, once quiet",
    scenario=SCENARIO,
    schedules=400,
)
