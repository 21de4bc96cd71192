"""Kubernetes issue 83810, pull request 83911: a relisted object behind a queued deletion is dropped.

The watch tells that an object is deleted; that is still queued when the connection drops. The object is created
again, and the reflector lists anew. The queue ignored what a list said of an object whose deletion was queued
(a rule made for resyncs), so the new object was dropped: the informer never hears of it.

The fix takes the rule away for what a list says.
"""

from __future__ import annotations

from controlplane.races.race import Race
from controlplane.scenarios.churns.forgetful_server import scenario

SCENARIO = scenario("race 83911")
RACE = Race(
    module=__name__,
    releases="bug: before 1.17; fix: 1.17",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="an informer's store ends as the server's: nothing is missing in it",
    scenario=SCENARIO,
    schedules=600,
)
