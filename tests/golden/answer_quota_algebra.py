"""Kueue: quota in trees of cohorts, in the cache and in snapshots."""

from __future__ import annotations

from typing import Any

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.cache import NO_CLUSTER_QUEUE, Cache
from controlplane.kueue.cache.quota import CohortNode
from controlplane.kueue.cache.share import dominant_share
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot, Snapshot
from controlplane.kueue.workload.info import Usage
from tests.golden.kueue_worlds import cache_of, gates_of, pair_of, shown_amount, shown_float, tried
from tests.golden.runner import difference


class Run:
    """A cache with its current snapshot, and the pairs and queues to show."""

    def __init__(self, case: Any) -> None:
        self.world = case["world"]
        self.probes = case["probes"]
        self.cache = cache_of(self.world, gates_of(self.world))
        self.snapshot = self.cache.snapshot()
        self.queues = [each["metadata"]["name"] for each in self.world.get("clusterQueues", ())]
        self.cohorts = [each["metadata"]["name"] for each in self.world.get("cohorts", ())]
        self.pairs = {
            FlavorResource(flavor["name"], each["name"]): None
            for kind in ("cohorts", "clusterQueues")
            for owner in self.world.get(kind, ())
            for group in owner["spec"].get("resourceGroups", ())
            for flavor in group["flavors"]
            for each in flavor["resources"]
        }

    def shown(self) -> Any:
        return shown_snapshot(self.snapshot, list(self.pairs), self.probes)

    def shown_cache(self) -> Any:
        return shown_cache(self.cache, self.queues, self.cohorts)

    def do(self, step: Any) -> Any:
        if step["op"].startswith("snapshot"):
            return self._usage(step)
        shown: dict[str, Any] = {}
        problem = None
        if step["op"] == "deleteWorkload":
            problem = tried(self.cache.delete_workload, step["name"])
        elif step["op"] == "addWorkload":
            shown["added"] = self.cache.add_or_update(step["workload"])
        elif step["op"] == "updateClusterQueue":
            problem = tried(self.cache.update_cluster_queue, step["clusterQueue"])
        elif step["op"] == "updateCohort":
            problem = tried(self.cache.add_or_update_cohort, step["cohort"])
        elif step["op"] == "deleteCohort":
            self.cache.delete_cohort(step["name"])
        elif step["op"] == "deleteClusterQueue":
            self.cache.delete_cluster_queue(step["name"])
        elif step["op"] == "deleteResourceFlavor":
            flavor = {"metadata": {"name": step["name"]}}
            shown["affected"] = self.cache.delete_flavor(flavor)
        if problem:
            shown["error"] = problem
        self.snapshot = self.cache.snapshot()
        return shown | {"cache": self.shown_cache(), "snapshot": self.shown()}

    def _usage(self, step: Any) -> Any:
        queue = self.snapshot.queues.get(step["name"])
        if queue is None:
            return {"skipped": True}
        usage = Usage({pair_of(text): amount for text, amount in step.get("usage", {}).items()})
        fits = queue.fits(usage) == ""
        (queue.add if step["op"] == "snapshotAddUsage" else queue.remove)(usage)
        return {"fits": fits, "snapshot": self.shown()}


def answer(case: Any) -> Any:
    run = Run(case)
    shown: dict[str, Any] = {"snapshot": run.shown(), "cache": run.shown_cache()}
    if case.get("ops"):
        shown["after"] = [run.do(step) for step in case["ops"]]
    return shown


def shown_share(share: Any) -> Any:
    return {
        "borrowing": share.borrowing,
        "precise": shown_float(share.precise()),
        "resource": share.resource,
        "rounded": share.rounded(),
        "zero": share.zero(),
    }


def shown_snapshot(snapshot: Snapshot, pairs: list[FlavorResource], probes: Any) -> Any:
    shown = {
        "clusterQueues": {
            name: {
                "generation": queue.generation,
                "path": [above.name for above in queue.path()],
                "quota": {str(pair): shown_quota(queue, pair, probes) for pair in pairs},
                "share": shown_share(dominant_share(queue)),
                "workloads": sorted(queue.workloads),
            }
            for name, queue in snapshot.queues.items()
        },
        "cohorts": {
            name: {
                "height": cohort.height(),
                "quota": {str(pair): shown_cohort_quota(cohort, pair) for pair in pairs},
                "share": shown_share(dominant_share(cohort)),
            }
            for name, cohort in snapshot.cohorts.items()
        },
        "inactive": sorted(snapshot.inactive),
    }
    return shown


def shown_quota(queue: ClusterQueueSnapshot, pair: FlavorResource, probes: Any) -> Any:
    probe = probes.get(pair.resource, 0)
    height, more = queue.lowest_fitting_subtree(pair, probe)
    return {
        "nominal": shown_amount(queue.quota(pair).nominal),
        "subtree": shown_amount(queue.subtree.get(pair, 0)),
        "usage": shown_amount(queue.usage.get(pair, 0)),
        "available": shown_amount(queue.available(pair)),
        "potential": shown_amount(queue.potential(pair)),
        "localAvailable": shown_amount(queue.local_available(pair)),
        "borrowing": queue.borrowing(pair),
        "borrowingWithProbe": queue.borrowing_with(pair, probe),
        "probeHeight": height,
        "probeMoreAbove": more,
    }


def shown_cohort_quota(cohort: CohortNode, pair: FlavorResource) -> Any:
    return {
        "subtree": shown_amount(cohort.subtree.get(pair, 0)),
        "usage": shown_amount(cohort.usage.get(pair, 0)),
        "available": shown_amount(cohort.available_in_tree(pair)),
        "potential": shown_amount(cohort.potential(pair)),
        "borrowing": cohort.borrowing_with(pair, 0),
    }


def shown_cache(cache: Cache, queues: list[str], cohorts: list[str]) -> Any:
    shown = {}
    for name in queues:
        active, reason, message = cache.readiness(name)
        one: dict[str, Any] = {"active": active, "reason": reason, "message": message}
        if name in cache.tree.queues:
            usage = cache.usage(name)
            one |= {
                "flavorsReservation": usage.reserved,
                "reservingWorkloads": usage.reserving,
                "flavorsUsage": usage.used,
                "admittedWorkloads": usage.admitted,
                "weightedShare": shown_float(usage.weighted_share),
            }
        else:
            one["error"] = NO_CLUSTER_QUEUE
        shown[name] = one
    shares: dict[str, Any] = {}
    for name in cohorts:
        share = cache.cohort_share(name)
        shares[name] = "error: cohort not found" if share is None else shown_float(share)
    return {"clusterQueues": shown, "cohortWeightedShare": shares}


def compare(want: Any, got: Any) -> str | None:
    """Whole numbers agree with equal fractions."""
    return difference(numbers(want), numbers(got))


def numbers(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: numbers(each) for name, each in tree.items() if each not in ({}, [])}
    if isinstance(tree, list):
        return [numbers(each) for each in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree
