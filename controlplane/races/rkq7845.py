"""kueue 7845: a parked workload never says why it waits.

When a workload does not fit, the scheduler parks it and writes into its status why. The write carried the version of
the workload that had been popped. Any change in between, of a label, say, made it a conflict, which is only logged.
The change itself does not make the workload worth trying again: its status stays empty until something else happens.

With the fix the write carries no version (pull request 7845).
"""

from __future__ import annotations

from controlplane.races.race import Race
from controlplane.races.rkq9598 import labelled
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import kueue_alone
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_THE_PARKED_SAY_WHY

SCENARIO = Scenario(
    "race kq7845", workload=labelled, build=kueue_alone, invariants=(AT_REST_THE_PARKED_SAY_WHY,)
)
RACE = Race(
    module=__name__,
    releases="up to 0.14; fixed in 0.15",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a parked workload says why it waits, once quiet",
    scenario=SCENARIO,
    schedules=200,
)
