"""Conversion webhooks that actors of the world answer: what is converted when, and what their failure does."""

import pytest

from actors import EventLog
from controlplane.api.request import Request
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.connection import RestConfig
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import APISERVER
from tests.apiserver.requests.test_conversions import GROUP, definition, translated

HOST = "hook.default.svc"
SECOND = 1_000_000_000
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
OLD, NEW = (Resource(GROUP, version, "sites") for version in ("v1", "v2"))


def site(name, at="v1", **spec):
    return {
        "apiVersion": f"{GROUP}/{at}",
        "kind": "Site",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def success(request):
    wanted = request["desiredAPIVersion"]
    return {
        "result": {"status": "Success"},
        "convertedObjects": [translated(tree, wanted) for tree in request["objects"]],
    }


def played(script, decide=success, *, made=None, apiservers=1):
    """Return the results of `script` and the versions asked of the webhook; equal for both drivers."""
    hashes, seen = set(), []
    for driver in ("bare", "trio"):
        told: list[object] = []
        asked: list[str] = []

        def deciding(request, asked=asked):
            asked.append(request["desiredAPIVersion"].rpartition("/")[2])
            return decide(request)

        async def main(ctx, told=told, asked=asked):
            client = Client(ctx, RestConfig((APISERVER,)))
            await client.create(CRDS, made or definition())
            await ctx.sleep(SECOND)
            try:
                await script(ctx, client, told, asked)
            except ApiError as error:
                told.append((error.code, str(error)))

        cluster = Cluster(
            ClusterConfig(kubelets=False, controllers=False, schedulers=0, apiservers=apiservers),
            log=EventLog(),
        )
        cluster.webhook(HOST, deciding)
        cluster.user("user", main)
        run = cluster.world.run(driver)
        assert run.verdict == "quiescent", run
        hashes.add(run.trace_hash)
        seen.append(told)
    assert len(hashes) == 1 and seen[0] == seen[1]
    return seen[0]


@pytest.mark.parametrize("apiservers", [1, 2])
def test_objects_are_written_in_the_storage_version_and_shown_in_the_one_asked_for(apiservers):
    async def script(_ctx, client, told, asked):
        made = await client.create(NEW, site("a", "v2", address="x"))
        told.append((made.tree["apiVersion"], made.tree["spec"], tuple(asked)))
        asked.clear()
        told.append((await client.get(OLD, "default", "a")).tree["spec"])
        told.append(tuple(asked))
        found = await client.get(NEW, "default", "a")
        told.append((found.tree["spec"], tuple(asked)))
        asked.clear()
        changed = {**found.tree, "spec": {"address": "y"}}
        told.append((await client.update(NEW, changed)).tree["spec"])
        told.append((await client.get(OLD, "default", "a")).tree["spec"])

    assert played(script, apiservers=apiservers) == [
        (f"{GROUP}/v2", {"address": "x", "size": 2}, ("v1", "v2")),
        {"host": "x", "size": 2},
        (),
        ({"address": "x", "size": 2}, ("v2",)),
        {"address": "y", "size": 2},
        {"host": "y", "size": 2},
    ]


@pytest.mark.parametrize("apiservers", [1, 2])
def test_lists_convert_each_stored_object_once(apiservers):
    async def script(ctx, client, told, asked):
        for name in "ab":
            await client.create(OLD, site(name, host=name))
        await ctx.sleep(SECOND)
        asked.clear()
        for _ in range(2):
            found = await client.list(NEW, "default")
            told.append([obj.tree["spec"] for obj in found.items])
        told.append(tuple(asked))

    listed = [{"address": "a"}, {"address": "b"}]
    assert played(script, apiservers=apiservers) == [listed, listed, ("v2", "v2")]


def test_a_dry_run_goes_by_way_of_the_storage_version():
    async def script(_ctx, client, told, asked):
        request = Request(
            "create",
            GROUP,
            "v2",
            "sites",
            namespace="default",
            body=site("a", "v2", address="x"),
            query={"dryRun": "All"},
        )
        told.append(((await client.call(request)).tree["spec"], tuple(asked)))
        told.append(len((await client.list(OLD, "default")).items))

    assert played(script) == [({"address": "x", "size": 2}, ("v1", "v2")), 0]


def test_a_failure_of_the_webhook_fails_the_request_and_writes_nothing():
    broken = {"result": {"status": "Failure", "message": "cannot do"}}

    async def script(ctx, client, told, _asked):
        await client.create(OLD, site("a", host="x"))
        for ask in (
            lambda: client.get(NEW, "default", "a"),
            lambda: client.create(NEW, site("b", "v2", address="x")),
            lambda: client.delete(NEW, "default", "a"),
        ):
            try:
                await ask()
            except ApiError as error:
                told.append((error.code, str(error)))
        await ctx.sleep(SECOND)
        told.append([obj.name for obj in (await client.list(OLD, "default")).items])

    text = f"conversion webhook for {GROUP}/%s, Kind=Site failed: cannot do"
    assert played(script, lambda _: broken) == [
        (500, text % "v1"),
        (500, text % "v2"),
        (500, text % "v1"),
        ["a"],
    ]


@pytest.mark.parametrize("apiservers", [1, 2])
def test_a_watch_gets_each_event_in_its_version_and_waits_while_the_webhook_fails(apiservers):
    failures = {"left": 0}

    def decide(request):
        if failures["left"] and request["desiredAPIVersion"].endswith("v2"):
            failures["left"] -= 1
            return {"result": {"status": "Failure"}}
        return success(request)

    async def script(ctx, client, told, _asked):
        failures["left"] = 2
        await client.create(OLD, site("first", host="x"))
        begun = ctx.now
        stream = client.watch(NEW, "default")
        seen = []
        await client.create(OLD, site("second", host="y"))
        while len(seen) < 2:
            for event in (await stream.recv()).payload.events:
                if event.type != "BOOKMARK":
                    seen.append((event.type, event.object.name, event.object.tree["spec"]))
        waited = (ctx.now - begun) // SECOND
        told.append((seen, waited))

    assert played(script, decide, apiservers=apiservers) == [
        ([("ADDED", "first", {"address": "x"}), ("ADDED", "second", {"address": "y"})], 3)
    ]


def test_a_watch_whose_webhook_never_answers_lets_the_world_come_to_rest():
    async def script(ctx, client, told, _asked):
        await client.create(OLD, site("a", host="x"))
        client.watch(NEW, "default")
        await ctx.sleep(90 * SECOND)
        told.append("rested")

    assert played(script, lambda _: {"result": {"status": "Failure"}}) == ["rested"]


def test_a_write_that_changes_nothing_migrates_the_object_to_the_storage_version():
    async def script(ctx, client, told, asked):
        await client.create(OLD, site("a", host="x", size=1))
        live = (await client.get(CRDS, "", f"sites.{GROUP}")).tree
        versions = [{**each, "storage": not each["storage"]} for each in live["spec"]["versions"]]
        await client.update(CRDS, {**live, "spec": {**live["spec"], "versions": versions}})
        await ctx.sleep(SECOND)
        before = (await client.get(OLD, "default", "a")).tree
        asked.clear()
        after = (await client.update(OLD, before)).tree
        told.append((tuple(asked), after["spec"]))
        told.append(after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"])
        asked.clear()
        told.append(((await client.get(NEW, "default", "a")).tree["spec"], tuple(asked)))
        again = (await client.update(OLD, after)).tree
        told.append(again["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"])

    told = played(script)
    assert told[0][0][:1] == ("v2",) and told[0][1] == {"host": "x", "size": 1}
    assert told[1:] == [True, ({"address": "x", "size": 1}, ()), True]
