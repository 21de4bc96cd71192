"""One session with an operator: the cluster, its processes, the workload step by step, and what was observed."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve, frozen

from actors import EventLog, Fifo
from controlplane.apiserver.http.kubeconfig import Address
from controlplane.errors import UsageError
from controlplane.operators.container import Credentials, services_of
from controlplane.operators.description import APPLY, DELETE, PATCH, SLEEP, WAIT, Operator, Step
from controlplane.operators.invariants import checks_of, violations_of
from controlplane.operators.loops import alone, runtime, scenario
from controlplane.operators.loops.pacing import LeapingPacer
from controlplane.operators.loops.processes import Processes
from controlplane.operators.loops.requests import APPLY_PATCH, MERGE, Administrator, path_of
from controlplane.operators.observation import (
    LOCK,
    PEERINGS,
    Record,
    StepResult,
    changes_of,
    family_of,
    objects_of,
)
from controlplane.operators.quiescence import QUIET_S, Quiescence
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.inputs import manifests
from controlplane.scenarios.plans.control import Control
from controlplane.scenarios.plans.language import parse
from controlplane.scenarios.search.loading import from_module
from controlplane.serving.session import Rim, serve_async

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.operators.container import Life
    from controlplane.operators.drifts import Change, Drift
    from controlplane.scenarios.plans.outside import Seen

__all__ = ["Conditions", "perform", "performed"]

SETTLE_S: Final = 3.0
"""The window of rest at the end of a run whose operator is not known yet (seconds of wall time)."""
START_S: Final = 30.0
"""The longest time until the first process runs and rests."""
LONGEST_S: Final = 30.0
"""The longest time that a run may take to settle at its end."""
POLL_S: Final = 0.004
HELD: Final = "held by the plan"
"""The result of a wait that a plan keeps from coming true."""
TOKEN_S: Final = 10 * 365 * 24 * 3600


@frozen
class Conditions:
    """The conditions of one run.

    Args:
        plan: the lines of the perturbation plan.
        settle_s: how long nothing may happen at its end (seconds of wall time).
        quiet_s: how long processes sleep before virtual time goes on.
        patience: factor of the time limits of waits.
        folder: where the recording and the log are left; None to keep nothing.
        keep_leases: leases of a killed process stay until they expire.
        most_messages: a run with more messages has not come to rest; 0: no limit.
    """

    plan: tuple[str, ...] = ()
    settle_s: float = SETTLE_S
    quiet_s: float = QUIET_S
    patience: float = 1.0
    folder: str | None = None
    keep_leases: bool = False
    most_messages: int = 0
    drift: Drift | None = None
    """The changes that are made once the workload is done."""


def performed(operator: Operator, conditions: Conditions) -> Record:
    """Perform one run in a loop of its own; for worker processes, too. Raises UsageError."""
    return alone.run(perform, operator, conditions)


async def perform(operator: Operator, conditions: Conditions) -> Record:
    """Perform one run with an operator, and return what it left. Raises UsageError."""
    with TemporaryDirectory(prefix="operator-") as folder:
        session = _Session(operator, conditions, Path(folder))
        return await session.perform()


class _Session:
    def __init__(self, operator: Operator, conditions: Conditions, folder: Path) -> None:
        self._operator = operator
        self._conditions = conditions
        plan = plan_of(
            from_module(scenario.__name__),
            files=operator.manifests,
            nodes=operator.nodes,
            plan=conditions.plan,
            epoch="2026-01-01T00:00:00Z",
            **{"webhook_service": _services(operator), **dict(operator.options)},
        )
        self._checks = checks_of(operator.invariants)
        keep = conditions.folder is not None
        self.run = Execution(plan, Fifo(), log=EventLog(keep=keep))
        cluster = self.run.cluster
        self._cluster = cluster
        self._control = self.run.control or Control(cluster, parse(()))
        self.quiescence = Quiescence(conditions.quiet_s)
        self._admin = Administrator(cluster, cluster.world.inlet())
        self._processes = Processes(
            operator.processes,
            folder,
            self.quiescence,
            self._admin.find,
            self._credentials,
            self._exited,
            self._wrote,
        )
        self._pace = LeapingPacer(self._look, self._quiet, self._only_planned)
        self._stop = trio.Event()
        self._address: Address | None = None
        self._start_revision = 0
        self._seen: list[Seen] = []
        self._skipped = False
        """A wait that a plan keeps from coming true was passed over."""
        self._holders: dict[str, set[str]] = {}
        """By client, the identities under which it held locks."""
        outside = self._control.outside
        outside.on_kill = self._kill
        outside.on_request = self._requested
        outside.on_event = lambda _client: self.quiescence.event(trio.current_time())
        outside.on_seen = self._note

    async def perform(self) -> Record:
        begin = time.perf_counter()
        keep = self._conditions.folder is not None
        rim = Rim(
            token=secrets.token_urlsafe(24), http2=False
        )  # plans cut one request's connection
        self._start_revision = self._cluster.store.revision
        steps: list[StepResult] = []
        settled = False
        async with trio.open_nursery() as nursery:
            ready = trio.Event()

            def reached(address: Address) -> None:
                self._address = address
                ready.set()

            async def serve() -> None:
                await serve_async(self.run, rim, self._pace, reached, self._stop, keep)
                ready.set()

            await nursery.start(self._processes.serve)
            nursery.start_soon(serve)
            await ready.wait()
            try:
                await self._until_started()
                for step in self._operator.workload:
                    steps.append(StepResult(str(step), await self._step(step)))
                settled = await self._until_settled(
                    self._conditions.settle_s, LONGEST_S, over_plan=True
                )
                problem = ""
                if self._conditions.drift is not None:
                    problem = await self._drift(self._conditions.drift)
                self._look_again(steps)
                record = self._record(tuple(steps), settled, time.perf_counter() - begin)
                record = evolve(record, drift_problem=problem)
            finally:
                self._stop.set()
                nursery.cancel_scope.deadline = trio.current_time() + 2
                nursery.start_soon(self._end, nursery.cancel_scope)
        record = evolve(record, verdict=self.run.result.verdict if self.run.ended else "")
        if self._conditions.folder is not None and self.run.ended:
            self.run.save(Path(self._conditions.folder))
        return record

    def _is_over(self) -> bool:
        """Return whether the run goes on no longer, or is not worth it."""
        most = self._conditions.most_messages
        return self.run.ended or bool(most and len(self._seen) > most)

    async def _end(self, scope: trio.CancelScope) -> None:
        """End the processes once the world has ended."""
        while not self.run.ended:
            await trio.sleep(0.002)
        scope.cancel()

    # ------------------------------------------------------------------ what the server tells

    def _look(self) -> None:
        self._processes.look(each.tree for each in self._cluster.objects("/registry/pods/"))

    def _quiet(self) -> bool:
        return self.quiescence.quiet(trio.current_time())

    def _only_planned(self) -> bool:
        return 0 < self._control.timers >= self._cluster.world.busy_timers

    def _requested(self, client: str, change: int) -> None:
        if client in self._control.outside.clients.pods:
            self.quiescence.request(change, trio.current_time())

    def _note(self, seen: Seen) -> None:
        what = seen.what
        pod = self._control.outside.clients.pods.get(what.actor)
        if pod is None:
            return
        self._processes.asked(pod)
        self._seen.append(seen)
        if not seen.effective:
            return
        holder = _holder(what.tree)
        if holder:
            self._holders.setdefault(what.actor, set()).add(holder)
        elif what.resource.partition("/")[0] not in ("leases", "events", *PEERINGS):
            self.quiescence.effect(trio.current_time())

    def _kill(self, client: str) -> None:
        pod = self._control.outside.clients.pods.get(client)
        if pod is None:
            return
        self._processes.kill(pod)
        self._release_locks(pod)

    def _release_locks(self, pod: str) -> None:
        """Take the locks of a pod's killed process away."""
        if self._conditions.keep_leases:
            return
        for client, known in self._control.outside.clients.pods.items():
            if known == pod:
                self._drop_locks(self._holders.get(client, set()))
        self._drop_peers()

    def _drop_locks(self, holders: set[str]) -> None:
        """Take the locks of a killed process away: waiting for their end would show nothing."""
        for name in ("leases.coordination.k8s.io", "configmaps", "endpoints"):
            info = self._admin.info(name)
            if info is None:
                continue
            for obj in self._cluster.objects(info.storage_prefix):
                if _holder(obj.tree) in holders:
                    meta = obj.tree["metadata"]
                    self._admin.send("DELETE", path_of(info, meta["namespace"], meta["name"]))

    def _drop_peers(self) -> None:
        """Take the entries of kopf's processes away; those that live renew theirs."""
        for name in PEERINGS:
            info = self._admin.info(name)
            for obj in [] if info is None else self._cluster.objects(info.storage_prefix):
                entries = obj.tree.get("status")
                if info is not None and isinstance(entries, dict) and entries:
                    meta = obj.tree["metadata"]
                    path = path_of(info, meta.get("namespace", ""), meta["name"])
                    gone = {"status": dict.fromkeys(entries)}
                    self._admin.send("PATCH", path, gone, MERGE)

    def _exited(self, life: Life, code: int) -> None:
        meta, spec = life.pod["metadata"], life.pod["spec"]
        self._release_locks(
            meta["name"]
        )  # what it had sent may have renewed them since it was killed
        told = runtime.exited(spec.get("nodeName", ""), meta["uid"], life.container, code)
        self._cluster.world.inlet().put(runtime.RUNTIME, told)

    def _wrote(self, life: Life, text: bytes) -> None:
        told = runtime.wrote(life.pod["metadata"]["uid"], life.container_id, text)
        self._cluster.world.inlet().put(runtime.RUNTIME, told)

    async def _credentials(self, life: Life) -> Credentials:
        assert self._address is not None
        meta, spec = life.pod["metadata"], life.pod["spec"]
        info = self._admin.info("serviceaccounts")
        assert info is not None
        account = spec.get("serviceAccountName") or "default"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "expirationSeconds": TOKEN_S,
                "boundObjectRef": {
                    "kind": "Pod", "apiVersion": "v1", "name": meta["name"], "uid": meta["uid"],
                },
            },
        }  # fmt: skip
        path = f"{path_of(info, meta['namespace'], account)}/token"
        answer = await self._admin.ask("POST", path, body)
        host, _, port = self._address.url.rpartition("://")[2].rpartition(":")
        return Credentials(host, int(port), answer["status"]["token"], self._address.authority)

    # ------------------------------------------------------------------ the workload

    async def _until_started(self) -> None:
        """Wait until every process has started and rests. Raises UsageError if there is none."""
        until = trio.current_time() + START_S
        while trio.current_time() < until:
            if self._processes.started and await self._until_settled(
                2 * self._conditions.quiet_s, until - trio.current_time()
            ):
                return
            if self._pace.resting and not self._processes.started and self._is_complete():
                break
            await trio.sleep(POLL_S)
        if not self._processes.started:
            images = ", ".join(each.image for each in self._operator.processes)
            raise UsageError(
                f"{self._operator.name}: no container runs whose image is {images}: the pods have"
                f" {', '.join(self._images()) or 'no containers'}"
            )

    def _is_complete(self) -> bool:
        """Return whether the manifests are in and pods run."""
        pods = [each.tree for each in self._cluster.objects("/registry/pods/")]
        return bool(pods) and all(
            (each.get("status") or {}).get("phase") == "Running" for each in pods
        )

    def _images(self) -> list[str]:
        found: dict[str, None] = {}
        for pod in self._cluster.objects("/registry/pods/"):
            for each in pod.tree["spec"].get("containers") or ():
                found[str(each.get("image"))] = None
        return list(found)

    async def _until_settled(
        self, settle_s: float, limit_s: float, *, over_plan: bool = False
    ) -> bool:
        """Wait until nothing happens any more; `over_plan`: the ends of a plan's holds come before."""
        until = trio.current_time() + limit_s
        self._pace.leap_over_plan = over_plan
        try:
            while trio.current_time() < until:
                now = trio.current_time()
                if self._pace.resting and self.quiescence.settled(now, settle_s):
                    return True
                if self._is_over():
                    return False
                await trio.sleep(POLL_S)
            return False
        finally:
            self._pace.leap_over_plan = False

    async def _step(self, step: Step) -> str:
        """Do one step of the workload; return what kept it from succeeding."""
        self.quiescence.goes_on(trio.current_time())
        try:
            if step.action == APPLY:
                for tree in step.trees:
                    await self._apply(tree)
            elif step.action == SLEEP:
                self._pace.until_ns = self._cluster.world.now + round(step.seconds * 1e9)
                while self._cluster.world.now < self._pace.until_ns and not self._pace.resting:
                    await trio.sleep(POLL_S)
            elif step.action in (PATCH, DELETE):
                await self._change(step)
            else:
                return await self._wait(step, last=self._is_needed(step))
        except UsageError as error:
            return str(error)
        return ""

    async def _drift(self, drift: Drift) -> str:
        """Make a drift, let the operator react, and give back what was taken away; return what went wrong."""
        for changes in (drift.changes, drift.back):
            if not changes:
                continue
            self.quiescence.goes_on(trio.current_time())
            try:
                for change in changes:
                    await self._make(change)
            except UsageError as error:
                return str(error)
            settle = self._conditions.settle_s
            if not await self._until_settled(settle, LONGEST_S, over_plan=True):
                return ""
        return ""

    async def _make(self, change: Change) -> None:
        info = self._admin.info(change.resource)
        if info is None:
            raise UsageError(f"{change.resource}: the API server does not know this resource")
        path = path_of(info, change.namespace, change.name)
        if change.action == "create":
            await self._admin.ask("POST", path_of(info, change.namespace), change.tree)
        elif change.action == "delete":
            await self._admin.ask("DELETE", path, gracePeriodSeconds="0")
        else:
            await self._admin.ask("PATCH", path, change.tree, MERGE)

    def _look_again(self, steps: list[StepResult]) -> None:
        """Require that the condition of the last wait is true at the end, too."""
        step = self._operator.workload[-1]
        if step.action == WAIT and not steps[-1].problem and not self._holds(step):
            steps[-1] = StepResult(str(step), "came true, and is not true any more at the end")

    def _is_needed(self, step: Step) -> bool:
        """Return whether a wait cannot be passed over: it is the last step, or the next one makes its object anew."""
        steps = self._operator.workload
        at = next(number for number, each in enumerate(steps) if each is step)
        if at == len(steps) - 1:
            return True
        assert step.target is not None
        names = [(each.get("metadata") or {}).get("name") for each in steps[at + 1].trees]
        return step.absent and step.target.name in names

    async def _apply(self, tree: Tree) -> None:
        meta = tree.get("metadata") or {}
        info = self._admin.info_of_kind(str(tree.get("apiVersion")), str(tree.get("kind")))
        if info is None:
            raise UsageError(f"{tree.get('kind')}: the API server does not know this kind")
        path = path_of(info, meta.get("namespace") or "default", str(meta.get("name")))
        await self._admin.ask(
            "PATCH", path, tree, APPLY_PATCH, fieldManager="workload", force="true"
        )

    async def _change(self, step: Step) -> None:
        target = step.target
        assert target is not None
        info = self._admin.info(target.resource)
        if info is None:
            raise UsageError(f"{target.resource}: the API server does not know this resource")
        path = path_of(info, target.namespace, target.name)
        if step.action == DELETE:
            await self._admin.ask("DELETE", path)
        else:
            await self._admin.ask("PATCH", path, step.tree, MERGE)

    async def _wait(self, step: Step, *, last: bool) -> str:
        """Wait for a condition; give up once everything has long settled, or at the step's limit."""
        begin = trio.current_time()
        limit = step.seconds * self._conditions.patience
        patience = max(self._conditions.settle_s, 0.5) * 2 * self._conditions.patience
        while trio.current_time() < begin + limit:
            if self._holds(step):
                await self._until_settled(1.2 * self._conditions.quiet_s, limit)
                return ""
            now = trio.current_time()
            if self._pace.resting and self._control.holding and not (last or self._skipped):
                # What a plan holds back is what is missing: the workload goes on meanwhile, once.
                if self.quiescence.settled(now, 4 * self._conditions.quiet_s):
                    self._skipped = True
                    return HELD
            elif self._pace.resting and self.quiescence.settled(now, patience):
                break
            self._pace.leap_over_plan = last or self._skipped or not self._control.holding
            if self._is_over():
                break
            await trio.sleep(POLL_S)
        self._pace.leap_over_plan = False
        return "" if self._holds(step) else "did not come true"

    def _holds(self, step: Step) -> bool:
        assert step.target is not None
        info = self._admin.info(step.target.resource)
        if info is None:
            return step.absent
        found = self._admin.stored(info, step.target.namespace, step.target.name)
        if found is None:
            return step.absent
        return not step.absent and all(each.met_by(found) for each in step.conditions)

    # ------------------------------------------------------------------ what was observed

    def _record(self, steps: tuple[StepResult, ...], settled: bool, wall_s: float) -> Record:
        store = self._cluster.store
        changes = changes_of(store, self._start_revision)
        trees = [each.tree or each.before for each in changes]
        names = set(self._control.outside.clients.pods.values())
        pods = [
            tree["metadata"]["uid"]
            for each, tree in zip(changes, trees)
            if each.resource == "pods" and tree["metadata"]["name"] in names
        ]
        outcomes = self._control.outcomes()
        return Record(
            plan=self._conditions.plan,
            outcomes=tuple((each.line, each.reached, each.note) for each in outcomes),
            steps=steps,
            objects={(resource, key): tree for resource, key, tree in objects_of(store)},
            changes=tuple(changes),
            seen=tuple(self._seen),
            family=family_of(trees, pods),
            exits=tuple((each.pod, each.code) for each in self._processes.exits if not each.wanted),
            outputs=tuple(
                (name, text.decode("utf-8", "replace")) for name, text in self._processes.outputs
            ),
            started=self._processes.started,
            settled=settled,
            virtual_s=self._cluster.world.now / 1e9,
            wall_s=wall_s,
            longest_gap_s=self.quiescence.longest_gap_s,
            longest_pause_s=self.quiescence.longest_pause_s,
            clients=tuple(self._control.outside.clients.pods),
            notes=tuple(self._processes.notes),
            violations=violations_of(changes, self._checks),
            locks=tuple(
                f"{obj.tree['metadata']['namespace']}/{obj.tree['metadata']['name']}"
                for obj in self._cluster.objects("/registry/leases/")
                if _holder(obj.tree) in {each for held in self._holders.values() for each in held}
            ),
        )


def _services(operator: Operator) -> tuple[str, ...]:
    """Return where the services of the operator's webhooks are, as options of the cluster."""
    trees = [each.tree for each in manifests.load(operator.manifests)]
    found = services_of(trees, operator.processes)
    return tuple(f"{name}=127.0.0.1:{port}" for name, port in found.items())


def _holder(tree: Any) -> str:
    """Return the identity that holds a lock; "" of what is no lock."""
    if not isinstance(tree, dict):
        return ""
    if tree.get("kind") == "Lease":
        return str((tree.get("spec") or {}).get("holderIdentity") or "")
    metadata = tree.get("metadata")
    text = ((metadata or {}).get("annotations") or {}).get(LOCK) if metadata else None
    if not text:
        return ""
    import json

    try:
        return str(json.loads(text).get("holderIdentity") or "")
    except (ValueError, AttributeError):
        return ""
