"""An elastic job in a whole cluster: it grows, waits for quota with a part of its pods, and shrinks."""

from __future__ import annotations

from pathlib import Path

import yaml

from actors import Context
from controlplane.api.request import MERGE_PATCH
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import JOBS, PODS
from controlplane.kueue.process.kinds import KINDS
from tests.kueue.process.test_controller import kueue_cluster
from tests.test_cluster import SECOND, run

EXAMPLE = Path(__file__).parents[3] / "examples" / "kueue" / "elastic.yaml"


def test_a_job_grows_and_shrinks_while_its_pods_run():
    seen = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for tree in yaml.safe_load_all(EXAMPLE.read_text()):
            await client.create(KINDS[tree["kind"]], tree)
        for parallelism in (None, 4, 8, 2):
            if parallelism:
                change = {"spec": {"parallelism": parallelism}}
                await client.patch(JOBS, "default", "train", change, kind=MERGE_PATCH)
            await ctx.sleep(10 * SECOND)
            pods = [each.tree for each in (await client.list(PODS, "default")).items]
            held = [each for each in pods if each["spec"].get("schedulingGates")]
            (queue,) = (each.tree for each in (await client.list(KINDS["ClusterQueue"])).items)
            (flavor,) = queue["status"]["flavorsReservation"]
            total = int(flavor["resources"][0]["total"])
            seen.append((len(pods) - len(held), len(held), total))
        await ctx.sleep(200 * SECOND)

    cluster = kueue_cluster(user)
    run(cluster)
    assert seen == [(2, 0, 2), (4, 0, 4), (4, 4, 4), (2, 0, 2)]
    reasons = [
        condition["reason"]
        for obj in cluster.objects("/registry/kueue.x-k8s.io/workloads/")
        for condition in obj.tree["status"]["conditions"]
        if condition["type"] == "Finished"
    ]
    assert sorted(reasons) == ["Succeeded", "WorkloadSliceReplaced", "WorkloadSliceReplaced"]
