"""Tokens of service accounts in the files of pods, in a whole cluster."""

from __future__ import annotations

import base64
import json

import pytest

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import SERVICE_ACCOUNTS
from controlplane.kubelet.pod.tokens import PodTokens
from tests.test_cluster import SECOND, cluster_with, pods, run

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
READING = f"cat {FOLDER}/token {FOLDER}/namespace > /dev/termination-log; cat {FOLDER}/ca.crt"


def program(script, *, volumes=(), **spec):
    mounts = [{"name": each["name"], "mountPath": f"/{each['name']}"} for each in volumes]
    container = {"name": "c", "image": "busybox", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{**container, "volumeMounts": mounts}],
            "volumes": list(volumes),
            **spec,
        },
    }


def world(tree, *, seconds=60, before=()):
    async def user(ctx: Context) -> None:
        for each in before:
            await Client(ctx).create(SERVICE_ACCOUNTS, each)
        await Client(ctx).create(PODS, tree)
        await ctx.sleep(seconds * SECOND)

    cluster = cluster_with(user, service_accounts=True, enabled_controllers="*")
    run(cluster)
    return cluster


def claims(text):
    part = text.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def message(cluster):
    (pod,) = pods(cluster)
    return pod.status.container_statuses[0].state.terminated.message


def on_disk(cluster):
    found = [
        files["token"].decode()
        for place, files in cluster.disks.places.items()
        if place.startswith("pod/") and files.get("token")
    ]
    return found[0] if found else ""


def test_a_program_reads_the_token_of_its_service_account_which_is_bound_to_its_pod():
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    account["metadata"] = {"name": "robot", "namespace": "default"}
    cluster = world(program(READING, serviceAccountName="robot"), before=[account])
    (pod,) = pods(cluster)
    text = message(cluster)
    assert text.endswith("default")
    found = claims(text)
    assert found["sub"] == "system:serviceaccount:default:robot"
    assert found["kubernetes.io"]["pod"] == {"name": "p", "uid": pod.metadata.uid}
    assert found["kubernetes.io"]["node"]["name"] == pod.spec.node_name


def test_the_certificate_of_the_cluster_is_beside_the_token():
    cluster = world(program(f"cat {FOLDER}/ca.crt > /dev/termination-log"))
    (published,) = [
        each.tree["data"]["ca.crt"]
        for each in cluster.objects("/registry/configmaps/")
        if each.namespace == "default" and each.name == "kube-root-ca.crt"
    ]
    assert message(cluster) == published[-4096:]


def test_a_token_of_a_volume_is_for_its_audience():
    token = {"path": "sub/token", "audience": "vault", "expirationSeconds": 700}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}}
    cluster = world(program("cat /v/sub/token > /dev/termination-log", volumes=[volume]))
    found = claims(message(cluster))
    assert (found["aud"], found["exp"] - found["iat"]) == (["vault"], 700)


def test_a_token_is_renewed_while_its_program_runs():
    script = f"cat {FOLDER}/token > /dev/termination-log; sleep infinity"
    at = [claims(on_disk(world(program(script), seconds=each)))["iat"] for each in (2800, 3000)]
    assert 2880 - 10 <= at[1] - at[0] <= 2880 + 10


def test_the_files_go_with_the_pod_and_no_token_is_asked_for_any_more():
    cluster = world(program("true"), seconds=8000)
    assert on_disk(cluster) == ""
    assert cluster.world.now < 9000 * SECOND


def test_a_volume_cannot_be_written_to():
    cluster = world(program(f"echo x > {FOLDER}/token; cat {FOLDER}/token > /dev/termination-log"))
    assert claims(message(cluster))["sub"] == "system:serviceaccount:default:default"


def test_without_an_account_the_pod_waits_and_says_so():
    tree = program("true", serviceAccountName="robot", automountServiceAccountToken=False)
    token = {"serviceAccountToken": {"path": "t"}}
    tree["spec"]["volumes"] = [{"name": "v", "projected": {"sources": [token]}}]
    tree["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        account["metadata"] = {"name": "robot", "namespace": "default"}
        await client.create(SERVICE_ACCOUNTS, account)
        await client.create(PODS, tree)
        await client.delete(SERVICE_ACCOUNTS, "default", "robot")
        await ctx.sleep(20 * SECOND)

    cluster = cluster_with(user, service_accounts=True, enabled_controllers="*")
    run(cluster)
    (pod,) = pods(cluster)
    assert pod.status.phase == "Pending"
    said = [
        each.view.message
        for each in cluster.objects("/registry/events/")
        if each.view.reason == "FailedMount"
    ]
    assert any('failed to fetch token: serviceaccounts "robot" not found' in each for each in said)


@pytest.mark.parametrize("command", [["nginx"], None])
def test_a_pod_whose_files_nothing_reads_has_no_token(command):
    tree = program("")
    tree["spec"]["containers"][0]["command"] = command
    if command is None:
        del tree["spec"]["containers"][0]["command"]
    assert on_disk(world(tree)) == ""


def test_a_kubelet_that_starts_again_asks_for_its_tokens_anew():
    seen: list[str] = []

    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, program("sleep infinity", nodeName="node-1"))
        await ctx.sleep(10 * SECOND)
        seen.append(on_disk(cluster))
        ctx.faults.crash("node-1")
        await ctx.sleep(10 * SECOND)
        seen.append(on_disk(cluster))
        ctx.faults.restart("node-1")
        await ctx.sleep(20 * SECOND)
        seen.append(on_disk(cluster))

    cluster = cluster_with(user, nodes=1, service_accounts=True, enabled_controllers="*")
    run(cluster)
    first, meanwhile, then = seen
    assert first == meanwhile
    assert claims(then)["iat"] >= claims(first)["iat"] + 20
    assert pods(cluster)[0].status.phase == "Running"


def test_a_token_is_asked_for_again_when_the_server_did_not_answer(monkeypatch):
    said: list[str] = []
    failed = PodTokens.failed

    def note(self, *args, **options):
        said.append(failed(self, *args, **options))
        return said[-1]

    monkeypatch.setattr(PodTokens, "failed", note)

    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, program("sleep infinity", nodeName="node-1"))
        while not cluster.machines["node-1"].sandboxes:
            await ctx.point("user")
        ctx.faults.crash("apiserver")
        await ctx.sleep(20 * SECOND)
        ctx.faults.restart("apiserver")
        await ctx.sleep(60 * SECOND)

    cluster = cluster_with(user, nodes=1, service_accounts=True, enabled_controllers="*")
    run(cluster)
    assert said
    assert all(each.startswith("failed to fetch token: ") for each in said)
    assert on_disk(cluster)
    assert pods(cluster)[0].status.phase == "Running"
