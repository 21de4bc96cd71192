"""One API server with the store to itself: parts of requests interleave, and defects are told."""

from actors import DebugChecks, EventLog, RandomWalk
from controlplane.api.request import Request
from controlplane.apiserver.loops.contention import meets
from controlplane.apiserver.loops.etcd import ETCD
from controlplane.apiserver.requests.reading import Reader
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.connection import RestConfig
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import APISERVER

CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACES = Resource("", "v1", "namespaces")
SECOND = 1_000_000_000


def config_map(name, namespace="default"):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
    }


def cluster(strategy=None, **config):
    return Cluster(
        ClusterConfig(kubelets=False, controllers=False, schedulers=0, **config),
        strategy=strategy,
        log=EventLog(),
    )


def commits(made):
    """How many steps began at the point before a write."""
    return sum(1 for event in made.world.log if event.event == "apiserver.commit")


async def patching(ctx, key):
    await Client(ctx, RestConfig((APISERVER,))).patch(
        CONFIG_MAPS, "default", "a", {"data": {key: "1"}}
    )


async def making(ctx, users):
    await Client(ctx, RestConfig((APISERVER,))).create(CONFIG_MAPS, config_map("a"))
    tasks = [ctx.spawn(patching, key, name="user") for key in users]
    for task in tasks:
        await ctx.join(task)


def test_patches_of_one_object_are_overtaken_and_none_is_lost():
    retried = 0
    for seed in range(20):
        made = cluster(RandomWalk(seed))
        made.user("user", making, "xyz")
        assert made.world.run("bare").verdict == "quiescent"
        (found,) = [each for each in made.objects("/registry/configmaps/") if each.name == "a"]
        assert sorted(found.tree["data"]) == ["x", "y", "z"]
        writes = [e for e in made.world.log if e.event == "apiserver.write"]
        assert len({e.rv for e in writes}) == len(writes) == 4
        retried += commits(made) > 3
    assert retried


def test_a_request_that_meets_no_other_is_one_step():
    made = cluster()
    made.user("user", making, "x")
    assert made.world.run("bare").verdict == "quiescent"
    assert not commits(made)


def test_a_creation_may_pass_admission_before_its_namespace_is_deleted_and_be_written_after():
    """As upstream: what admission has seen may be over when the object is written."""
    ends = set()
    for seed in range(60):

        async def deleting(ctx):
            await Client(ctx, RestConfig((APISERVER,))).delete(NAMESPACES, "", "n")

        async def creating(ctx):
            try:
                await Client(ctx, RestConfig((APISERVER,))).create(
                    CONFIG_MAPS, config_map("a", "n")
                )
            except ApiError as error:
                ends.add(error.reason)

        async def user(ctx):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
            await Client(ctx, RestConfig((APISERVER,))).create(NAMESPACES, body)
            tasks = [ctx.spawn(creating, name="creator"), ctx.spawn(deleting, name="deleter")]
            for task in tasks:
                await ctx.join(task)

        made = cluster(RandomWalk(seed))
        made.user("user", user)
        assert made.world.run("bare").verdict == "quiescent"
        written = {e.obj: e.rv for e in made.world.log if e.event == "apiserver.write"}
        if written.get("ConfigMap/n/a", 0) and written["ConfigMap/n/a"] > written["Namespace/n"]:
            ends.add("written into a namespace that is being deleted")
    assert ends == {"Forbidden", "written into a namespace that is being deleted"}


def test_a_defect_answers_an_internal_error_and_leaves_its_traceback_in_the_log(monkeypatch):
    def broken(_self, _ctx):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(Reader, "list", broken)
    codes = []

    async def user(ctx):
        try:
            await Client(ctx, RestConfig((APISERVER,))).list(CONFIG_MAPS)
        except ApiError as error:
            codes.append((error.code, error.reason))
        await Client(ctx, RestConfig((APISERVER,))).create(CONFIG_MAPS, config_map("a"))

    made = cluster()
    made.user("user", user)
    assert made.world.run("bare").verdict == "quiescent"
    assert codes == [(500, "InternalError")]
    (told,) = [e for e in made.world.log if e.event == "apiserver.panic"]
    assert told.data["error"] == "RuntimeError: no such luck"
    assert told.data["request"] == "list configmaps"
    assert told.data["traceback"][-1].endswith(" broken")
    assert told.data["traceback"][0].startswith("controlplane/apiserver/loops/")


def test_servers_share_nothing_with_the_store_but_values():
    async def user(ctx):
        for name in (APISERVER, f"{APISERVER}-2"):
            client = Client(ctx, RestConfig((name,)))
            await client.create(CONFIG_MAPS, config_map(name))
            await client.patch(CONFIG_MAPS, "default", name, {"data": {"a": "b"}})
            await client.list(CONFIG_MAPS)
            await client.delete(CONFIG_MAPS, "default", name)

    made = Cluster(
        ClusterConfig(kubelets=False, controllers=False, schedulers=0, apiservers=2),
        log=EventLog(),
        checks=DebugChecks(sharing=True),
    )
    made.user("user", user)
    result = made.world.run("bare")
    assert result.verdict == "quiescent", result.reason


def test_a_server_that_is_cut_from_the_store_knows_nothing_newer():
    seen = []

    async def user(ctx):
        other = Client(ctx, RestConfig((f"{APISERVER}-2",)))
        await other.list(CONFIG_MAPS, resourceVersion="0")
        made.world.faults.cut(ETCD, f"{APISERVER}-2")
        await Client(ctx, RestConfig((APISERVER,))).create(CONFIG_MAPS, config_map("a"))
        await ctx.sleep(SECOND)
        seen.append([o.name for o in (await other.list(CONFIG_MAPS, resourceVersion="0")).items])
        made.world.faults.heal(ETCD, f"{APISERVER}-2")
        await ctx.sleep(SECOND)
        seen.append([o.name for o in (await other.list(CONFIG_MAPS, resourceVersion="0")).items])

    made = cluster(apiservers=2)
    made.user("user", user)
    assert made.world.run("bare").verdict == "quiescent"
    assert seen == [[], ["a"]]


def test_which_requests_meet():
    def request(verb, resource="pods", name="", namespace="n", sub="", body=None):
        return Request(verb, "", "v1", resource, namespace, name, sub, body=body)

    def met(one, other, quotas=False):
        found = meets(one, other, lambda _: quotas)
        assert found == meets(other, one, lambda _: quotas)
        return found

    patch, create = request("patch", name="a"), request("create", body=config_map("b"))
    assert met(patch, request("delete", name="a"))
    assert not met(patch, request("delete", name="b"))
    assert not met(patch, request("get", name="a"))
    assert met(patch, request("deletecollection"))
    assert met(request("create", name="a", sub="binding"), patch)
    assert met(request("create", "bindings", body=config_map("a")), patch)
    assert not met(create, request("create", body=config_map("c")))
    assert met(create, request("create", body=config_map("c")), quotas=True)
    assert met(create, request("delete", "namespaces", "n", ""))
    assert met(create, request("patch", name="b"))
    assert met(request("create", "services"), request("create", "services", namespace="m"))
    eviction = request("create", name="a", sub="eviction")
    assert met(eviction, request("patch", "poddisruptionbudgets", "p"))
