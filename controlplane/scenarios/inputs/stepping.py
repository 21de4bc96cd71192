"""The run of a Scenario: the operations of one step, then their effects on the cluster, then the next step.

The scheduler is simulated: it is held before each attempt until all other components have nothing left to do, so
that how fast they are decides nothing. A major step ends when the scheduler, too, has nothing left to do; a write of
the scheduler begins a minor step.

Upstream: kubernetes-sigs/kube-scheduler-simulator, keps/140-scenario-based-simulation. Its controllers stop at the end
of their loops, where an admission webhook has seen a write; here the scheduler stops before each attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from controlplane import __version__
from controlplane.api.times import SECOND
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.scenarios.inputs import step_scenario as steps
from controlplane.scenarios.inputs.reading import CREATE, Submission
from controlplane.scenarios.inputs.submission import namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context, World
    from actors.holding import Hold
    from controlplane.api.object import Object
    from controlplane.apiserver.storage.store import Event, Store
    from controlplane.client.loops.clientset import Resource
    from controlplane.scenarios.inputs.step_scenario import Operation, StepScenario
    from controlplane.scenarios.inputs.submission import Resources

    class Cluster(Protocol):
        """A cluster, as far as the steps look at it."""

        world: World
        store: Store

        @property
        def schedulers(self) -> Sequence[str]:
            """The actors of the schedulers."""


__all__ = ["Stepping"]

PAUSED, SUCCEEDED, FAILED = "Paused", "Succeeded", "Failed"
BEFORE_ATTEMPT: Final = "scheduler.cycle.start|scheduler.group.collect"
"""The points at which the scheduler is held."""
POLL_NS: Final = SECOND // 10
PATIENCE_NS: Final = 3600 * SECOND
"""The longest wait, in virtual time, for the other components."""
PODS: Final = "/registry/pods/"
MERGE: Final = "application/merge-patch+json"
Tree = dict[str, Any]


class _Failed(Exception):
    """The scenario cannot go on, for this reason."""


class Stepping:
    """One Scenario that runs. `status` is that of the object, as it grows."""

    def __init__(
        self, ctx: Context, cluster: Cluster, scenario: StepScenario, resources: Resources
    ) -> None:
        self._ctx = ctx
        self._cluster = cluster
        self._scenario = scenario
        self._resources = resources
        self._client = Client(ctx)
        self._holds: list[Hold] = []
        self._let_go = ctx.condition()
        self._over = False
        self._revision = cluster.store.revision
        self._removed: dict[tuple[str, str], None] = {}
        self._major, self._minor = 0, 0
        self._timeline: dict[str, list[Tree]] = {}
        self.status: Tree = {}

    async def run(self) -> None:
        """Run all steps; a refusal ends them."""
        for name in self._cluster.schedulers:
            self._ctx.spawn(self._gate, name, name=f"gate of {name}")
        phase, message = PAUSED, ""
        try:
            await self._settle()
            for major in self._scenario.majors:
                if await self._step(major):
                    phase = SUCCEEDED
                    break
        except _Failed as failed:
            phase, message = FAILED, str(failed)
        self._tell(phase, message)
        self._over = True
        self._release()

    # ------------------------------------------------------------------ one major step

    async def _step(self, major: int) -> bool:
        """Run one major step; return whether it ends the scenario."""
        self._major, self._minor = major, 0
        self._timeline[str(major)] = []
        done = False
        for operation in self._scenario.operations:
            if operation.major == major:
                await self._operate(operation)
                done = done or operation.verb == steps.DONE
        await self._settle()
        self._tell("Running")
        return done

    async def _settle(self) -> None:
        """Let the others come to rest, then the scheduler make one attempt, until it has none to make."""
        await self._rest()
        self._note()
        while self._holds:
            self._release()
            await self._rest()
            self._note(attempted=True)

    async def _rest(self) -> None:
        """Wait until nothing but periodic work goes on, the scheduler held or idle. Raises _Failed."""
        world, end, quiet = self._cluster.world, self._ctx.now + PATIENCE_NS, 0
        while quiet < 2:
            if self._ctx.now > end:
                wait = PATIENCE_NS // SECOND
                raise _Failed(f"step {self._major}: the cluster does not rest within {wait} s")
            await self._ctx.sleep(POLL_NS, point="scenario.rest")
            quiet = 0 if world.busy_timers else quiet + 1

    async def _gate(self, ctx: Context, scheduler: str) -> None:
        """Hold a scheduler before each attempt until it is let go."""
        times = 1
        while not self._over:
            hold = await ctx.stand_by(scheduler, BEFORE_ATTEMPT, times, idle=True)
            times = 2  # a scheduler that is let go stands at the point once more
            self._holds.append(hold)
            while hold in self._holds and not self._over:
                await self._let_go.wait(idle=True, point="scenario.gate")
            ctx.let_go(hold)

    def _release(self) -> None:
        self._holds.clear()
        self._let_go.notify_all()

    # ------------------------------------------------------------------ operations

    async def _operate(self, operation: Operation) -> None:
        """Carry out one operation. Raises _Failed for a refusal."""
        told: Tree = {"operation": operation.given}
        try:
            if operation.verb != steps.DONE:
                result = await self._request(operation)
                if result is not None:
                    told["result"] = result.tree
        except ApiError as error:
            raise _Failed(f"step {self._major}: {operation.id}: {error}") from None
        self._add(operation.id, operation.verb, told)

    async def _request(self, operation: Operation) -> Object | None:
        resource, namespace = self._place(operation)
        name = operation.tree["metadata"].get("name", "")
        if operation.verb == steps.CREATE:
            return await self._client.create(resource, operation.tree, namespace)
        if operation.verb == steps.PATCH:
            return await self._client.patch(
                resource, namespace, name, operation.patch, kind=operation.patch_type
            )
        options = operation.given.get("deleteOptions") or {}
        self._removed[namespace, name] = None
        await self._client.delete(
            resource,
            namespace,
            name,
            uid=(options.get("preconditions") or {}).get("uid", ""),
            grace_period_seconds=options.get("gracePeriodSeconds"),
            propagation_policy=options.get("propagationPolicy", ""),
        )
        return None

    def _place(self, operation: Operation) -> tuple[Resource, str]:
        asked = Submission(0, CREATE, operation.tree, self._scenario.manifest.error)
        resource, namespaced = self._resources.of(asked)
        return resource, namespace_of(operation.tree, namespaced=namespaced)

    # ------------------------------------------------------------------ the timeline

    def _note(self, *, attempted: bool = False) -> None:
        """Take pods that got a node or went into the timeline; after an attempt they begin a minor step."""
        space = self._cluster.store.keyspace(PODS)
        news = space.news_after(self._revision) if space.latest > self._revision else []
        self._revision = self._cluster.store.revision
        if attempted and any(_is_decision(each) for each in news):
            self._minor += 1
        for event in news:
            if event.new is None:
                self._removal(event)
            elif _is_bound(event):
                node = event.new.tree["spec"]["nodeName"]
                meta = {"namespace": event.new.namespace, "name": event.new.name}
                head = {"typeMeta": _POD, "objectMeta": meta, "patchType": MERGE}
                patch = f'{{"spec":{{"nodeName":"{node}"}}}}'
                told = {"operation": {**head, "patch": patch}, "result": event.new.tree}
                self._add(f"scheduled-{event.revision}", steps.PATCH, told)

    def _removal(self, event: Event) -> None:
        assert event.old is not None
        meta = {"namespace": event.old.namespace, "name": event.old.name}
        if (event.old.namespace, event.old.name) in self._removed:
            del self._removed[event.old.namespace, event.old.name]
            return
        told = {"operation": {"typeMeta": _POD, "objectMeta": meta}}
        self._add(f"deleted-{event.revision}", steps.DELETE, told)

    def _add(self, name: str, verb: str, told: Tree) -> None:
        step = {"major": self._major, "minor": self._minor}
        self._timeline.setdefault(str(self._major), []).append(
            {"id": name, "step": step, verb: told}
        )

    def _tell(self, phase: str, message: str = "") -> None:
        """Bring the status up to date."""
        self.status.update(
            phase=phase,
            stepStatus={
                "step": {"major": self._major, "minor": self._minor},
                "phase": "Operating" if phase == FAILED else "Finished",
                "runningSimulationController": "",
            },
            scenarioResult={"simulatorVersion": __version__, "timeline": self._timeline},
        )
        if message:
            self.status["message"] = message


_POD: Final = {"apiVersion": "v1", "kind": "Pod"}


def _is_bound(event: Event) -> bool:
    """Return whether a pod got its node."""
    assert event.new is not None
    before = event.old is not None and event.old.tree["spec"].get("nodeName")
    return bool(event.new.tree["spec"].get("nodeName") and not before and event.old is not None)


def _is_decision(event: Event) -> bool:
    """Return whether a change of a pod is the scheduler's: it has a node, a refusal, or is a victim."""
    if event.new is None or event.old is None:
        return False
    return _is_bound(event) or _verdict(event.new.tree) != _verdict(event.old.tree)


def _verdict(tree: Tree) -> list[Any]:
    """The parts of a pod's status that the scheduler writes."""
    status = tree.get("status") or {}
    told = ("PodScheduled", "DisruptionTarget")
    conditions = [each for each in status.get("conditions") or () if each.get("type") in told]
    return [status.get("nominatedNodeName"), conditions]
