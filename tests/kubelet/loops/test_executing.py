"""Programs of containers that the shell runs, in a whole cluster: their user, and their termination messages."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from tests.test_cluster import SECOND, cluster_with, pods, run


def ended(script, *, pod_context=None, **container):
    """The end of the one container of a pod that runs a script."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": pod_context or {},
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "command": ["/bin/sh", "-c"],
                    "args": [script],
                    **container,
                }
            ],
        },
    }

    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, tree)
        await ctx.sleep(60 * SECOND)

    cluster = cluster_with(user)
    run(cluster)
    [pod] = pods(cluster)
    return pod.status.container_statuses[0].state.terminated


@pytest.mark.parametrize(
    ("script", "options", "message"),
    [
        ("echo -n DONE > /dev/termination-log", {}, "DONE"),
        ("echo -n DONE > /tmp/told", {"terminationMessagePath": "/tmp/told"}, "DONE"),
        ("echo out; exit 1", {}, ""),
        (
            "echo out; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
            "out\n",
        ),
        ("echo out", {"terminationMessagePolicy": "FallbackToLogsOnError"}, ""),
        (
            "echo -n OK > /dev/termination-log; echo out; exit 1",
            {"terminationMessagePolicy": "FallbackToLogsOnError"},
            "OK",
        ),
    ],
)
def test_a_termination_message_is_in_the_status(script, options, message):
    assert ended(script, **options).message == message


@pytest.mark.parametrize(
    ("pod_context", "own", "told"),
    [
        ({"runAsUser": 1001}, {}, "uid=1001 gid=0(root) groups=0(root)"),
        ({"runAsUser": 1001, "runAsGroup": 2002}, {}, "uid=1001 gid=2002 groups=2002"),
        ({"runAsUser": 1001}, {"runAsUser": 7, "runAsGroup": 8}, "uid=7 gid=8 groups=8"),
        (
            {"fsGroup": 5, "supplementalGroups": [1234, 5]},
            {},
            "uid=0(root) gid=0(root) groups=0(root),1234,5",
        ),
    ],
)
def test_a_program_has_the_identity_of_its_security_context(pod_context, own, told):
    found = ended(
        "id -u > /dev/null; id > /dev/termination-log", pod_context=pod_context, securityContext=own
    )
    assert found.message == f"{told}\n"
