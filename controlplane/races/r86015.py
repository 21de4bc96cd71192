"""Kubernetes pull request 86015: handlers are not notified of the changes that a relist found.

The watch drops, an object changes, and the reflector lists anew. What the list says was queued as Sync, as for a
resync, and such a notification reaches only those handlers for which a resync is due: no other handler is notified
of the change until the next one.

The fix: what a list says has a type of its own (Replaced), and all handlers are notified of it when the resource
versions differ.
"""

from __future__ import annotations

from controlplane.races.race import Race
from controlplane.scenarios.churns.forgetful_server import scenario

SCENARIO = scenario("race 86015")
RACE = Race(
    module=__name__,
    releases="bug: before 1.18; fix: 1.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every handler of an informer was notified of the last change of everything that it holds",
    scenario=SCENARIO,
    schedules=600,
)
