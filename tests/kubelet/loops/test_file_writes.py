"""Files that programs write late, in a whole cluster: when they are there, and when they never come."""

from __future__ import annotations

from actors import Context
from controlplane.client.loops.clientset import PODS, Client
from tests.test_cluster import SECOND, cluster_with, run

SCRIPT = "echo early > /v/early; sleep 20; echo late > /v/late; sleep 20; echo last > /v/last; sleep infinity"


def program(script=SCRIPT, name="p", **spec):
    mount = {"name": "v", "mountPath": "/v"}
    container = {"name": "c", "image": "i", "command": ["sh", "-c", script]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{**container, "volumeMounts": [mount]}],
            "volumes": [{"name": "v", "hostPath": {"path": "/shared"}}],
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def world(steps, seen):
    """Files of the shared directory after each step: a time in seconds, or what a user does."""

    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, program())
        for step in steps:
            if isinstance(step, int):
                await ctx.sleep(step * SECOND)
            else:
                await step(ctx)
            seen.append(sorted(cluster.disks.content("node/node-1/shared")))

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    return sorted(cluster.disks.content("node/node-1/shared"))


def test_a_file_is_there_when_its_time_has_come():
    seen: list[list[str]] = []
    at_last = world([15, 15, 20], seen)
    assert seen == [["early"], ["early", "late"], ["early", "last", "late"]]
    assert at_last == seen[-1]


async def delete(ctx):
    await Client(ctx).delete(PODS, "default", "p")


def test_what_a_program_had_not_written_when_it_was_killed_is_never_written():
    assert world([30, delete, 30], []) == ["early", "late"]


async def crash(ctx):
    ctx.faults.crash("node-1")


async def restart(ctx):
    ctx.faults.restart("node-1")


def test_a_program_stands_still_while_there_is_no_kubelet_and_goes_on_with_the_next():
    seen: list[list[str]] = []
    world([10, crash, 20, restart, 5, 30], seen)
    assert seen[2] == ["early"]
    assert seen[4] == ["early", "late"]
    assert seen[-1] == ["early", "last", "late"]


def test_a_program_that_starts_later_sees_what_was_written_by_then():
    told: list[str] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(PODS, program())
        await ctx.sleep(30 * SECOND)
        reader = program("ls /v > /dev/termination-log", "reader", restartPolicy="Never")
        await client.create(PODS, reader)
        await ctx.sleep(10 * SECOND)
        found = await client.get(PODS, "default", "reader")
        told.append(found.view.status.container_statuses[0].state.terminated.message)

    run(cluster_with(user, nodes=1))
    assert told == ["early\nlate\n"]
