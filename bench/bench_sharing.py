"""The gain of each memory of `controlplane.sharing`: processor time of a world without it to one with it.

    python -m bench.bench_sharing [--rounds 5] [--pods 400]

The world is a Deployment whose pods become ready on twenty nodes, with everything that a cluster runs by default.
Worlds with and without a memory alternate; the figure is the quickest of the rounds without it to the quickest of all
rounds with every memory, which other work on the machine moves least.
"""

from __future__ import annotations

import argparse
import gc
import time
from contextlib import nullcontext

from actors import Context, EventLog
from controlplane.client.loops.clientset import DEPLOYMENTS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.sharing.memory import memories, turned_off

NODES = 20


def world(pods: int) -> Cluster:
    """A cluster in which a user creates one Deployment."""

    async def create(ctx: Context) -> None:
        container = {
            "name": "c",
            "image": "one",
            "resources": {"requests": {"cpu": "10m", "memory": "1Mi"}},
        }
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
        spec = {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        tree = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": spec,
        }
        await Client(ctx).create(DEPLOYMENTS, tree, "default")

    made = Cluster(
        ClusterConfig(nodes=[node_tree(f"node-{number}") for number in range(NODES)]),
        log=EventLog(keep=False),
    )
    made.user("user", create)
    return made


def taken(pods: int, off: tuple[str, ...] | None) -> float:
    """The processor time of one run without these memories; () stands for all, None for none."""
    gc.collect()
    with nullcontext() if off is None else turned_off(*off):
        made = world(pods)
        start = time.process_time()
        made.world.run()
        return time.process_time() - start


def main() -> None:
    """Print a line for each memory, the dearest to miss first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pods", type=int, default=400)
    given = parser.parse_args()
    taken(given.pods, None)
    choices = {"all of them": (), **{name: (name,) for name in memories()}}
    quickest = dict.fromkeys(choices, float("inf"))
    beside = float("inf")
    for _ in range(given.rounds):
        for name, off in choices.items():
            beside = min(beside, taken(given.pods, None))
            quickest[name] = min(quickest[name], taken(given.pods, off))
    print(f"with all: {beside:.3f} s for {given.pods} pods")
    for name, seconds in sorted(quickest.items(), key=lambda entry: -entry[1]):
        print(f"{seconds / beside:6.3f}  {name}")


if __name__ == "__main__":
    main()
