"""Carrying out events in a running world, and waiting until the cluster is at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, evolve, field

from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import SECOND
from controlplane.client.errors import (
    ApiError,
    is_conflict,
    is_not_found,
    is_unsupported_media_type,
)
from controlplane.client.loops.clientset import PODS
from controlplane.scenarios.check.cycles import cycle_in
from controlplane.scenarios.check.events import lasts
from controlplane.scenarios.check.history import History, Kept, Phase
from controlplane.scenarios.check.loads import each_bears, loads_of, milli
from controlplane.scenarios.check.patience import Patience, is_activity, something_is_due
from controlplane.scenarios.check.subject import zone_of
from controlplane.scenarios.check.timeline import courses_of, owner_of
from controlplane.scenarios.engine.load import FAILURES, LOAD, START_SECONDS, START_USAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.scenarios.check.events import Event
    from controlplane.scenarios.check.recorder import Recorder
    from controlplane.scenarios.check.subject import Subject
    from controlplane.scenarios.engine.user import User

__all__ = ["Stage"]

LOOK_S: Final = 5
CYCLES_S: Final = 60
MANY: Final = 300
"""The number of writes after which a cycle is looked for at once."""
TAINT: Final = {"key": "check.controlplane/taint", "value": "true", "effect": "NoExecute"}
START_S: Final = 120
DRAIN_S: Final = 1800
STUCK_S: Final = 120
"""Seconds without another write after which an eviction that is refused stays refused."""


@define
class Stage:
    """One run: its user, what is recorded, and the phases so far."""

    user: User
    subject: Subject
    recorder: Recorder
    patience: Patience
    manifests: Sequence[tuple[Resource[Any], str, Tree]] = ()
    """The user's objects, each with its resource and its namespace."""
    phases: list[Phase] = field(factory=list)
    held: list[Event] = field(factory=list)
    open: Phase | None = None
    """The phase that is under way."""

    async def settle(
        self, begin: int, event: str, *, ended: bool = False, kinds: Sequence[str] = ()
    ) -> Phase:
        """Wait until the cluster is at rest after what has happened since `begin`; the phase, which is kept.

        It ends a nanosecond before now, as what comes next happens now.
        """
        phase = self._open(begin, event, ended=ended, kinds=kinds)
        rested = await self._rest(begin)
        phase = evolve(phase, end_ns=self.user.ctx.now - 1, rested=rested)
        self.phases.append(phase)
        self.open = None
        return phase

    def _open(
        self, begin: int, event: str, *, ended: bool = False, kinds: Sequence[str] = ()
    ) -> Phase:
        self.open = Phase(begin, begin, event, tuple(kinds), ended, down=self._down())
        return self.open

    def history(self) -> History:
        """The history recorded so far; a phase under way counts as one without rest."""
        phases = list(self.phases)
        if self.open is not None:
            phases.append(evolve(self.open, end_ns=self.user.ctx.now, rested=False))
        failures = self.user.notes.get(FAILURES, ())
        return History(self.recorder.changes, phases, self.recorder.reasons, failures)

    async def _rest(self, begin: int) -> bool:
        """Return whether nothing has happened for long enough; not if a cycle shows, or time is up."""
        patience = self.patience
        seen = len(self.recorder.changes)
        last, looked, counted = begin, begin, seen
        while True:
            await self.user.sleep(LOOK_S)
            now = self.user.ctx.now
            seen, last = self._activity(seen, last)
            quiet = now - last
            if quiet >= patience.due_ns:
                return True
            if quiet >= patience.quiet_ns and not something_is_due(self.user.run):
                return True
            if now - begin >= patience.horizon_ns:
                return False
            if seen - counted > max(MANY, counted // 2) or (
                now - looked >= CYCLES_S * SECOND and seen > counted
            ):
                looked, counted = now, seen
                if self._cycles(begin, now):
                    return False

    def _activity(self, seen: int, last: int) -> tuple[int, int]:
        """Return the number of writes by now, and the time of the last one after `seen` that counts, else `last`."""
        changes = self.recorder.changes
        for change in changes[seen:]:
            if is_activity(change):
                last = change.t_ns
        return len(changes), last

    def _cycles(self, begin: int, end: int) -> bool:
        courses = courses_of(self.recorder.changes)
        return any(cycle_in(course, begin, end) is not None for course in courses.values())

    def _down(self) -> tuple[str, ...]:
        return tuple(each.target for each in self.held if each.kind.removes)

    # ------------------------------------------------------------------ events

    async def happen(self, events: Sequence[Event]) -> None:
        """Carry out events one after the other, each until the cluster is at rest; the end of one that lasts comes
        after the others.
        """
        if not events:
            return
        event, *rest = events
        self.held.append(event)
        begin = self.user.ctx.now
        self._open(begin, event.begins, kinds=self._kinds())
        blocked = await DO[event.kind.name](self, event.target)
        phase = await self.settle(begin, event.begins, kinds=self._kinds())
        if blocked:
            self.phases[-1] = evolve(phase, blocked=blocked)
        held = lasts(event, rest[0] if rest else None)
        if held:
            await self.happen(rest)
        if event.kind.name in UNDO:
            begin = self.user.ctx.now
            self._open(begin, event.ends, ended=True, kinds=self._kinds())
            await UNDO[event.kind.name](self, event.target)
            self.held.remove(event)
            kinds = (*self._kinds(), event.kind.name)
            await self.settle(begin, event.ends, ended=True, kinds=kinds)
        elif not event.kind.removes:
            self.held.remove(event)
        if not held:
            await self.happen(rest)

    def _kinds(self) -> tuple[str, ...]:
        return tuple(each.kind.name for each in self.held)

    async def apply(self, _target: str) -> None:
        """Apply all manifests again, as `kubectl apply` would."""
        for place in self.manifests:
            await self.user.attempt(self._apply(*place))

    async def _apply(self, resource: Resource[Any], namespace: str, tree: Tree) -> None:
        client, name = self.user.client, tree["metadata"].get("name", "")
        try:
            await client.patch(resource, namespace, name, tree)
        except ApiError as error:
            if is_not_found(error):
                await client.create(resource, tree, namespace)
            elif is_unsupported_media_type(error):  # a custom kind has no strategic merge
                await client.patch(resource, namespace, name, tree, kind=MERGE_PATCH)
            else:
                raise

    async def load(self, target: str) -> None:
        """Let the load of a workload rise to what its autoscaler's maximum bears."""
        await self._load(target, most=True)

    async def unload(self, target: str) -> None:
        """Let it fall to what its autoscaler's minimum bears."""
        await self._load(target, most=False)

    async def _load(self, target: str, *, most: bool) -> None:
        workload = self.subject.workload(target)
        loads = None if workload is None else loads_of(self.subject, workload.tree)
        if loads is not None:
            noted = {LOAD: milli(loads.most if most else loads.least)}
            await self._patch(target, {"metadata": {"annotations": noted}})

    async def _patch(self, target: str, patch: Tree) -> None:
        kind, namespace, name = target.split("/")
        await self.user.attempt(self.user.patch(kind, name, patch, namespace))

    async def _update(self, target: str, noted: dict[str, str]) -> None:
        """Update a workload by annotations of its template."""
        template = {"metadata": {"annotations": noted}}
        await self._patch(target, {"spec": {"template": template}})

    async def rollout(self, target: str) -> None:
        """Update a workload's template, as `kubectl rollout restart` does."""
        noted = {"kubectl.kubernetes.io/restartedAt": str(self.user.ctx.now // SECOND)}
        await self._update(target, noted)

    async def start(self, target: str) -> None:
        """Update a workload whose pods need twice their share of the load's CPU while they start."""
        workload = self.subject.workload(target)
        bears = 0 if workload is None else each_bears(self.subject, workload)
        noted = {START_USAGE: milli(round(2 * bears)), START_SECONDS: str(START_S)}
        await self._update(target, noted)

    async def taint(self, node: str) -> None:
        """Give a node a NoExecute taint that nothing knows."""
        await self._taints(node, lambda taints: [*taints, TAINT])

    async def untaint(self, node: str) -> None:
        """Take the taint away."""
        await self._taints(
            node, lambda taints: [each for each in taints if each["key"] != TAINT["key"]]
        )

    async def _taints(self, node: str, change: Callable[[list[Tree]], list[Tree]]) -> None:
        for _ in range(5):
            try:
                tree = (await self.user.get("Node", node)).tree
                spec = tree.get("spec") or {}
                await self.user.update(
                    {**tree, "spec": {**spec, "taints": change(spec.get("taints") or [])}}
                )
            except ApiError as error:
                if not is_conflict(error):
                    return
            else:
                return

    async def lose(self, node: str) -> None:
        """Let a node's machine fail; a Node without a kubelet has none."""
        world = self.user.run.world
        if world.has_actor(node) and world.alive(node):
            self.user.crash(node)

    async def recover(self, node: str) -> None:
        """Start the machine again."""
        world = self.user.run.world
        if world.has_actor(node) and not world.alive(node):
            self.user.restart(node)

    async def lose_zone(self, zone: str) -> None:
        """Let all machines of a zone fail."""
        for node in self._in_zone(zone):
            await self.lose(node)

    async def recover_zone(self, zone: str) -> None:
        """Start them again."""
        for node in self._in_zone(zone):
            await self.recover(node)

    def _in_zone(self, zone: str) -> list[str]:
        nodes = self.user.run.objects("/registry/minions/")
        return [each.name for each in nodes if zone_of(each.tree) == zone]

    async def spot(self, node: str) -> None:
        """Take a spot machine away, with its Node."""
        await self.lose(node)
        await self.user.attempt(self.user.delete("Node", node))

    async def uncordon(self, node: str) -> None:
        """End a drain."""
        await self.user.attempt(self.user.uncordon(node))

    async def drain(self, node: str) -> tuple[Kept, ...]:
        """Cordon a node and evict its pods until it is empty; what keeps it from that for ever."""
        await self.user.attempt(self.user.cordon(node))
        begin = last = self.user.ctx.now
        seen = len(self.recorder.changes)
        while True:
            refused = await self._evict_all(node)
            if not refused:
                return ()
            await self.user.sleep(LOOK_S)
            seen, last = self._activity(seen, last)
            now = self.user.ctx.now
            if now - last >= STUCK_S * SECOND:
                return tuple(self._kept(*each) for each in refused)
            if now - begin >= DRAIN_S * SECOND or self._cycles(begin, now):
                text = f"pods come back to {node} as soon as they are evicted"
                return (Kept(self._owner(refused[0][0]), "", text),)

    def _kept(self, pod: str, budget: str, message: str) -> Kept:
        why = message or "it has been told to end, and does not"
        return Kept(self._owner(pod), budget, f"pod {pod} is not evicted, and never will be: {why}")

    def _owner(self, pod: str) -> str:
        """The workload of a pod; the pod itself without one."""
        for course in courses_of(self.recorder.changes).values():
            if any(each.key == pod for each in course.makings):
                return course.key
        return f"Pod/{pod}"

    async def _evict_all(self, node: str) -> list[tuple[str, str, str]]:
        """Ask for the eviction of each pod of a node; those that were refused or have not gone."""
        there = (await self.user.client.list(PODS, fieldSelector=f"spec.nodeName={node}")).items
        left = []
        for pod in there:
            if _stays(pod.tree):
                continue
            message = ""
            try:
                await self.user.evict(pod.name, pod.namespace)
            except ApiError as error:
                if is_not_found(error):
                    continue
                message = _told(error)
            left.append((f"{pod.namespace}/{pod.name}", budget_in(message, pod.namespace), message))
        return left


def _stays(pod: Tree) -> bool:
    """Return whether a drain leaves a pod alone: one of a DaemonSet, of a file on the node, or one that has ended."""
    owner = owner_of(pod)
    if owner is not None and owner["kind"] in ("DaemonSet", "Node"):
        return True
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _told(error: ApiError) -> str:
    """The refusal with its causes."""
    causes = (error.status.get("details") or {}).get("causes") or ()
    texts = [str(each.get("message") or "") for each in causes]
    return " ".join([str(error), *(text for text in texts if text and text not in str(error))])


def budget_in(message: str, namespace: str) -> str:
    """The budget that a refusal names: namespace/name, "" if it names none."""
    _, found, rest = message.partition("disruption budget ")
    name = rest.partition(" ")[0].strip(".")
    return f"{namespace}/{name}" if found and name else ""


DO: Final[dict[str, Callable[[Stage, str], Awaitable[Any]]]] = {
    "apply": Stage.apply,
    "load": Stage.load,
    "rollout": Stage.rollout,
    "start": Stage.start,
    "drain": Stage.drain,
    "taint": Stage.taint,
    "lose": Stage.lose,
    "lose-zone": Stage.lose_zone,
    "spot": Stage.spot,
}
UNDO: Final[dict[str, Callable[[Stage, str], Awaitable[Any]]]] = {
    "load": Stage.unload,
    "drain": Stage.uncordon,
    "taint": Stage.untaint,
    "lose": Stage.recover,
    "lose-zone": Stage.recover_zone,
}
