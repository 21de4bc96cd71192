"""Judging a history: rules over the writes of a run. Each returns findings; none looks at the running world.

A rule reports what Kubernetes or the configuration promises and what does not hold: a temporary dip that nothing
promises against is no finding.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.api.tree import is_ready
from controlplane.errors import plural
from controlplane.scenarios.check.cycles import cycle_in
from controlplane.scenarios.check.subject import zone_of
from controlplane.scenarios.check.timeline import courses_of, owner_of, pending
from controlplane.scenarios.check.words import actor_of, span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.scenarios.check.history import History, Phase
    from controlplane.scenarios.check.subject import Budget, Scaler, Subject
    from controlplane.scenarios.check.timeline import Course, Moment

__all__ = ["TITLES", "Finding", "judge"]

TITLES: Final = {
    "never-at-rest": "never at rest",
    "unstable-replicas": "the number of replicas swings",
    "cascade": "nodes fail under load",
    "no-node": "a pod that no node can take",
    "no-room": "not enough room",
    "missing": "replicas are missing",
    "below-minimum": "below minReplicas",
    "below-budget": "below a disruption budget",
    "blocked-drain": "a drain that never ends",
    "outage": "no replica is ready",
    "one-zone": "all replicas in one zone",
}
"""The verdicts, the gravest first, in plain words."""
LATELY_NS: Final = 300 * SECOND
_CAPACITY: Final = re.compile(r"(Insufficient \S++|Too many pods)")
_AWAY: Final = ("were unschedulable", "had untolerated taint", "untolerated taint(s)")
"""Reasons of nodes that are away, which say nothing of those that are there."""


@frozen
class Finding:
    """One thing that goes wrong: the verdict, the objects, when, after what, and how in one or more sentences.

    `about` names what does not change between runs with the same problem; two findings with the same verdict and the
    same `about` are one.
    """

    verdict: str
    objects: tuple[str, ...]
    t_ns: int
    after: str
    says: str
    about: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    """More lines: who does what, how often."""

    @property
    def identity(self) -> tuple[str, ...]:
        """The identity of the finding, equal in every run that shows it."""
        return (self.verdict, *(self.about or self.objects))


@frozen
class Scene:
    """The input of a rule: the configuration, the history with the course of each workload, and one phase of it."""

    subject: Subject
    history: History
    courses: Mapping[str, Course]
    phase: Phase

    @property
    def failed(self) -> bool:
        """Return whether machines have failed under load by then, which explains the rest."""
        return any(t_ns <= self.phase.end_ns for t_ns, _ in self.history.failures)


def judge(subject: Subject, history: History) -> list[Finding]:
    """All findings of a run, the gravest first."""
    courses = courses_of(history.changes)
    found: dict[tuple[str, ...], Finding] = {}
    for phase in history.phases:
        for rule in RULES:
            for each in rule(Scene(subject, history, courses, phase)):
                found.setdefault(each.identity, each)
    order = list(TITLES)
    return sorted(found.values(), key=lambda each: order.index(each.verdict))


# ---------------------------------------------------------------------- rest


def _never_at_rest(scene: Scene) -> Iterator[Finding]:
    """Pods are made and end, or replicas change, in a cycle that does not end."""
    if scene.phase.rested:
        return
    cycles = [
        cycle
        for course in scene.courses.values()
        if (
            cycle := cycle_in(
                course, scene.phase.begin_ns, scene.phase.end_ns, scene.history.reasons
            )
        )
        is not None
    ]
    for cycle in cycles:
        yield Finding(
            "never-at-rest",
            (cycle.workload,),
            cycle.begin_ns,
            scene.phase.event,
            cycle.says,
            lines=cycle.lines,
        )
    if cycles:
        return
    since = scene.phase.end_ns - LATELY_NS
    busy = {key: each.within(since, scene.phase.end_ns) for key, each in scene.courses.items()}
    busy = {key: moments for key, moments in busy.items() if moments}
    minutes = (scene.phase.end_ns - scene.phase.begin_ns) // SECOND // 60
    yield Finding(
        "never-at-rest",
        tuple(busy),
        scene.phase.begin_ns,
        scene.phase.event,
        f"after {minutes} minutes there is no rest",
        lines=tuple(_lately(scene, key, since) for key in busy),
    )


def _lately(scene: Scene, key: str, since: int) -> str:
    """The recent changes of a workload."""
    course = scene.courses[key]
    made = sum(each.t_ns >= since for each in course.makings)
    ended = sum(each.t_ns >= since for each in course.endings)
    if made or ended:
        return f"{key}: {plural(made, 'pod')} made and {ended} ended in the last {span(LATELY_NS)}"
    moments = course.within(since, scene.phase.end_ns)
    lost = sum(after.ready < before.ready for before, after in pairwise(moments))
    return f"{key}: a pod got unready {plural(lost, 'time')} in the last {span(LATELY_NS)}"


def _swings(scene: Scene) -> Iterator[Finding]:
    """An autoscaler makes pods and takes them away again, and the load has not changed in between."""
    if scene.phase.down:
        return  # with fewer pods ready the load of the others is another one
    for scaler in scene.subject.scalers:
        course = scene.courses.get(scaler.target)
        wanted = [] if course is None else _wanted(course, scene.phase)
        if not wanted:
            continue
        numbers = [each.wanted for each in wanted]
        usual, peak = max(numbers[0], numbers[-1]), max(wanted, key=lambda each: each.wanted)
        if peak.wanted - usual < max(2, usual / 2):
            continue
        yield Finding(
            "unstable-replicas",
            (scaler.target, f"HorizontalPodAutoscaler/{scaler.key}"),
            scene.phase.begin_ns,
            scene.phase.event,
            f"replicas of {scaler.target} go from {' to '.join(map(str, numbers))}, though its load does not change;"
            f" {actor_of(peak.cause.by)} sets {peak.wanted}",
        )


def _wanted(course: Course, phase: Phase) -> list[Moment]:
    """The moments at which another number of replicas is wanted in a phase, that before it first."""
    before = course.at(phase.begin_ns - 1)
    found = [] if before is None else [before]
    for moment in course.within(phase.begin_ns, phase.end_ns):
        if not found or found[-1].wanted != moment.wanted:
            found.append(moment)
    return found


def _cascade(scene: Scene) -> Iterator[Finding]:
    """Machines fail because the load of others, which are away, has come to them."""
    phase = scene.phase
    failed = [each for each in scene.history.failures if phase.begin_ns <= each[0] <= phase.end_ns]
    if not failed:
        return
    lines = tuple(
        f"{each.node} fails {span(t_ns - phase.begin_ns)} later: its pods use {each.used / 1000:g} CPUs, and it bears"
        f" {each.bears / 1000:g}"
        for t_ns, each in failed
    )
    nodes = tuple(each.node for _, each in failed)
    yield Finding(
        "cascade",
        tuple(f"Node/{node}" for node in nodes),
        failed[0][0],
        phase.event,
        f"{plural(len(nodes), 'more node' if phase.down else 'node')} {_verb(nodes)} under the load",
        lines=lines,
        about=("load",),
    )


def _verb(names: Sequence[str]) -> str:
    return "fails" if len(names) == 1 else "fail"


# ---------------------------------------------------------------------- pods without a node


def _without_node(scene: Scene) -> Iterator[Finding]:
    """Pods wait for a node, and the cluster is at rest."""
    if not scene.phase.rested or scene.failed:
        return
    by_owner: dict[str, list[tuple[str, Tree]]] = {}
    owners = _owners(scene.courses)
    for key, pod in pending(scene.history.changes, scene.phase.end_ns).items():
        by_owner.setdefault(owners.get(key) or _named_owner(key, pod), []).append((key, pod))
    for owner, pods in by_owner.items():
        gates = {gate: None for _, pod in pods for gate in _gates(pod)}
        if gates:
            yield from _gated(scene, owner, len(pods), tuple(gates))
            continue
        message = next((text for _, pod in pods if (text := _unschedulable(pod))), "")
        if not message:
            continue
        reasons = _reasons(message)
        short = bool(reasons) and all(_CAPACITY.search(each) for each in reasons)
        if short and "lose-zone" in scene.phase.kinds:
            continue  # room for the pods of a whole zone is a matter of price, not of configuration
        count = f"{plural(len(pods), 'pod')} of {owner}" if owner[:4] != "Pod/" else owner
        waits = "waits" if len(pods) == 1 else "wait"
        yield Finding(
            "no-room" if short else "no-node",
            tuple(dict.fromkeys((owner, *(f"Pod/{key}" for key, _ in pods[:3])))),
            scene.phase.end_ns,
            scene.phase.event,
            f"{count} {waits} for a node, and nothing will change that: {message}",
            (owner, *sorted(_kind_of_reason(each) for each in reasons)),
        )


def _gates(pod: Tree) -> list[str]:
    return [each.get("name", "") for each in (pod.get("spec") or {}).get("schedulingGates") or ()]


def _gated(scene: Scene, owner: str, number: int, gates: tuple[str, ...]) -> Iterator[Finding]:
    """Replicas wait at a scheduling gate; jobs and single pods do so in a queue, which is what queues are for."""
    if owner in scene.courses:
        yield Finding(
            "missing",
            (owner,),
            scene.phase.end_ns,
            scene.phase.event,
            f"{plural(number, 'pod')} of {owner} {'waits' if number == 1 else 'wait'} at the scheduling gate"
            f" {', '.join(gates)}, and nothing opens it",
        )


def _named_owner(key: str, pod: Tree) -> str:
    """The owner that a pod names, such as a Job; the pod itself without one."""
    above = owner_of(pod)
    if above is None:
        return f"Pod/{key}"
    return f"{above['kind']}/{key.partition('/')[0]}/{above['name']}"


def _unschedulable(pod: Tree) -> str:
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            text = str(each.get("message") or each.get("reason") or "")
            return text.partition(". ")[0].rstrip(".")
    return ""


def _reasons(message: str) -> list[str]:
    """The scheduler's reasons for the nodes that are there, without their counts: "Insufficient cpu"."""
    text = message.partition("nodes are available: ")[2] or message
    found: list[str] = []
    for part in text.split(", "):
        count, _, reason = part.partition(" ")
        if (count.isdecimal() and reason) or not found:
            found.append(reason if count.isdecimal() else part)
        else:  # a comma within a reason
            found[-1] += f", {part}"
    found = [part.strip(" .") for part in found if part]
    return [part for part in found if not any(away in part for away in _AWAY)]


def _kind_of_reason(reason: str) -> str:
    before, opened, rest = reason.partition("{")
    return (before + rest.partition("}")[2] if opened else before).strip()


def _owners(courses: Mapping[str, Course]) -> dict[str, str]:
    """The workload at the top of each pod, by the pod's key."""
    return {change.key: key for key, course in courses.items() for change in course.makings}


def _missing(scene: Scene) -> Iterator[Finding]:
    """At rest a workload has fewer pods than it wants, or pods with a node that do not get ready."""
    if not scene.phase.rested or scene.phase.down or scene.failed:
        return
    waiting = pending(scene.history.changes, scene.phase.end_ns)
    for key, course in scene.courses.items():
        now = course.at(scene.phase.end_ns)
        if now is None:
            continue
        unready = [each for each in now.pods if not each.ready and each.key not in waiting]
        lacking = now.wanted - len(now.pods)
        if lacking > 0:
            yield Finding(
                "missing",
                (key,),
                now.t_ns,
                scene.phase.event,
                f"{key} wants {now.wanted} pods and has {len(now.pods)}, and nothing makes the others",
            )
        elif unready:
            yield Finding(
                "missing",
                (key, *(f"Pod/{each.key}" for each in unready[:3])),
                now.t_ns,
                scene.phase.event,
                f"{now.ready} of {now.wanted} pods of {key} are ready, and the others do not get ready",
                (key,),
            )


# ---------------------------------------------------------------------- promises


def _below_minimum(scene: Scene) -> Iterator[Finding]:
    """Something sets a workload below the minReplicas of its autoscaler, and pods go."""
    for scaler in scene.subject.scalers:
        course = scene.courses.get(scaler.target)
        if course is None:
            continue
        fell = _fell_below(course, scaler, scene.phase)
        if fell is None:
            continue
        low, back_ns = fell
        gone = [each for each in course.endings if low.t_ns <= each.t_ns <= back_ns]
        if not gone:
            continue
        lasted = (
            f"for {(back_ns - low.t_ns) / SECOND:g} s"
            if back_ns < scene.phase.end_ns
            else "until the end of the run"
        )
        yield Finding(
            "below-minimum",
            (scaler.target, f"HorizontalPodAutoscaler/{scaler.key}"),
            low.t_ns,
            scene.phase.event,
            f"{actor_of(low.cause.by)} sets replicas of {scaler.target} to {low.wanted}; HorizontalPodAutoscaler"
            f" {scaler.key} has minReplicas {scaler.least}: {plural(len(gone), 'pod')} end, and it stays so {lasted}",
        )


def _fell_below(course: Course, scaler: Scaler, phase: Phase) -> tuple[Moment, int] | None:
    """The moment at which the wanted number fell below the minimum, having reached it, and when it was back."""
    before = course.at(phase.begin_ns - 1)
    reached = before is not None and before.wanted >= scaler.least
    low: Moment | None = None
    for moment in course.within(phase.begin_ns, phase.end_ns):
        if moment.wanted >= scaler.least:
            if low is not None:
                return low, moment.t_ns
            reached = True
        elif reached and low is None:
            low = moment
    return None if low is None else (low, phase.end_ns)


def _blocked_drain(scene: Scene) -> Iterator[Finding]:
    """A drain waits for a budget that will not allow the eviction, or pods come back to the node."""
    if scene.failed:
        return
    for kept in scene.phase.blocked:
        objects = (f"PodDisruptionBudget/{kept.budget}",) if kept.budget else ()
        yield Finding(
            "blocked-drain",
            (*objects, kept.workload),
            scene.phase.end_ns,
            scene.phase.event,
            kept.says,
        )


def _below_budget(scene: Scene) -> Iterator[Finding]:
    """An update ends more pods at a time than a disruption budget allows: updates do not ask budgets."""
    updates = {"rollout", "start", "apply"} & set(scene.phase.kinds)
    if not updates or scene.phase.down or scene.failed:
        return
    for budget in scene.subject.budgets:
        for workload in scene.subject.workloads:
            course = scene.courses.get(workload.key)
            if course is None or not budget.covers(workload):
                continue
            low = _lowest(course, scene.phase, budget)
            if low is None:
                continue
            moment, needed = low
            yield Finding(
                "below-budget",
                (f"PodDisruptionBudget/{budget.key}", workload.key),
                moment.t_ns,
                scene.phase.event,
                f"{actor_of(moment.cause.by)} leaves {moment.ready} of {moment.wanted} pods of {workload.key} ready;"
                f" PodDisruptionBudget {budget.key} asks for {needed}, but updates do not ask it",
            )


def _lowest(course: Course, phase: Phase, budget: Budget) -> tuple[Moment, int] | None:
    """The moment with the fewest ready pods below what a budget asks for, by the end of a pod that was ready."""
    before = course.at(phase.begin_ns - 1)
    found: tuple[Moment, int] | None = None
    for moment in course.within(phase.begin_ns, phase.end_ns):
        needed = budget.needed(moment.wanted)
        fewer = (
            before is not None and before.ready > moment.ready and before.wanted <= moment.wanted
        )
        if fewer and moment.ready < needed and (found is None or moment.ready < found[0].ready):
            found = moment, needed
        before = moment
    return found


def _outage(scene: Scene) -> Iterator[Finding]:
    """A workload with two replicas or more has none that is ready, though one of them could have stayed."""
    if scene.failed:
        return
    for key, course in scene.courses.items():
        workload = scene.subject.workload(key)
        before = course.at(scene.phase.begin_ns - 1)
        if before is None or before.wanted < 2 or before.ready < 2:
            continue
        if workload is not None and workload.recreates:
            continue
        dark = next(
            (
                each
                for each in course.within(scene.phase.begin_ns, scene.phase.end_ns)
                if each.ready == 0 and each.wanted > 0
            ),
            None,
        )
        if dark is None:
            continue
        nodes = sorted({each.node for each in before.pods if each.ready})
        where = f"all of them were on node {nodes[0]}" if len(nodes) == 1 else ""
        yield Finding(
            "outage",
            (key,),
            dark.t_ns,
            scene.phase.event,
            f"none of the {before.wanted} replicas of {key} is ready"
            + (f": {where}" if where else ""),
        )


# ---------------------------------------------------------------------- zones


def _one_zone(scene: Scene) -> Iterator[Finding]:
    """At rest all replicas are in one zone, though they ask to be spread over zones and another one has nodes."""
    if not scene.phase.rested or scene.phase.down or _zone_was_away(scene):
        return
    zones = _zones_at(scene.history, scene.phase.end_ns)
    if len(set(zones.values())) < 2:
        return
    for key, course in scene.courses.items():
        workload = scene.subject.workload(key)
        now = course.at(scene.phase.end_ns)
        if workload is None or now is None or now.wanted < 2 or not workload.asks_for_zones():
            continue
        there = {zones.get(each.node, "") for each in now.pods if each.node}
        if len(now.pods) > 1 and len(there) == 1 and "" not in there:
            yield Finding(
                "one-zone",
                (key,),
                now.t_ns,
                scene.phase.event,
                f"all {len(now.pods)} replicas of {key} are in zone {next(iter(there))}, and nothing moves them,"
                " though they ask to be spread over zones",
            )


def _zone_was_away(scene: Scene) -> bool:
    """Return whether events had taken all nodes of a zone, so that its pods had to go to another one."""
    zones: dict[str, set[str]] = {}
    for change in scene.history.changes:
        if change.resource == "nodes" and change.new is not None:
            zones.setdefault(zone_of(change.new), set()).add(change.key)
    for phase in scene.history.phases:
        if phase.begin_ns <= scene.phase.begin_ns:
            away = {name for each in phase.down for name in zones.get(each, {each})}
            if any(zone and nodes <= away for zone, nodes in zones.items()):
                return True
    return False


def _zones_at(history: History, until_ns: int) -> dict[str, str]:
    """The zone of each node that takes pods at a time."""
    found: dict[str, str] = {}
    for change in history.changes:
        if change.t_ns > until_ns:
            break
        if change.resource != "nodes":
            continue
        node = change.new
        found.pop(change.key, None)
        if node is not None and _takes_pods(node) and zone_of(node):
            found[change.key] = zone_of(node)
    return found


def _takes_pods(node: Tree) -> bool:
    spec = node.get("spec") or {}
    effects = [each.get("effect") for each in spec.get("taints") or ()]
    closed = spec.get("unschedulable") or {"NoSchedule", "NoExecute"} & set(effects)
    return is_ready(node) and not closed


RULES: Sequence[Callable[[Scene], Iterator[Finding]]] = (
    _never_at_rest,
    _cascade,
    _swings,
    _without_node,
    _missing,
    _below_minimum,
    _below_budget,
    _blocked_drain,
    _outage,
    _one_zone,
)
