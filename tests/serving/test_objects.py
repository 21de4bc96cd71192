"""Export, restore and reset of a served cluster; the recording replays with them."""

from __future__ import annotations

import pytest
import trio
import yaml

from actors.pace import MAX, Pacer
from controlplane.scenarios.search import replaying
from controlplane.serving.objects import PATH
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served
from tests.serving.test_nodes import until

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


def deployment(name, replicas=2, namespace="default"):
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def named(trees, kind):
    return sorted(tree["metadata"]["name"] for tree in trees if tree["kind"] == kind)


async def pods(session, count):
    def as_many(answer):
        found = [each["status"]["phase"] for each in answer.tree["items"]]
        return found == ["Running"] * count

    return await until(session, PODS, as_many)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "given.yaml"
    path.write_text(yaml.safe_dump_all([NAMESPACE, deployment("web"), config("settings", a="b")]))
    return str(path)


async def exported(session):
    answer = await session.ask("GET", PATH)
    assert answer.code == 200
    return list(yaml.safe_load_all(answer.body))


async def test_an_export_is_restored_into_an_empty_cluster():
    async with served(Pacer(MAX), nodes=1, controllers="*") as session:
        for path, tree in (
            ("/api/v1/namespaces", NAMESPACE),
            (DEPLOYMENTS.replace("default", "shop"), deployment("web", namespace="shop")),
            (CONFIGMAPS, config("settings", a="b")),
        ):
            with trio.fail_after(120):
                while (await session.ask("POST", path, tree)).code != 201:
                    await trio.sleep(0.02)
        await until(session, PODS.replace("default", "shop"), lambda a: len(a.tree["items"]) == 2)
        text = (await session.ask("GET", PATH)).body
    trees = list(yaml.safe_load_all(text))
    assert named(trees, "Deployment") == ["web"]
    assert named(trees, "Namespace") == ["shop"]
    assert named(trees, "Node") == ["node-1"]
    assert not named(trees, "Pod") + named(trees, "ReplicaSet") + named(trees, "Event")
    async with served(Pacer(MAX), nodes=1, controllers="*", keep=True) as session:
        await session.ask("POST", CONFIGMAPS, config("settings", a="c"))
        answer = await session.ask("POST", PATH, text)
        assert answer.code == 200, answer.body
        assert answer.tree["errors"] == []
        assert (answer.tree["created"], answer.tree["replaced"]) == (2, 1)
        assert (await session.ask("GET", f"{CONFIGMAPS}/settings")).tree["data"] == {"a": "b"}
        await until(session, PODS.replace("default", "shop"), lambda a: len(a.tree["items"]) == 2)
        again = await session.ask("POST", PATH, text)
        assert again.tree == {"errors": [], "unchanged": len(trees)}


@pytest.mark.slow
async def test_a_reset_goes_back_to_what_the_session_began_with_and_replays(file):
    async with served(Pacer(MAX), nodes=1, files=(file,), controllers="*", keep=True) as session:
        await pods(session, 2)
        began = await exported(session)
        scaled = {"spec": {"replicas": 4}}
        patch = {"Content_Type": "application/merge-patch+json"}
        await session.ask("PATCH", f"{DEPLOYMENTS}/web", scaled, **patch)
        await session.ask(
            "PATCH", "/api/v1/nodes/node-1", {"spec": {"unschedulable": True}}, **patch
        )
        await session.ask(
            "PATCH", "/api/v1/nodes/node-1", {"metadata": {"labels": {"x": "y"}}}, **patch
        )
        await session.ask("POST", DEPLOYMENTS, deployment("more", 1))
        await session.ask("DELETE", f"{CONFIGMAPS}/settings")
        await session.ask("POST", CONFIGMAPS, config("other"))
        answer = await session.ask("DELETE", PATH)
        assert (answer.code, answer.tree["errors"]) == (200, []), answer.body
        assert await exported(session) == began
        await pods(session, 2)
    first = session.serving
    again = replaying.replayed(first.plan, first.recording())
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash
    assert again.cluster.dump() == first.cluster.dump()


async def test_bad_input_is_one_line_and_rights_are_needed():
    async with served() as session:
        for body, code in ((b"{", 400), (b"\xff", 400), (b"a: 1", 400), (b"x" * (600 << 10), 413)):
            answer = await session.ask("POST", PATH, body)
            assert (answer.code, "\n" in answer.tree["message"]) == (code, False)
        unknown = b"apiVersion: a/v1\nkind: Odd\nmetadata: {name: x}\n"
        answer = await session.ask("POST", PATH, unknown)
        assert answer.tree == {"errors": ["Odd x: no kind 'Odd' in 'a/v1'"], "failed": 1}
        assert (await session.ask("PUT", PATH, b"")).code == 405
        refused = await session.ask("GET", PATH, Impersonate_User="bob")
        assert refused.code == 403
