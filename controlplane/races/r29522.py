"""The shape of Kubernetes issue 29522: a client that reads stale data and deletes by name deletes a live object.

An operator keeps a volume for every cluster object, and deletes it when the cluster object is marked.
The cluster object is marked, its volume goes, and it goes; then it is created again under its name, and
gets a new volume. The operator restarts. Its cache begins in the past: it sees the mark of the former
cluster object, and deletes the volume of the living one. Node eviction by name had the same shape
(issue 29522), and so have most bugs that Sieve found in operators (K8SSAND-559, cassandra-operator 402,
zookeeper-operator 312).

Each of three guards is enough: a uid precondition on the deletion, a live read before it, or a cache
that begins with a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Fault, Invariant, Option, Scenario
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from typing import Any

    from controlplane.client.loops.clientset import Client
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

GUARDS = ("nothing", "uid", "live-read", "stream")
GUARD = Option(
    "guard", choices=GUARDS, default="nothing", help="What the operator does against its past."
)
LIVING = "uid of the living volume"


def build(setting: Setting) -> ClusterConfig:
    """Two servers, one of which lags; the store and its clients."""
    from attrs import evolve

    from controlplane.client.features import ClientFeatures

    config = lagging_servers(kubelets=False, controllers=False)(setting)
    return evolve(config, client=ClientFeatures(watch_list_client=setting["guard"] == "stream"))


async def operator(user: User) -> None:
    """Keeps a volume for the cluster object `db`; both are config maps here."""
    from actors import LinkBroken
    from controlplane.client.errors import ApiError
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.clientset import Client, Resource
    from controlplane.client.loops.informer import Informer

    ctx, address = user.ctx, user.cluster.address("operator")
    store: Indexer[Any] = Indexer()
    informer: Informer[Any] = Informer(ctx, Resource("", "v1", "configmaps"), store, server=address)
    changed = ctx.condition()
    informer.add_handler(lambda _told: changed.notify_all())
    informer.start()
    await informer.wait_synced()
    client = Client(ctx, address)
    while True:
        for owner in [each for each in store if each.name == "db"]:
            try:
                await reconcile(user, client, owner, store.get("default/db-volume"))
            except (ApiError, LinkBroken):
                await user.sleep(1)
        await changed.wait(idle=True, point="operator")


async def reconcile(user: User, client: Client, owner: Any, volume: Any) -> None:
    """One look at a cluster object, as the cache has it."""
    from controlplane.client.loops.clientset import Resource

    config_maps, guard = Resource("", "v1", "configmaps"), user.options["guard"]
    if owner.tree["data"]["marked"] == "no":
        if volume is None:
            await client.create(config_maps, config_map("db-volume"))
    elif volume is not None:
        if guard == "live-read":
            fresh = await client.get(config_maps, "default", "db")
            if fresh.uid != owner.uid or fresh.tree["data"]["marked"] == "no":
                return
        uid = volume.uid if guard == "uid" else ""
        await client.delete(config_maps, "default", "db-volume", uid=uid)


async def owner_of_clusters(user: User) -> None:
    """Creates the cluster object, marks it, waits for its volume to go, and creates it again."""
    first = await user.create(config_map("db", marked="no"))
    await user.sleep(70)
    await user.update({**first.tree, "data": {"marked": "yes"}})
    while await user.exists("ConfigMap", "db-volume"):
        await user.sleep(1)
    await user.delete("ConfigMap", "db")
    await user.create(config_map("db", marked="no"))
    while not await user.exists("ConfigMap", "db-volume"):
        await user.sleep(1)
    user.notes[LIVING] = (await user.get("ConfigMap", "db-volume")).uid


async def restart_operator(user: User) -> None:
    """Once the new volume is there, the operator restarts at some moment within a minute."""
    while LIVING not in user.notes:
        await user.sleep(1)
    await user.sleep((1 + user.ctx.choose("fault", 30, "when")) * 2)
    user.crash("operator")
    await user.sleep(1)
    user.restart("operator")


def the_living_keep_theirs(run: Run) -> str | None:
    """The volume of the living cluster object exists."""
    uid = run.notes.get(LIVING)
    if uid is None or uid in [each.uid for each in run.objects("/registry/configmaps/")]:
        return None
    return "the volume of the living cluster was deleted"


SCENARIO = Scenario(
    "race 29522",
    workload={"operator": operator, "user": owner_of_clusters},
    build=build,
    faults=(Fault("chaos", restart_operator),),
    invariants=(Invariant("no live volume is deleted", the_living_keep_theirs, ("etcd",)),),
    options=(GUARD,),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    title="an operator that reads its past deletes what lives under the same name",
    issue="29522",
    releases="a matter of the operator; a cache that begins with a stream does not travel (from 1.35)",
    component="controllers",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs of the StatefulSet form",
    invariant="after every step of the store, the volume of the living cluster object exists",
    scenario=SCENARIO,
    schedules=60,
    broken={"guard": "nothing"},
    fixed={"guard": "uid"},
)
