"""Kubernetes issue 49956, pull request 49992: a watch from before the server's list misses what lies between.

A client lists at version 10. Somebody creates an object at version 11. An API server starts: its
watch cache lists at 11 and has no events yet. The client watches there from version 10. The server
compared the version with its oldest event, and there was none, so it took the start for one that it
could serve; its own watch on the store began after 11. The creation is never delivered, and nobody
notices.

The fix: while there is no event, the oldest start is the version of the cache's own list; below it
the answer is 410, and the client lists anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race

if TYPE_CHECKING:
    from actors import EventLog, Strategy
    from controlplane.cluster import Cluster
    from controlplane.gates import FixGates

NAMES = ("a", "b", "c")
OPERATIONS = 12
RESTARTS = 3


def build(gates: FixGates, strategy: Strategy, log: EventLog, options: dict[str, bool]) -> Cluster:
    """Somebody follows config maps, which come and go, and the server restarts now and then."""
    from controlplane.chaos import follower
    from controlplane.client.features import ClientFeatures
    from controlplane.cluster import APISERVER, Cluster, ClusterConfig

    config = ClusterConfig(
        gates=gates,
        kubelets=False,
        controllers=False,
        scheduler_watches=(),
        client=ClientFeatures(watch_list_client=options["watch-list"]),
    )
    cluster = Cluster(config, strategy=strategy, log=log, livelock_limit=20_000)
    follower.attach(cluster)
    cluster.user("user", follower.come_and_go, NAMES, OPERATIONS)
    cluster.user("chaos", follower.restarts, APISERVER, RESTARTS)
    return cluster


RACE = Race(
    number="49992",
    title="a watch from before the server's list misses what lies between",
    issue="49956",
    releases="bug: up to 1.7; fix: 1.8",
    component="apiserver",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves any more, an informer's store holds what the API server holds",
    options={"watch-list": False},
    build=build,
)
