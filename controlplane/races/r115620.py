"""Kubernetes issue 115658, pull request 115620: an object deleted while its addition was queued stays in the cache.

An object is created; its addition is still queued in the informer when the watch drops. The object is deleted,
and the reflector lists anew, without it. Replace compared the list with the store only, where the object was not
yet: so nothing said that it is gone. Then the queued addition is taken in, and the object stays in the cache for
ever.

The fix: Replace also looks at what is queued, and adds a deletion for it.
"""

from __future__ import annotations

from controlplane.races.race import Race
from controlplane.scenarios.churns.forgetful_server import scenario

SCENARIO = scenario("race 115620")
RACE = Race(
    module=__name__,
    releases="bug: before 1.27; fix: 1.27",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="an informer's store ends as the server's: nothing is left in it that is gone",
    scenario=SCENARIO,
    schedules=600,
)
