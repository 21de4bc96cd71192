"""A StatefulSet in a whole cluster: scaled to nothing, back, and deleted."""

from __future__ import annotations

import yaml

from actors import Context
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import STATEFUL_SETS
from controlplane.kueue.api.installation import installation
from controlplane.kueue.api.webhook_configurations import HOST
from controlplane.kueue.config import load
from controlplane.kueue.loops.webhook import webhook_of
from controlplane.kueue.process.controller import kueue_of
from controlplane.kueue.process.kinds import KINDS
from controlplane.kueue.workload import status
from tests.kueue.process.test_examples import FOLDER
from tests.test_cluster import SECOND, cluster_with, run


def test_a_stateful_set_is_put_on_hold_at_zero_and_admitted_again():
    seen = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)

        async def look() -> None:
            await ctx.sleep(60 * SECOND)
            workloads = await client.list(KINDS["Workload"], "default")
            seen.append(
                [
                    (status.is_admitted(each.tree), status.is_on_hold(each.tree))
                    for each in workloads.items
                ]
            )

        for tree in yaml.safe_load_all((FOLDER / "apps.yaml").read_text()):
            if tree["kind"] != "Deployment":
                await client.create(KINDS[tree["kind"]], tree)
        await look()
        for replicas in (0, 2):
            found = await client.get(STATEFUL_SETS, "default", "db")
            spec = {**found.tree["spec"], "replicas": replicas}
            await client.update(STATEFUL_SETS, {**found.tree, "spec": spec})
            await look()
        await client.delete(STATEFUL_SETS, "default", "db")
        await look()

    config = FOLDER / "apps-config.yaml"
    cluster = cluster_with(
        user,
        nodes=2,
        own_controllers=(kueue_of(load(config)),),
        webhook_servers={HOST: webhook_of(load(config))},
        installed=installation(load(config)),
        track_fields=True,
        enabled_controllers=("*",),
    )
    run(cluster)
    assert seen == [[(True, False)], [(False, True)], [(True, False)], []]
