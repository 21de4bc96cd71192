"""Another cluster's objects in a served cluster, once and continuously, and in a record file."""

from __future__ import annotations

import io
import json
import sys
from contextlib import asynccontextmanager

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.errors import UsageError
from controlplane.serving.cluster_sync import Record, Served, Source, sync
from tests.apiserver.http.session import PODS, served
from tests.serving.test_nodes import until

KUBECTL = """
import sys
from urllib.request import urlopen
base, *words = sys.argv[1:]
assert words[:2] == ["get", "--raw"], words
with urlopen(base + words[2]) as answer:
    while data := answer.read1(65536):
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
"""
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def pod(name, namespace="default", **spec):
    meta = {"name": name, "namespace": namespace, "labels": {"team": name}}
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.fixture
def kubectl(tmp_path):
    path = tmp_path / "kubectl.py"
    path.write_text(KUBECTL)
    return [sys.executable, str(path)]


@asynccontextmanager
async def clusters(kubectl):
    """The cluster to read, with a node; the one to bring it to, without; and how to read the first."""
    async with (
        served(Pacer(MAX), nodes=1, controllers="*") as source,
        served(Pacer(MAX), nodes=0, controllers="*") as target,
    ):
        yield source, target, [*kubectl, source.address.url]


@pytest.mark.slow
async def test_a_cluster_is_brought_along_once(kubectl):
    async with clusters(kubectl) as (source, target, words):
        await source.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        await source.ask("POST", CLASSES, {"metadata": {"name": "high"}, "value": 5})
        await until(
            source, PODS.replace("pods", "serviceaccounts/default"), lambda a: a.code == 200
        )
        await source.ask("POST", PODS, pod("p", priorityClassName="high"))
        await until(source, f"{PODS}/p", lambda answer: answer.tree["spec"].get("nodeName"))
        told = []
        counts = await sync(Source(words), Served(target.address), told.append, follow=False)
        assert (told, counts["refused"]) == ([], 0)
        found = (await target.ask("GET", f"{PODS}/p")).tree
        assert (found["spec"]["nodeName"], found["spec"]["priority"]) == ("node-1", 5)
        assert (await target.ask("GET", "/api/v1/namespaces/shop")).code == 200
        assert (await target.ask("GET", "/api/v1/nodes/node-1")).code == 200


@pytest.mark.slow
async def test_only_objects_with_the_labels_come_along(kubectl):
    async with clusters(kubectl) as (source, target, words):
        for name in ("a", "b"):
            account = {"serviceAccountName": "default"}
            await until(
                source, PODS.replace("pods", "serviceaccounts/default"), lambda a: a.code == 200
            )
            await source.ask("POST", PODS, pod(name, **account))
        asked = Source(words, "team=a")
        await sync(asked, Served(target.address), print, follow=False)
        listed = (await target.ask("GET", PODS)).tree["items"]
        assert [each["metadata"]["name"] for each in listed] == ["a"]


@pytest.mark.slow
async def test_changes_are_followed_and_those_of_bound_pods_are_not(kubectl):
    async with clusters(kubectl) as (source, target, words):
        path = "/api/v1/namespaces"
        labelled = {"metadata": {"labels": {"a": "b"}}}
        patch = {"Content_Type": "application/merge-patch+json"}
        async with trio.open_nursery() as nursery:
            running = Served(target.address)
            nursery.start_soon(_follow, Source(words), running)
            await until(target, "/api/v1/nodes/node-1", lambda answer: answer.code == 200)
            await source.ask("POST", path, {"metadata": {"name": "shop"}})
            await until(target, f"{path}/shop", lambda answer: answer.code == 200)
            await source.ask("PATCH", f"{path}/shop", labelled, **patch)
            await until(
                target, f"{path}/shop", lambda a: "a" in a.tree["metadata"].get("labels", {})
            )
            made = {"metadata": {"name": "high"}, "value": 5}
            await source.ask("POST", CLASSES, made)
            await until(target, f"{CLASSES}/high", lambda answer: answer.code == 200)
            await source.ask("POST", PODS, pod("p"))
            await until(source, f"{PODS}/p", lambda answer: answer.tree["spec"].get("nodeName"))
            await until(target, f"{PODS}/p", lambda answer: answer.code == 200)
            await source.ask("PATCH", f"{PODS}/p", labelled, **patch)
            await source.ask("DELETE", f"{CLASSES}/high")
            await until(target, f"{CLASSES}/high", lambda answer: answer.code == 404)
            labels = (await target.ask("GET", f"{PODS}/p")).tree["metadata"]["labels"]
            assert labels == {"team": "p"}
            nursery.cancel_scope.cancel()


async def _follow(source, target):
    await sync(source, target, print, follow=True)


@pytest.mark.slow
async def test_a_record_holds_what_came(kubectl):
    async with clusters(kubectl) as (source, _, words):
        file = io.StringIO()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_follow, Source(words), Record(file))
            with trio.fail_after(120):
                while '"node-1"' not in file.getvalue():
                    await trio.sleep(0.05)
                await source.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
                while '"shop"' not in file.getvalue():
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        lines = [json.loads(line) for line in file.getvalue().splitlines()]
        assert len({each["time"] for each in lines[:5]}) == 1
        kinds = [each["resource"]["kind"] for each in lines]
        assert kinds[0] == "Namespace"
        assert {each["event"] for each in lines} >= {"Add"}


async def test_a_cluster_that_cannot_be_read_is_one_line(tmp_path):
    words = [sys.executable, "-c", "import sys; sys.exit('no such context')"]
    with pytest.raises(UsageError, match="import resource namespaces: no such context"):
        await sync(Source(words), Record(io.StringIO()), print, follow=False)
