"""The default churn for kubelets: one workload that aims at no race, for finding races without a hint.

A user creates, resizes, deletes and recreates pods under a few names on nodes that give containers CPUs of
their own: pods with and without such CPUs, of one container or two, some with one that prepares things, some that
end by themselves or fail a few times, some that are slow to stop, some that a scheduler places; resizes that fit,
that have to wait and that never will, of CPU and of memory in use, several in a row; deletions in good order and by
force. The node changes. The next thing happens after a while, at once, or in the midst of what the last one
set off. Kubelets crash and begin again, and are cut off from the API server for a while, if the option says so.
In part `static-pods` files of static pods come, change and go beside that, and their mirror pods are deleted; in part
`devices` pods ask for devices of a plugin, which fall ill and whose process crashes; in the parts `volumes` and
`claims` they share volumes of a CSI driver, whose calls may fail or take long, and claims of a DRA driver; in part
`probes` they have probes, and programs that are ready late or cease to be alive. Other components end pods, too: they
write that a pod has failed, as the garbage collector of pods does for nodes that are out of service.
What happens next is a choice each time, a refusal or a broken connection is shrugged off, and what is there at the
end stays there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.api.times import SECOND
from controlplane.kubelet.cm.devicemanager.plugin import plugin_actor
from controlplane.scenarios.authoring.workloads import own_cpus, pod, static_pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.churns import kubelet_parts
from controlplane.scenarios.churns.kubelet_parts import CARD, DISK
from controlplane.scenarios.churns.parts import cut_off, in_turn
from controlplane.scenarios.engine.option import Option
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.invariants.identity import writes_keep_to_their_object
from controlplane.scenarios.invariants.kubelet_picture import (
    KUBELET_RULES,
    PROBE_RULES,
    kubelet_picture,
    terminates_at_once,
)
from controlplane.scenarios.invariants.nodes import (
    checkpoints_agree,
    conditions_name_their_resize,
    ended_pods_hold_nothing,
    kubelets_start,
    no_condition_means_done,
    no_two_run_on_one_cpu,
    nothing_is_handed_out_twice,
    nothing_starts_with_more_than_promised,
    pinned_containers_have_their_cpus,
    promises_fit,
    running_containers_keep_their_cpus,
    static_pods_run,
    statuses_are_their_own,
)
from controlplane.scenarios.invariants.pod_lives import (
    ENDED_BY_OTHERS,
    FORCED,
    deferred_resizes_do_not_fit,
    deleted_pods_go,
    ended_pods_stay_ended,
    objects_outlast_their_mounts,
    objects_outlast_their_workers,
    statuses_are_sent,
    statuses_tell_what_runs,
    what_runs_has_its_volumes,
)
from controlplane.scenarios.invariants.prepared_claims import (
    objects_outlast_their_claims,
    what_runs_has_its_claims,
)
from controlplane.scenarios.invariants.scheduling import NO_PROMISE_IS_OVERLOOKED
from controlplane.scenarios.invariants.views import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.setting import Setting
    from controlplane.scenarios.engine.user import User

Tree = dict[str, Any]
PODS = ("a", "b", "c", "d")
NODE = "node-1"
SIZES = ("500m", "1", "1500m", "3", "64")
"""CPU requests of a resize: some fit, some have to wait for others to go, the last fits no node."""
PAUSES = (0, 0, 1, 4, 12)
STEPS = (2, 6, 15, 40, 100)
"""Steps of the world after which the user continues when no condition is awaited: amid running reactions."""
MEMORY = ("64Mi", "128Mi", "512Mi")
SOON = (1, 4, 12, 30)
"""Steps after which a fault occurs: in the middle of work that has just begun."""
OUTAGES_S = (0.5, 15)

MANAGERS, STATIC_PODS, DEVICES = "managers", "static-pods", "devices"
VOLUMES, CLAIMS, PROBES = "volumes", "claims", "probes"
PARTS = (MANAGERS, PROBES, VOLUMES, CLAIMS, STATIC_PODS, DEVICES)
FILES = ("agent", "proxy")
GPU = "example.com/gpu"
ILL = ("", "device-0", "device-0,device-1")
"""Devices that the plugin reports as unhealthy."""

PART = Option("part", choices=PARTS, varied=True, help="What there is besides pods with CPUs.")
OPERATIONS = Option(
    "operations", type=int, low=1, default=14, help="How many things the user does."
)
FAULTS = Option(
    "faults", type=bool, default=True, help="Whether kubelets crash and connections are cut."
)


async def churn(user: User) -> None:
    """One thing after the other, with pauses of any length or none."""
    from controlplane.kubelet.allocation.manager import RETRY_S

    if user.options["part"] in MADE_FIRST:
        await MADE_FIRST[user.options["part"]](user)
    for _ in range(user.options["operations"]):
        await _something(user, PODS[in_turn(user, len(PODS), "which pod")])
        await _pause(user)
    await user.sleep(30)
    # Less memory than is in use would be tried for ever, and what ceases to be alive started again for ever.
    unused = {"metadata": {"annotations": {"emulate.controlplane/memory-usage": "0"}}}
    for obj in user.run.objects("/registry/pods/"):
        if kubelet_parts.LIVES in (obj.metadata.get("annotations") or {}):
            await user.attempt(user.delete("Pod", obj.name))
            continue
        await user.attempt(user.patch("Pod", obj.name, unused))
    await user.sleep(60)
    await user.sleep(RETRY_S)  # at most until a kubelet tries a deferred resize again


async def _pause(user: User) -> None:
    """Wait for a few seconds, not at all, or for a number of steps of the world (four seconds at most)."""
    pause = in_turn(user, len(PAUSES) + len(STEPS), "pause")
    if pause < len(PAUSES):
        if PAUSES[pause]:
            await user.sleep(PAUSES[pause])
        return
    ctx = user.ctx
    soon = ctx.condition()
    ctx.faults.at_step(ctx.step + STEPS[pause - len(PAUSES)], soon.notify_all)
    await soon.wait(4 * SECOND, point="user.soon")


async def _something(user: User, name: str) -> None:
    if name not in [each.name for each in user.run.objects("/registry/pods/")]:
        await user.attempt(user.create(_pod(user, name)))
        return
    todo: list[Callable[[User, str], Coroutine[Any, Any, None]]]
    todo = [_delete, _resize, _fail, _delete, _resize_twice, _touch_node, _resize]
    if user.options["faults"]:
        todo += [_restart, _cut]
    todo += MORE.get(user.options["part"], ())
    await todo[in_turn(user, len(todo), "what")](user, name)


def _pod(user: User, name: str) -> Tree:
    stops_s = (0, 8)[in_turn(user, 2, "how it stops")]
    if in_turn(user, 2, "CPUs of its own"):
        tree = own_cpus(name, str(1 + in_turn(user, 3, "CPUs")), NODE, stops_s=stops_s)
    else:
        tree = pod(name, SIZES[in_turn(user, 3, "what size")])
        if in_turn(user, 4, "who places it") < 3:
            tree["spec"]["nodeName"] = NODE
        if in_turn(user, 3, "limits") == 2:
            (one,) = tree["spec"]["containers"]
            one["resources"]["limits"] = {"memory": "256Mi"}
            _annotate(tree, "memory-usage", "100Mi")
    (one,) = tree["spec"]["containers"]
    if user.options["part"] == DEVICES and in_turn(user, 2, "devices"):
        limits = one.setdefault("resources", {}).setdefault("limits", {})
        limits[GPU] = str(1 + in_turn(user, 2, "how many devices"))
    if user.options["part"] in GIVEN:
        GIVEN[user.options["part"]](user, tree)
    more = in_turn(user, 6, "containers")
    if more == 4:
        tree["spec"]["initContainers"] = [{**one, "name": "init"}]
    elif more == 5:
        tree["spec"]["containers"].append({**one, "name": "other"})
    ends = in_turn(user, 6, "ends by itself")
    if ends >= 4:
        _annotate(tree, "run-seconds", "5")
        tree["spec"]["restartPolicy"] = "Never"
    if ends == 5:
        _annotate(tree, "exit-codes", "1,1,0")
        tree["spec"]["restartPolicy"] = "OnFailure"
    return tree


def _annotate(tree: Tree, name: str, value: str) -> None:
    tree["metadata"].setdefault("annotations", {})[f"emulate.controlplane/{name}"] = value


async def _resize(user: User, name: str) -> None:
    wanted = {"requests": {"cpu": SIZES[in_turn(user, len(SIZES), "to what size")]}}
    if in_turn(user, 4, "memory as well") == 3:
        amount = MEMORY[in_turn(user, len(MEMORY), "memory")]
        wanted["requests"]["memory"] = amount
        wanted["limits"] = {"memory": amount}
    change = {"spec": {"containers": [{"name": "main", "resources": wanted}]}}
    await user.attempt(user.patch("Pod", name, change, subresource="resize"))


async def _resize_twice(user: User, name: str) -> None:
    for _ in range(2 + in_turn(user, 2, "how often")):
        await _resize(user, name)
        await _pause(user)


async def _touch_node(user: User, _name: str) -> None:
    labels = {"touched": str(user.ctx.serial())}
    await user.attempt(user.patch("Node", NODE, {"metadata": {"labels": labels}}))


async def _fail(user: User, name: str) -> None:
    """Another component says that the pod has failed, unless it has ended."""
    there = [each for each in user.run.objects("/registry/pods/") if each.name == name]
    uids = [each.uid for each in there if each.tree["status"].get("phase") not in ENDED]
    if not uids:
        return
    user.run.notes.setdefault(ENDED_BY_OTHERS, set()).update(uids)
    status = {"status": {"phase": "Failed", "reason": "Lost"}}
    await user.attempt(user.patch("Pod", name, status, subresource="status"))


async def _delete(user: User, name: str) -> None:
    grace = (1, 0, 30)[in_turn(user, 3, "grace")]
    for obj in user.run.objects("/registry/pods/"):
        if obj.name == name and (not grace or obj.metadata.get("deletionTimestamp")):
            user.run.notes.setdefault(FORCED, set()).add(obj.uid)
    await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
    if in_turn(user, 2, "recreate at once"):
        await user.attempt(user.create(_pod(user, name)))


async def _restart(user: User, _name: str) -> None:
    ctx = user.ctx

    def fault() -> None:
        user.crash(NODE)
        user.restart(NODE)

    ctx.faults.at_step(ctx.step + SOON[ctx.choose("fault", len(SOON), "how soon")], fault)


async def _cut(user: User, _name: str) -> None:
    """The kubelet and the API server are cut off from each other for a while."""
    lasts = OUTAGES_S[user.ctx.choose("fault", len(OUTAGES_S), "how long")]
    cut_off(user, NODE, lasts)


async def _write_file(user: User, _name: str) -> None:
    """Write the file of a static pod, with the uid that it had or another."""
    file = FILES[in_turn(user, len(FILES), "which file")]
    uid = ("", f"static-{file}")[in_turn(user, 2, "names its uid")]
    tree = static_pod(file, uid=uid, stops_s=(0, 8)[in_turn(user, 2, "how it stops")])
    tree["spec"]["containers"][0]["image"] = f"app:{1 + in_turn(user, 2, 'image')}"
    await user.write_manifest(NODE, file, tree)


async def _remove_file(user: User, _name: str) -> None:
    """Remove the file of a static pod; sometimes it comes back at once."""
    file = FILES[in_turn(user, len(FILES), "which file")]
    await user.write_manifest(NODE, file, None)
    if in_turn(user, 2, "recreate at once"):
        await user.write_manifest(NODE, file, static_pod(file, uid=f"static-{file}"))


async def _delete_mirror(user: User, _name: str) -> None:
    file = FILES[in_turn(user, len(FILES), "which file")]
    grace = (1, 0)[in_turn(user, 2, "grace")]
    name = f"{file}-{NODE}"
    await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))


async def _change_health(user: User, _name: str) -> None:
    """Let the plugin report some of its devices as unhealthy, or none."""
    notes = {"emulate.controlplane/unhealthy-devices": f"{GPU}={ILL[in_turn(user, 3, 'which')]}"}
    await user.attempt(user.patch("Node", NODE, {"metadata": {"annotations": notes}}))


async def _restart_plugin(user: User, _name: str) -> None:
    plugin = plugin_actor(GPU, NODE)
    user.crash(plugin)
    await user.sleep(in_turn(user, 3, "how long the plugin is away"))
    user.restart(plugin)


MORE: dict[str, tuple[Callable[[User, str], Coroutine[Any, Any, None]], ...]] = {
    STATIC_PODS: (_write_file, _write_file, _remove_file, _delete_mirror),
    DEVICES: (_change_health, _restart_plugin),
}
"""Further actions of the user in a part."""
MADE_FIRST: dict[str, Callable[[User], Coroutine[Any, Any, None]]] = {
    VOLUMES: kubelet_parts.make_volumes,
    CLAIMS: kubelet_parts.make_claims,
}
"""Set-up of a part, before the first pod is created."""
GIVEN: dict[str, Callable[[User, Tree], None]] = {
    VOLUMES: kubelet_parts.give_volumes,
    CLAIMS: kubelet_parts.give_claims,
    PROBES: kubelet_parts.give_probes,
}
"""Additions of a part to each pod."""


def build(setting: Setting) -> ClusterConfig:
    """Kubelets with static policies; of the part, with a folder of static pods, a device plugin or a driver."""
    part = setting[PART.key]
    config = nodes_with_managers()(setting)
    if part == STATIC_PODS:
        settings = {
            name: evolve(each, manifests={}) for name, each in config.kubelet_settings.items()
        }
        return evolve(config, kubelet_settings=settings)
    if part == VOLUMES:
        return kubelet_parts.with_driver(config, moods=setting[FAULTS.key])
    if part == CLAIMS:
        return kubelet_parts.with_cards(config)
    if part == DEVICES:
        notes = {"emulate.controlplane/device-plugins": f"{GPU}=3"}
        nodes = [
            {**tree, "metadata": {**tree["metadata"], "annotations": notes}}
            for tree in config.nodes or ()
        ]
        return evolve(config, nodes=tuple(nodes))
    return config


OF_PART: dict[str, tuple[Invariant, ...]] = {
    STATIC_PODS: (static_pods_run(NODE),),
    VOLUMES: (
        objects_outlast_their_mounts("apiserver", DISK),
        what_runs_has_its_volumes(DISK, NODE),
    ),
    CLAIMS: (
        objects_outlast_their_claims("apiserver", NODE),
        what_runs_has_its_claims(CARD, NODE),
    ),
    PROBES: kubelet_picture(NODE, *PROBE_RULES),
}
"""Further invariants of a part."""


def invariants(setting: Setting) -> tuple[Invariant, ...]:
    """Without faults also what containers run on, which a kubelet that restarts may have forgotten, as upstream."""
    found: tuple[Invariant, ...] = (
        nothing_is_handed_out_twice(NODE),
        checkpoints_agree(NODE),
        promises_fit(NODE),
        ended_pods_hold_nothing(NODE),
        kubelets_start(NODE),
        statuses_are_their_own(NODE),
        no_condition_means_done(NODE),
        no_two_run_on_one_cpu(NODE),
        nothing_starts_with_more_than_promised(NODE),
        conditions_name_their_resize(NODE),
        NO_PROMISE_IS_OVERLOOKED,
        ended_pods_stay_ended("apiserver"),
        deleted_pods_go(NODE),
        statuses_tell_what_runs(NODE),
        deferred_resizes_do_not_fit(NODE),
        objects_outlast_their_workers("apiserver", NODE),
        statuses_are_sent(NODE),
        terminates_at_once(NODE),
        *kubelet_picture(NODE, *KUBELET_RULES),
        writes_keep_to_their_object(),
        *OF_PART.get(setting[PART.key], ()),
    )
    if setting[FAULTS.key]:
        return found
    return (
        *found,
        running_containers_keep_their_cpus(NODE),
        pinned_containers_have_their_cpus(NODE),
    )


SCENARIO = Scenario(
    "kubelet-churn",
    workload=churn,
    build=build,
    invariants=invariants,
    options=(PART, OPERATIONS, FAULTS),
    defaults={"nodes": 1, "node_cpu": "7"},
)
