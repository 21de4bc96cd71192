"""Invariants of the CPUs and the memory that kubelets assign, checked after every step of a node."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import ENDED, PODS, stored_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.cm.container_manager import ContainerManager
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.loops.process import Process
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.scenario import Check


def _own(run: Run, nodes: Sequence[str]) -> Sequence[str]:
    """Of these nodes the one whose step it was: what a node has in memory changes in its own steps alone."""
    stepped = run.world.stepped
    return nodes if stepped is None or stepped not in nodes else (stepped,)


def _of_pods(name: str, check: Check) -> Invariant:
    """An invariant of stored pods and of nothing else: once it holds, it does until one is written."""
    return Invariant(name, check, ("apiserver",), looks_at=stored_pods)


def _between_writes(run: Run, nodes: Sequence[str]) -> Iterator[tuple[str, Host, ContainerManager]]:
    """The kubelets that run and hand something out, but for those amid writes that belong together."""
    for node in nodes:
        host = run.cluster.machines[node]
        if host.containers is not None and not host.writing and run.world.alive(node):
            yield node, host, host.containers


def _of_nodes(look: Callable[[Run, str], Any], nodes: tuple[str, ...]) -> Callable[[Run], Any]:
    """The state of the node that took the step, as an invariant reads it."""

    def looks_at(run: Run) -> Any:
        stepped = run.cluster.world.stepped
        if stepped in nodes:
            return look(run, stepped)
        return [look(run, node) for node in nodes]

    return looks_at


@cache
def _managers(*nodes: str) -> Callable[[Run], Any]:
    """The state of these nodes' managers, except between writes that belong together."""

    def look(run: Run, node: str) -> Any:
        host = run.cluster.machines[node]
        manager = host.containers
        if manager is None or host.writing or not run.world.alive(node):
            return None
        owned = None if manager.devices is None else manager.devices.owned
        return manager, manager.cpu.state, manager.memory.state, owned

    return _of_nodes(look, nodes)


@cache
def _running(*nodes: str) -> Callable[[Run], Any]:
    """The containers that run on these nodes, on which CPUs, and what was written to the nodes' disks."""

    def look(run: Run, node: str) -> Any:
        host = run.cluster.machines[node]
        found = [
            (each.container_id, each.cpus, each.exclusive)
            for sandbox in host.sandboxes.values()
            for each in sandbox.containers.values()
            if each.running_since is not None
        ]
        return host.containers, run.world.disk(node).changes, found

    return _of_nodes(look, nodes)


@cache
def _promises(*nodes: str) -> Callable[[Run], Any]:
    """The sources of these nodes' allocations."""

    def look(run: Run, node: str) -> Any:
        go_by = run.cluster.machines[node].promises_go_by
        return None if go_by is None or not run.world.alive(node) else go_by()

    return _of_nodes(look, nodes)


def nothing_is_handed_out_twice(*nodes: str) -> Invariant:
    """Of these nodes: no CPU and no device of a plugin has two owners, no CPU is lost, no memory is allocated twice."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.invariants import violations

        for node, _, manager in _between_writes(run, _own(run, nodes)):
            found = violations(manager)
            if found:
                return f"{node}: {found[0]}"
        return None

    managers = _managers(*nodes)
    return Invariant("no CPU and no memory has two owners", check, nodes, looks_at=managers)


def no_two_run_on_one_cpu(*nodes: str) -> Invariant:
    """Of these nodes: no two containers that run have CPUs of their own in common, whatever the managers say.

    Not so of a pod that the kubelet refused as it started anew, nor of one that went while there was no kubelet:
    the CPUs are free at once, and its containers run until the next housekeeping. Upstream: rejectPod and
    HandlePodCleanups of pkg/kubelet/kubelet.go, removeStaleState of the managers.
    """

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.cpuset import CPUSet

        for node in _own(run, nodes):
            host = run.cluster.machines[node]
            manager = host.containers
            if manager is None:
                continue
            owners: dict[int, str] = {}
            for uid, sandbox in host.sandboxes.items():
                if _was_refused(host.process, uid) or _is_unknown(host.process, uid):
                    continue
                for container in sandbox.running():
                    if not container.cpus or not container.exclusive:
                        continue
                    for cpu in CPUSet.parse(container.cpus):
                        name = f"{uid}/{container.name}"
                        other = owners.setdefault(cpu, name)
                        if other != name:
                            return f"{node}: CPU {cpu} is {other}'s and {name}'s"
        return None

    running = _running(*nodes)
    return Invariant("no two containers run on one exclusive CPU", check, nodes, looks_at=running)


def _was_refused(process: Process | None, uid: str) -> bool:
    """Return whether the last word of a kubelet about a pod is that it does not admit it."""
    status = None if process is None else process.shared.statuses.get(uid)
    return status is not None and status.get("phase") == "Failed" and bool(status.get("reason"))


def _is_unknown(process: Process | None, uid: str) -> bool:
    """Return whether the runtime alone knows a pod."""
    return (
        process is not None and uid not in process.shared.pods and process.workers.get(uid) is None
    )


def checkpoints_agree(*nodes: str) -> Invariant:
    """Of these nodes: what the managers remember is what their files say, but for amid a write; after a restart too."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.container_manager import FILES

        for node, _, manager in _between_writes(run, _own(run, nodes)):
            disk = run.world.disk(node)
            texts = manager.cpu.state.text, manager.memory.state.text
            for file, remembered in zip(FILES, texts, strict=True):
                written = disk.read(file)
                if written is not None and written != remembered:
                    return f"{node}: {file} is not what is remembered"
        return None

    managers = _managers(*nodes)
    return Invariant("files say what managers remember", check, nodes, looks_at=managers)


def promises_fit(*nodes: str) -> Invariant:
    """Of these nodes: the sum allocated to the admitted pods is never more than is allocatable."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.node.admission import amount, together

        for node in _own(run, nodes):
            promises = run.cluster.machines[node].promises
            if promises is None or not run.world.alive(node):
                continue
            allocatable, pods = promises()
            for name, total in together(pods).items():
                most = amount(name, allocatable[name]) if name in allocatable else 0
                if total > most:
                    return f"{node}: {total} of {name} are promised, {most} are allocatable"
        return None

    promises = _promises(*nodes)
    return Invariant("no more is promised than is allocatable", check, nodes, looks_at=promises)


def ended_pods_hold_nothing(*nodes: str) -> Invariant:
    """Of these nodes, once nothing moves: no CPU and no memory belongs to a pod that has ended, or is gone."""

    def check(run: Run) -> str | None:
        there = {
            obj.uid
            for obj in run.objects(PODS)
            if (obj.tree.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        }
        for node, _, manager in _between_writes(run, nodes):
            for held in (manager.cpu.state.assignments, manager.memory.state.entries):
                for uid in held:
                    if uid not in there:
                        return f"{node}: pod {uid} is over and holds {held[uid]}"
        return None

    return Invariant("a pod that has ended holds nothing", check)


def kubelets_start(*nodes: str) -> Invariant:
    """Of these nodes: whatever was on the disk, the kubelet did not refuse it."""

    def check(run: Run) -> str | None:
        for node in nodes:
            refused = run.cluster.machines[node].refused
            if refused:
                return f"{node}: the kubelet does not start: {refused}"
        return None

    return Invariant("no kubelet refuses what its predecessor left", check, nodes)


def statuses_are_their_own(*nodes: str) -> Invariant:
    """Of pods on these nodes: the containers that a status tells of are this pod's, or of a mirror its static pod's."""

    def check(run: Run) -> str | None:
        for obj in run.objects(PODS):
            tree = obj.tree
            node = tree["spec"].get("nodeName")
            if node not in nodes:
                continue
            for each in tree.get("status", {}).get("containerStatuses") or ():
                told = each.get("containerID")
                if told and not _is_own(run, node, obj, each, told):
                    return f"{obj.key} ({obj.uid}) is reported with another pod's container {told}"
        return None

    return _of_pods("a status tells of its own pod", check)


def _is_own(run: Run, node: str, obj: Object, status: Tree, told: str) -> bool:
    """Return whether a container id is one of the pod's own, or of a mirror pod one of its static pod's."""
    from controlplane.kubelet.pod.container_runtime import container_id
    from controlplane.kubelet.pod.static_pods import CONFIG_HASH

    def is_of(uid: str) -> bool:
        count = status.get("restartCount", 0)
        return told in (container_id(uid, status["name"], at) for at in range(count, -1, -1))

    made_for = (obj.metadata.get("annotations") or {}).get(CONFIG_HASH)
    if made_for is None:
        return is_of(obj.uid)
    if is_of(made_for):
        return True
    # The status manager takes a mirror pod for that of the static pod of its name, also before the mirror of the
    # file's last content is deleted: of the content that is on the disk, or of one that still runs.
    others = {each.uid: each.key for each in _static_pods(run, node)}
    stored = {each.uid for each in run.objects(PODS)}
    running = run.cluster.machines[node].sandboxes.keys() - others.keys() - stored
    return any(is_of(uid) for uid, key in others.items() if key == obj.key) or any(
        is_of(uid) for uid in sorted(running)
    )


def running_containers_keep_their_cpus(*nodes: str) -> Invariant:
    """Of these nodes: CPUs of its own that a container runs on are its own in the managers' memory as well."""

    def check(run: Run) -> str | None:
        for node, host, manager in _between_writes(run, _own(run, nodes)):
            for uid, sandbox in host.sandboxes.items():
                for container in sandbox.running():
                    if not container.exclusive:
                        continue
                    known = manager.cpu.state.get(uid, container.name)
                    if known is None or str(known) != container.cpus:
                        shown = "nothing" if known is None else f"CPUs {known}"
                        return (
                            f"{node}: {uid}/{container.name} runs on CPUs {container.cpus}"
                            f" and is remembered to have {shown}"
                        )
        return None

    return Invariant("what runs on CPUs of its own is remembered to have them", check, nodes)


def no_condition_means_done(*nodes: str) -> Invariant:
    """Of pods on these nodes: one that runs without PodResizeInProgress has its allocated resources.

    Not of one that is being deleted, that a client says has ended, or that the kubelet refused as it started anew:
    nothing judges its resizes any more, and a status may be written between a promise and its condition.
    """

    def check(run: Run) -> str | None:
        for obj in run.objects(PODS):
            status = obj.tree.get("status") or {}
            node = obj.tree["spec"].get("nodeName")
            if node not in nodes:
                continue
            if obj.metadata.get("deletionTimestamp") or status.get("phase") in ENDED:
                continue
            if any(
                each["type"] == "PodResizeInProgress" for each in status.get("conditions") or ()
            ):
                continue
            for each in status.get("containerStatuses") or ():
                has = (each.get("resources") or {}).get("requests")
                promised = each.get("allocatedResources")
                if "running" in each.get("state", {}) and has != promised:
                    if _was_refused(run.cluster.machines[node].process, obj.uid):
                        break
                    return (
                        f"{obj.key} was promised {promised}, has {has},"
                        " and no resize is in progress"
                    )
        return None

    return _of_pods("no resize in progress means that it is over", check)


def pinned_containers_have_their_cpus(*nodes: str) -> Invariant:
    """Of these nodes: a container that runs and is entitled to CPUs of its own has them."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.cm.requests import containers_of, exclusive_cpus

        pods: dict[str, Any] = {obj.uid: obj.view for obj in run.objects(PODS)}
        for node, host, manager in _between_writes(run, nodes):
            for uid, sandbox in host.sandboxes.items():
                pod = pods.get(uid)
                if pod is None or pod.metadata.deletion_timestamp is not None:
                    continue
                entitled = [
                    each.name
                    for each in containers_of(pod)
                    if exclusive_cpus(pod, each, manager.cpu.features)
                ]
                for container in sandbox.running():
                    name = container.name
                    if name in entitled and manager.cpu.state.get(uid, name) is None:
                        return f"{node}: {pod.key} runs {name}, which has lost its CPUs"
        return None

    return Invariant("who is entitled to CPUs of its own has them", check, nodes)


_STARTED = "containers that have started"
_PROMISED = "promised on"
REFUSALS = ("UnexpectedAdmissionError", "TopologyAffinityError", "SMTAlignmentError")


def who_ran_is_admitted_again(*nodes: str) -> Invariant:
    """Of these nodes: no restart of a kubelet refuses a pod whose containers have run."""

    def check(run: Run) -> str | None:
        for obj in run.objects(PODS):
            told = obj.tree.get("status") or {}
            reason = told.get("reason", "")
            if told.get("phase") != "Failed" or not reason.startswith(("OutOf", *REFUSALS)):
                continue
            for node in nodes:
                sandbox = run.cluster.machines[node].sandboxes.get(obj.uid)
                if sandbox is None:
                    continue
                if any(each.attempt >= 0 for each in sandbox.containers.values()):
                    return f"{node}: {obj.key} ran and is refused: {reason}: {told.get('message')}"
        return None

    return Invariant("who ran is admitted again", check, ("apiserver",))


def nothing_starts_with_more_than_promised(*nodes: str) -> Invariant:
    """Of these nodes: no container starts with more CPU than was ever allocated to it.

    Ever, since a sync goes by the promise with which it began, and another may have been made since.
    """

    def check(run: Run) -> str | None:
        from controlplane.api.quantity import parse

        seen: dict[str, None] = run.notes.setdefault(_STARTED, {})
        for node in _own(run, nodes):
            most = _most_promised(run, node)
            started = [
                (uid, container)
                for uid, sandbox in run.cluster.machines[node].sandboxes.items()
                for container in sandbox.running()
                if container.container_id not in seen
            ]
            seen.update((container.container_id, None) for _, container in started)
            if run.cluster.machines[node].writing:  # what is allocated is not on the disk yet
                continue
            for uid, container in started:
                has = (container.resources or {}).get("requests", {}).get("cpu")
                may = most.get((uid, container.name))
                if has and may and parse(has) > parse(may):
                    return (
                        f"{node}: {uid}/{container.name} starts with {has} and was promised {may}"
                    )
        return None

    running = _running(*nodes)
    return Invariant(
        "nothing starts with more than it was promised", check, nodes, looks_at=running
    )


def _most_promised(run: Run, node: str) -> dict[tuple[str, str], str]:
    """The most CPU that was allocated to each container so far, by pod uid and name."""
    import json

    from controlplane.api.quantity import parse
    from controlplane.kubelet.allocation.state import ALLOCATED

    last, most = run.notes.setdefault(f"{_PROMISED} {node}", ["", {}])
    text = run.world.disk(node).read(ALLOCATED)
    if text is not None and text != last:
        run.notes[f"{_PROMISED} {node}"][0] = text
        for uid, entry in json.loads(json.loads(text)["data"])["entries"].items():
            for name, each in entry.get("ContainerResources", {}).items():
                cpu = each.get("requests", {}).get("cpu")
                known = most.get((uid, name))
                if cpu and (known is None or parse(cpu) > parse(known)):
                    most[uid, name] = cpu
    found: dict[tuple[str, str], str] = most
    return found


def conditions_name_their_resize(*nodes: str) -> Invariant:
    """Of pods on these nodes: a resize that waits is not the one that is in progress."""

    def check(run: Run) -> str | None:
        for obj in run.objects(PODS):
            if obj.tree["spec"].get("nodeName") not in nodes:
                continue
            told = {
                each["type"]: each.get("observedGeneration")
                for each in (obj.tree.get("status") or {}).get("conditions") or ()
            }
            waits, runs = told.get("PodResizePending"), told.get("PodResizeInProgress")
            if waits and waits == runs:
                return f"{obj.key}: generation {waits} is said to wait and to be in progress"
        return None

    return _of_pods("conditions tell resizes apart", check)


MISFIT = "misfit"


def placed_pods_are_admitted(*nodes: str) -> Invariant:
    """Of these nodes, on which only the scheduler places pods: none is refused for lack of room.

    But for pods whose names begin with "misfit", which are meant to be refused.
    """

    def check(run: Run) -> str | None:
        for obj in run.objects(PODS):
            told = obj.tree.get("status") or {}
            if obj.tree["spec"].get("nodeName") not in nodes or obj.name.startswith(MISFIT):
                continue
            if told.get("phase") == "Failed" and told.get("reason", "").startswith("OutOf"):
                return f"{obj.key} is refused: {told['reason']}: {told.get('message')}"
        return None

    return _of_pods("there is room for what the scheduler places", check)


def mirrors_stay(*nodes: str) -> Invariant:
    """Static pods of these nodes with unchanged files: a mirror pod goes only after a delete request."""

    def check(run: Run) -> str | None:
        from controlplane.api.pod import CONFIG_MIRROR

        known: dict[str, bool] = run.notes.setdefault("mirrors that may go", {})
        there = {
            obj.uid: obj.metadata.get("deletionTimestamp")
            for obj in run.objects(PODS)
            if obj.tree["spec"].get("nodeName") in nodes
            and CONFIG_MIRROR in (obj.metadata.get("annotations") or ())
        }
        for uid in [uid for uid in known if uid not in there]:
            if not known.pop(uid):
                return f"mirror pod {uid} is gone without a request to delete it"
        for uid, marked in there.items():
            known[uid] = marked is not None
        return None

    return _of_pods("a mirror pod stays until its deletion is requested", check)


def _static_pods(run: Run, node: str) -> list[Object[Pod]]:
    """The static pods whose files are on a node's disk now."""
    from controlplane.kubelet.pod.static_pods import FOLDER, Manifests

    disk, manifests = run.world.disk(node), Manifests(node)
    for key in disk.keys():  # noqa: SIM118 - a disk is no mapping
        if key.startswith(FOLDER):
            manifests.read(key[len(FOLDER) :], disk.read(key), 0)
    return manifests.pods()


def static_pods_run(*nodes: str) -> Invariant:
    """Of these nodes, once nothing moves: each static pod whose file is there runs, and is shown to."""

    def check(run: Run) -> str | None:
        from controlplane.kubelet.pod.static_pods import CONFIG_HASH

        shown = {obj.key: obj.view for obj in run.objects(PODS)}
        for node in nodes:
            for wanted in _static_pods(run, node):
                sandbox = run.cluster.machines[node].sandboxes.get(wanted.uid)
                if sandbox is None or not sandbox.running():
                    return f"{node}: {wanted.key} does not run"
                mirror = shown.get(wanted.key)
                if mirror is None or mirror.annotations.get(CONFIG_HASH) != wanted.uid:
                    return f"{node}: the API server does not show {wanted.key}"
        return None

    return Invariant("static pods run", check)
