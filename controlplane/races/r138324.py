"""Kubernetes issue 138316, pull request 138324: a recreated pod leaks its in-flight entry in the scheduler.

The scheduling queue keeps pods in flight by uid, but its failure handler reads the pod from the
informer by name. If the pod was deleted and created again under its name between Pop and that read,
the handler goes on with the new object: it ends the flight of a uid that never took off, and the
old one stays in flight for ever. From then on every event that interests any plugin is kept for it.
Scheduling decisions stay right; memory and the metric inflight_events grow.

The fix, as merged, returns early when the uids differ. Its first revision threaded the popped uid
through instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race

if TYPE_CHECKING:
    from actors import EventLog, Strategy
    from controlplane.cluster import Cluster
    from controlplane.gates import FixGates

NAMES = ("web-0", "web-1")
OPERATIONS = 8


def build(gates: FixGates, strategy: Strategy, log: EventLog, options: dict[str, bool]) -> Cluster:
    """Two small nodes, the scheduler, and a user whose pods come and go under two names."""
    from controlplane.chaos import scheduler_invariants
    from controlplane.chaos.churn import churn
    from controlplane.cluster import Cluster, ClusterConfig, node_tree

    config = ClusterConfig(
        nodes=(node_tree("node-1", cpu="2"), node_tree("node-2", cpu="2")),
        gates=gates,
        kubelets=False,
        controllers=False,
        queueing_hints=options["queueing-hints"],
        scheduler_watches=(),
    )
    cluster = Cluster(config, strategy=strategy, log=log, livelock_limit=20_000)
    cluster.user("user", churn, NAMES, OPERATIONS)
    every = options["all-invariants"]
    scheduler_invariants.attach(
        cluster, scheduler_invariants.ALL if every else scheduler_invariants.LEDGER
    )
    return cluster


RACE = Race(
    number="138324",
    title="a pod recreated under the same name leaks its in-flight entry",
    issue="138316",
    releases="bug: with the in-flight ledger (on by default from 1.32); fix: 1.36, backported to 1.34 and 1.35",
    component="scheduler",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=(
        "I3: once nothing moves any more, no pod in flight has ceased to exist; and I1, I2, I7, which say that the"
        " ledger and its metrics fit together (all seven with --all-invariants)"
    ),
    options={"queueing-hints": True, "all-invariants": False},
    build=build,
)
