"""A large cluster at work in one process: every pod of many Deployments, an update of a tenth, the loss of a zone.

    python -m bench.bench_cluster NODES PODS [--profile PHASE] [--no-events]

Every controller that stands on by default, a scheduler, one kubelet a node with heartbeats, and their Events. Phases:

- `registered`: from the start until every node is ready;
- `ready`: from the first Deployment (of a hundred replicas each) until all of them say that all is available;
- `updated`: a new image for a tenth of the Deployments, until they say that all of it is rolled out;
- `noticed`: the nodes of one of ten zones are gone at once, until none of their pods counts as ready any more;
- `ten minutes`: ten more minutes of virtual time, in which nodes are tainted and pods replaced.

Of each: wall and processor time, virtual time, steps, resident memory at its end, and who spent the processor's
time (a sample every few milliseconds: the process that the running step belongs to). The suite `cluster` runs the
hundredth of 5,000 nodes and 150,000 pods; CLUSTER_NODES and CLUSTER_PODS choose other sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from typing import Any

from bench.harness import Row, resident

ZONES = 10
REPLICAS = 100
SECOND = 10**9
SAMPLE_SECONDS = 0.005
ZONE = "topology.kubernetes.io/zone"
TEN_MINUTES = 600
MIB = 1 << 20


class Sampler:
    """Who uses the processor: samples of the running step's process and of the innermost frame of ours."""

    def __init__(self, current: Callable[[], Any]) -> None:
        self._current = current
        self.processes: Counter[str] = Counter()
        self.places: Counter[str] = Counter()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)

    def _sample(self, _number: int, frame: Any) -> None:
        task = self._current()
        name = "" if task is None else task.actor.name
        self.processes["kubelets" if name.startswith("node-") else name or "runtime"] += 1
        while frame is not None and "controlplane" not in frame.f_code.co_filename:
            frame = frame.f_back
        if frame is not None:
            place = frame.f_code.co_filename.rpartition("controlplane/")[2]
            self.places[f"{place}:{frame.f_code.co_name}"] += 1

    def taken(self) -> tuple[dict[str, float], dict[str, float]]:
        """Shares since the last time: of processes, and of the twelve places that took most."""
        total = sum(self.processes.values()) or 1
        found = tuple(
            {name: round(count / total, 3) for name, count in counts.most_common(12)}
            for counts in (self.processes, self.places)
        )
        self.processes.clear()
        self.places.clear()
        return found[0], found[1]


def deployment(name: str, image: str = "app:1") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": image,
        "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


class Course:
    """The user of the cluster: takes it through the phases and notes what each cost."""

    def __init__(self, cluster: Any, nodes: int, pods: int, profiled: str = "") -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.count = pods // REPLICAS
        self.marks: dict[str, dict[str, Any]] = {}
        self.sampler = Sampler(lambda: cluster.world._kernel.current)
        self._profiled = profiled
        self._profile: Any = None

    def mark(self, name: str, ctx: Any) -> None:
        """What stands at the end of a phase."""
        processes, places = self.sampler.taken()
        self.marks[name] = {
            "wall": time.perf_counter(),
            "processor": time.process_time(),
            "virtual": ctx.now / SECOND,
            "steps": self.cluster.world.steps,
            "memory": resident(os.getpid()) / MIB,
            "processes": processes,
            "places": places,
        }
        print(name, json.dumps(self.marks[name]), file=sys.stderr, flush=True)

    async def run(self, ctx: Any) -> None:
        from controlplane.client.loops.clientset import Client

        client = Client(ctx)
        self.sampler.start()
        self.mark("start", ctx)
        await self._phase("registered", ctx, self._registered(ctx))
        await self._phase("ready", ctx, self._applied(ctx, client))
        await self._phase("updated", ctx, self._updated(ctx, client))
        await self._phase("noticed", ctx, self._lost(ctx))
        await self._phase("ten minutes", ctx, ctx.sleep(TEN_MINUTES * SECOND))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"marks": self.marks, "peak_mib": peak}), flush=True)
        os._exit(0)

    async def _phase(self, name: str, ctx: Any, work: Awaitable[None]) -> None:
        if name == self._profiled:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()
        await work
        if self._profile is not None:
            import pstats

            self._profile.disable()
            for order in ("tottime", "cumtime"):
                pstats.Stats(self._profile, stream=sys.stderr).sort_stats(order).print_stats(60)
            sys.stderr.flush()
            os._exit(0)
        self.mark(name, ctx)

    async def _until(self, ctx: Any, holds: Callable[[], bool]) -> None:
        while not holds():
            await ctx.sleep(SECOND)

    async def _registered(self, ctx: Any) -> None:
        await self._until(ctx, lambda: len(self._ready_nodes()) == self.nodes)

    def _ready_nodes(self) -> list[str]:
        return [
            obj.name
            for obj in self.cluster.objects("/registry/minions/")
            if any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in (obj.tree.get("status") or {}).get("conditions", ())
            )
            and not obj.tree["spec"].get("taints")
        ]

    async def _applied(self, ctx: Any, client: Any) -> None:
        from controlplane.client.resources import DEPLOYMENTS

        for number in range(self.count):
            await client.create(DEPLOYMENTS, deployment(f"app-{number}"), "default")
        await self._until(ctx, self._rolled_out)

    async def _updated(self, ctx: Any, client: Any) -> None:
        from controlplane.client.resources import DEPLOYMENTS

        containers = [{"name": "main", "image": "app:2"}]
        patch = {"spec": {"template": {"spec": {"containers": containers}}}}
        for number in range(max(self.count // 10, 1)):
            await client.patch(DEPLOYMENTS, "default", f"app-{number}", patch)
        await self._until(ctx, self._rolled_out)

    def _rolled_out(self) -> bool:
        found = self.cluster.objects("/registry/deployments/")
        statuses = [(obj.metadata["generation"], obj.tree.get("status") or {}) for obj in found]
        counts = ("replicas", "updatedReplicas", "availableReplicas")
        return len(found) == self.count and all(
            status.get("observedGeneration") == generation
            and all(status.get(each) == REPLICAS for each in counts)
            for generation, status in statuses
        )

    async def _lost(self, ctx: Any) -> None:
        gone = {f"node-{number}" for number in range(0, self.nodes, ZONES)}
        for name in sorted(gone):
            ctx.faults.crash(name)

        def unnoticed(obj: Any) -> bool:
            return obj.tree["spec"].get("nodeName") in gone and any(
                each["type"] == "Ready" and each["status"] == "True"
                for each in obj.tree["status"].get("conditions", ())
            )

        await self._until(
            ctx, lambda: not any(map(unnoticed, self.cluster.objects("/registry/pods/")))
        )


def zoned(number: int) -> dict[str, Any]:
    """A node of 8 CPUs in one of the zones."""
    from controlplane.cluster import node_tree

    tree = node_tree(f"node-{number}")
    tree["metadata"]["labels"][ZONE] = f"zone-{number % ZONES}"
    return tree


def measure(nodes: int, pods: int, profiled: str = "", *, events: bool = True) -> None:
    """One course through the phases; ends the process."""
    from actors import Unheard, collector
    from controlplane.cluster import Cluster, ClusterConfig

    collector.rest()
    config = ClusterConfig(
        nodes=tuple(map(zoned, range(nodes))), joined_informers=True, kubelet_events=events
    )
    limits = {"step_limit": 1 << 40, "livelock_limit": 1 << 40}
    cluster = Cluster(config, log=Unheard(), **limits)
    cluster.world.keep_no_recording()
    cluster.user("user", Course(cluster, nodes, pods, profiled).run)
    result = cluster.world.run("bare")
    print(result.verdict, result.reason, file=sys.stderr)
    if result.error is not None:
        raise result.error
    sys.exit(1)


def rows(_repeat: int) -> Iterator[Row]:
    nodes = os.environ.get("CLUSTER_NODES", "50")
    pods = os.environ.get("CLUSTER_PODS", "1500")
    command = [sys.executable, "-m", "bench.bench_cluster", nodes, pods]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    title = f"{int(nodes):,} nodes, {int(pods):,} pods"
    for (_, before), (name, after) in pairwise(found["marks"].items()):
        for what, unit in (("wall", "s"), ("processor", "s"), ("virtual", "s"), ("steps", "steps")):
            yield Row(f"{title}: {name}, {what}", unit, (after[what] - before[what],))
        yield Row(f"{title}: {name}, memory", "MiB", (after["memory"],))
        for process, share in after["processes"].items():
            yield Row(f"{title}: {name}, share of {process}", "%", (100 * share,))
    yield Row(f"{title}: peak memory", "MiB", (found["peak_mib"],))


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.bench_cluster", description=__doc__)
    parser.add_argument("nodes", type=int)
    parser.add_argument("pods", type=int)
    parser.add_argument("--profile", default="", help="print a profile of this phase, and end")
    parser.add_argument("--no-events", action="store_true", help="without the kubelets' Events")
    arguments = parser.parse_args()
    measure(arguments.nodes, arguments.pods, arguments.profile, events=not arguments.no_events)


if __name__ == "__main__":
    main()
