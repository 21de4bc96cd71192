"""Load that pods share: what containers use follows the number of pods, their age, and the node's strength.

Annotations say so: `emulate.controlplane/cpu-load` on a workload is the CPU that its ready pods use together, in equal
shares; `cpu-start-usage` and `cpu-start-seconds` on a pod are what it uses while it starts; `overload-cpu` on a Node is
the usage above which the machine fails. `usage_of` decides what each pod uses, `overloaded` which nodes fail. `follow`
measures every 15 seconds of virtual time, as metrics-server does, and writes the pods' annotation `cpu-usage`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.labels import from_label_selector
from controlplane.api.pod_resources import pod_limits
from controlplane.api.quantity import Quantity, QuantityError, parse
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import is_ready
from controlplane.api.usage import PREFIX, of_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.user import User

__all__ = [
    "FAILURES",
    "LOAD",
    "START_SECONDS",
    "START_USAGE",
    "Overload",
    "follow",
    "has_load",
    "overloaded",
    "starting",
    "usage_of",
]

LOAD: Final = f"{PREFIX}cpu-load"
START_USAGE: Final = f"{PREFIX}cpu-start-usage"
START_SECONDS: Final = f"{PREFIX}cpu-start-seconds"
OVERLOAD: Final = f"{PREFIX}overload-cpu"
USAGE: Final = f"{PREFIX}cpu-usage"
PERIOD_S: Final = 15
FIRST_S: Final = 10
"""The time of the first measurement: between two looks of the autoscalers."""
PATIENCE: Final = 2
"""The number of measurements in a row above a node's strength after which the machine fails."""
FAILURES: Final = "load.failures"
"""The note of a run that lists the machines that failed: (virtual nanoseconds, Overload)."""
LOADED: Final = ("deployments", "statefulsets", "replicasets")


def has_load(trees: Iterable[Tree]) -> bool:
    """Return whether a manifest has one of the annotations, in its metadata or in those of its template."""
    return any(
        key in (LOAD, START_USAGE, OVERLOAD)
        for tree in trees
        for metadata in (tree.get("metadata"), _template(tree).get("metadata"))
        for key in (metadata or {}).get("annotations") or ()
    )


def _template(tree: Tree) -> Tree:
    spec = tree.get("spec")
    return (spec.get("template") or {}) if isinstance(spec, dict) else {}


def usage_of(workloads: Iterable[Object], pods: Sequence[Object], now: int) -> dict[str, int]:
    """Return the CPU usage of pods in thousandths of a CPU, by their keys, for those with an annotated load.

    Args:
        workloads: the objects that own the pods; those with the annotation `cpu-load` have a load.
        pods: all pods.
        now: the wall time in nanoseconds.
    """
    found: dict[str, int] = {}
    for workload in workloads:
        load = _amount(workload.metadata, LOAD)
        if load is None:
            continue
        view: Any = workload.view
        selector = from_label_selector(view.spec.selector)
        sharing = [
            each
            for each in pods
            if each.namespace == workload.namespace
            and _serves(each.tree)
            and selector.matches(each.metadata.get("labels") or {})
        ]
        for pod in sharing:
            found[pod.key] = load // len(sharing)
    for pod in pods:
        extra = starting(pod.tree, now)
        if extra is not None:
            found[pod.key] = extra + found.get(pod.key, 0)
        if pod.key in found:
            found[pod.key] = _limited(pod, found[pod.key])
    return found


def starting(pod: Tree, now: int) -> int | None:
    """Return the CPU usage of a pod for its start in thousandths of a CPU, 0 once the start is over.

    None for a pod without the annotation `cpu-start-usage`.
    """
    extra = _amount(pod["metadata"], START_USAGE)
    if extra is None:
        return None
    annotations = pod["metadata"].get("annotations") or {}
    try:
        lasts = float(annotations.get(START_SECONDS, "60"))
    except ValueError:
        return None
    begun = _begun(pod)
    return extra if begun is not None and now - begun < lasts * SECOND else 0


def _begun(pod: Tree) -> int | None:
    """Return the start time of the first running container, as wall time in nanoseconds."""
    times = []
    for each in (pod.get("status") or {}).get("containerStatuses") or ():
        running = (each.get("state") or {}).get("running")
        if running and running.get("startedAt"):
            times.append(parse_time(running["startedAt"]))
    return min(times, default=None)


def _serves(pod: Tree) -> bool:
    """Return whether load comes to a pod: it is ready, and stays."""
    return is_ready(pod) and not pod["metadata"].get("deletionTimestamp")


def _limited(pod: Object, amount: int) -> int:
    """A container cannot use more than its limit."""
    view: Any = pod.view
    limit = pod_limits(view).get("cpu")
    return amount if limit is None else min(amount, limit.milli_value())


def _amount(metadata: Tree, annotation: str) -> int | None:
    text = (metadata.get("annotations") or {}).get(annotation)
    if text is None:
        return None
    try:
        return max(parse(text).milli_value(), 0)
    except QuantityError:
        return None


@frozen
class Overload:
    """A node whose pods use more CPU than it bears, in thousandths."""

    node: str
    used: int
    bears: int


def overloaded(nodes: Iterable[Object], pods: Sequence[Object]) -> list[Overload]:
    """The nodes whose pods use more CPU than the node's annotation says that it bears."""
    found = []
    for node in nodes:
        strength = _amount(node.metadata, OVERLOAD)
        if strength is None:
            continue
        there = [each.tree for each in pods if _runs_on(each.tree, node.name)]
        used = of_pods(there)["cpu"]
        if used > strength:
            found.append(Overload(node.name, used, strength))
    return found


def _runs_on(pod: Tree, node: str) -> bool:
    return (pod.get("spec") or {}).get("nodeName") == node


async def follow(user: User) -> None:
    """Measure what pods use, for ever; write it to them, and let overloaded machines fail.

    A measurement does not keep a run from settling, unless pods are just starting or a machine is overloaded. Machines
    that failed are listed with the time in the run's note `load.failures`.
    """
    epoch = user.cluster.config.epoch_ns
    failures = user.notes.setdefault(FAILURES, [])
    above: dict[str, int] = {}
    wait, idle = FIRST_S, False
    while True:
        await user.ctx.sleep(wait * SECOND, idle=idle, point="load.measure")
        wait = PERIOD_S
        pods = user.run.objects("/registry/pods/")
        workloads = [obj for kind in LOADED for obj in user.run.objects(f"/registry/{kind}/")]
        now = epoch + user.ctx.now
        changed = await _write(user, pods, usage_of(workloads, pods, now))
        alive = [
            each
            for each in user.run.objects("/registry/minions/")
            if user.run.world.has_actor(each.name) and user.run.world.alive(each.name)
        ]
        high = overloaded(alive, user.run.objects("/registry/pods/"))
        above = {each.node: above.get(each.node, 0) + 1 for each in high}
        for each in high:
            if above[each.node] >= PATIENCE:
                failures.append((user.ctx.now, each))
                user.crash(each.node)
        idle = not changed and not high and not any(starting(each.tree, now) for each in pods)


async def _write(user: User, pods: Sequence[Object], usage: Mapping[str, int]) -> bool:
    """Tell the first container's annotation what its pod uses; return whether one of them changed."""
    changed = False
    for pod in pods:
        amount = usage.get(pod.key)
        if amount is None or pod.metadata.get("deletionTimestamp"):
            continue
        first = pod.tree["spec"]["containers"][0]["name"]
        text = str(Quantity.new_milli(amount, "DecimalSI"))
        noted = {f"{USAGE}.{first}": text}
        annotations = pod.metadata.get("annotations") or {}
        if all(annotations.get(key) == value for key, value in noted.items()):
            continue
        changed = True
        patch = {"metadata": {"annotations": noted}}
        await user.attempt(user.patch("Pod", pod.name, patch, pod.namespace))
    return changed
