"""The whole scheduler, driven by hand against a fake API server; every section that changes is compared.

The form is that of the README beside the data of area `gang`, section conversations. The scheduling loop and the timers
do not run; the clock moves only as the cases say.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from controlplane.api.kinds import view_class
from controlplane.apiserver.kinds.resource.selecting import select_device
from controlplane.client import calls
from controlplane.client.errors import ApiError
from controlplane.client.resources import PODS
from controlplane.decisions import at_once
from controlplane.scheduler import eventhandlers
from controlplane.scheduler.cycle import binding, failure
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.cycle.scheduling import eviction_failed
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import preemption_task as tasks
from controlplane.scheduler.framework.api_calls import StatusPatchCall
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.effects import Evictions
from controlplane.scheduler.framework.interface import ApiWrite, Code
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.waiting import WaitingPod
from controlplane.scheduler.framework.writes import EventIntent, StatusPatch
from controlplane.scheduler.loops.pod_groups import POD_GROUPS
from controlplane.scheduler.podgroups import members, outcome
from controlplane.scheduler.podgroups.algorithm import Trial
from controlplane.scheduler.podgroups.model import Group, GroupResult
from controlplane.scheduler.podgroups.model import failed as refused_by_error
from controlplane.scheduler.scheduler import Scheduler, Skipped
from controlplane.scheduler.state.listers import Listers, MemoryLister
from controlplane.scheduler.state.pod_groups import group_of
from tests.golden.fake_server import FakeServer, perform
from tests.golden.scheduler_world import config_of

Json = Any
MS: Final = 1_000_000
START: Final = 1_800_000_000_000 * MS
YEAR: Final = "2027"
"""In which all cases run: earlier times are their own. Later ones are in no case but hidden, too."""
SETUP: Final = {
    "nodes": "nodes",
    "deviceClasses": "deviceclasses",
    "resourceSlices": "resourceslices",
    "resourceClaims": "resourceclaims",
    "podGroups": "podgroups",
    "podDisruptionBudgets": "poddisruptionbudgets",
    "pods": "pods",
}
"""Fields of a cluster in the order in which its objects are created."""
LISTERS: Final = {
    "pods": "pods",
    "nodes": "nodes",
    "podgroups": "pod_groups",
    "poddisruptionbudgets": "pod_disruption_budgets",
    "deviceclasses": "device_classes",
    "resourceclaims": "resource_claims",
    "resourceslices": "resource_slices",
}
EVENTS: Final = {
    "podgroups": ev.POD_GROUP,
    "deviceclasses": ev.DEVICE_CLASS,
    "resourceclaims": ev.RESOURCE_CLAIM,
    "resourceslices": ev.RESOURCE_SLICE,
}
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Conversation:
    """One case: the scheduler, its informers' stores, the server and the clock."""

    def __init__(self, case: Json) -> None:
        self.case = case
        self.now = START
        self.server = FakeServer()
        self.stores: dict[str, MemoryLister[Any]] = {name: MemoryLister() for name in LISTERS}
        known = {
            field: self.stores[name]
            for name, field in LISTERS.items()
            if field in Listers.__annotations__
        }
        self.core = Scheduler(
            Listers(**known),
            config=config_of(case),
            features=case.get("gates") or {},
            select=select_device,
            clock=lambda: self.now,
        )
        self.core.handle.record = self.record
        eventhandlers.follow_claims(self.core)
        self.asynchronous = self.core.handle.feature("SchedulerAsyncPreemption")
        self.waiting: list[tuple[Attempt, WaitingPod]] = []
        self.events: list[str] = []
        self.ops: dict[str, Callable[[Json], Json]] = {
            "scheduleOne": lambda _op: {"cycles": self.schedule(1)},
            "scheduleAll": lambda op: {"cycles": self.schedule(op["max"])},
            "create": self.create,
            "update": self.update,
            "delete": self.delete,
            "kill": self.kill,
            "advance": self.advance,
            "fail": self.fail,
            "score": self.score,
        }

    def run(self) -> Json:
        """Our value for `want`."""
        for field, resource in SETUP.items():
            for tree in self.case["cluster"].get(field) or ():
                self._created(resource, tree)
        shown: dict[str, Json] = {}
        initial = self._changed(shown, self.sections())
        out = []
        for op in self.case["ops"]:
            batch = self.batch()
            self.events, self.server.writes = [], []
            result = self.ops[op["op"]](op)
            self.now += MS
            result |= self._changed(shown, self.sections())
            result |= self._noted(batch)
            out.append(result)
        return {"initial": initial, "ops": out}

    # ------------------------------------------------------------------ operations

    def _created(self, resource: str, tree: Json) -> None:
        self.server.put(resource, tree)
        self.deliver()
        self.now += MS

    def create(self, op: Json) -> Json:
        for tree in op["objects"]:
            self._created(op["kind"], tree)
        return {}

    def update(self, op: Json) -> Json:
        for tree in op["objects"]:
            key = tree["metadata"].get("namespace", ""), tree["metadata"]["name"]
            old = self.server.get(op["kind"], key)
            if op["kind"] == "pods" and old is not None:
                tree = _kept(old.tree, tree)
            self._created(op["kind"], tree)
        return {}

    def delete(self, op: Json) -> Json:
        for name in op["names"]:
            self.server.asked_to_delete(op["kind"], (op.get("ns", ""), name))
            self.deliver()
            self.now += MS
        return {}

    def kill(self, op: Json) -> Json:
        names = op.get("names")
        for key, pod in list(self.server.objects["pods"].items()):
            if names is None and not pod.tree["metadata"].get("deletionTimestamp"):
                continue
            if names is None or key[1] in names:
                self.server.remove("pods", key)
                self.deliver()
                self.now += MS
        return {}

    def advance(self, op: Json) -> Json:
        self.now += op["ms"] * MS
        at_once(self.core.queue.flush_backoff(self.now))
        at_once(self.core.queue.flush_unschedulable(self.now))
        return {}

    def fail(self, op: Json) -> Json:
        self.server.failures.setdefault(op["key"], []).extend(op["errors"])
        return {}

    def score(self, op: Json) -> Json:
        """PreFilter, Filter of every node and the scores of those that are left."""
        pod = view_class("v1", "Pod").from_tree({"apiVersion": "v1", "kind": "Pod", **op["pod"]})
        core = self.core
        info = QueuedPodInfo.for_pod(pod, self.now)  # type: ignore[arg-type]
        framework = core.frameworks[pod.spec.scheduler_name]  # type: ignore[attr-defined]
        state = CycleState(self.now)
        attempt = Attempt(info, framework, state, self.now, info.uid)
        core.update_snapshot(attempt)
        core.search.columns.sync()
        outcome = at_once(framework.run_pre_filter(state, attempt.pod))
        if outcome.status is not None:
            return {"preFilter": _status(outcome.status)}
        refused: Json = {}
        feasible = []
        for node in core.snapshot.node_info_list:
            status = framework.run_filter(state, attempt.pod, node)
            if status is None:
                feasible.append(node)
            else:
                refused[node.name] = {**_status(status), "plugin": status.plugin}
        result: Json = {"filter": refused} if refused else {}
        if feasible:
            totals, _ = core.search.rate(attempt, feasible)
            rows = zip(feasible, totals(), strict=True)
            assert attempt.scores is not None
            result["scores"] = {
                node.name: {**attempt.scores[node.name], "total": total} for node, total in rows
            }
        return result

    # ------------------------------------------------------------------ informers

    def deliver(self) -> None:
        """Let the informers hear of all that was written."""
        while self.server.changes:
            change = self.server.changes.pop(0)
            old = None if change.old is None else change.old.view
            new = None if change.new is None else change.new.view
            store = self.stores[change.resource]
            if new is None:
                assert old is not None
                store.remove(old.metadata.namespace, old.metadata.name)
            else:
                store.put(new)
            self._handle(change.resource, old, new)

    def _handle(self, resource: str, old: Any, new: Any) -> None:
        core, now = self.core, self.now
        if resource in ("pods", "nodes"):
            kind = resource[:-1]
            if new is None:
                at_once(getattr(eventhandlers, f"delete_{kind}")(core, old, now))
            elif old is None:
                at_once(getattr(eventhandlers, f"add_{kind}")(core, new, now))
            else:
                at_once(getattr(eventhandlers, f"update_{kind}")(core, old, new, now))
        elif resource == "resourceclaims":
            at_once(eventhandlers.claim_changed(core, old, new))
        elif resource == "deviceclasses":
            at_once(eventhandlers.class_changed(core, old, new, now))
        elif resource in EVENTS:
            if new is None:
                at_once(eventhandlers.other_deleted(core, EVENTS[resource], old, now))
            elif old is None:
                at_once(eventhandlers.other_added(core, EVENTS[resource], new, now))
            else:
                at_once(eventhandlers.other_updated(core, EVENTS[resource], old, new, now))

    # ------------------------------------------------------------------ scheduling

    def schedule(self, most: int) -> int:
        """Run up to `most` scheduling cycles with their binding cycles; the number of them."""
        cycles = 0
        queue = self.core.queue
        while cycles < most and (len(queue.active_q.heap) or len(queue.backoff_q.heap)):
            info = queue.pop()
            if info is None:
                break
            self.cycle(info)
            self.deliver()
            self._permitted()
            self.now += MS
            cycles += 1
        return cycles

    def cycle(self, info: QueuedPodInfo) -> None:
        """One scheduling cycle, and the binding cycle of a pod that does not wait."""
        core = self.core
        if core.schedules_groups and info.pod.spec.scheduling_group is not None:
            self._group_cycle(info)
            return
        attempt = core.begin(info, self.now)
        if isinstance(attempt, Skipped):
            self._skipped(attempt)
            return
        core.update_snapshot(attempt)
        perform(core.find_node(attempt), self.server)
        if attempt.failure is None:
            self._assume(attempt)
        elif core.handle.preemptions:
            problem = self._preempt()
            if problem:
                attempt.failure = eviction_failed(attempt.failure, problem)
        if attempt.failure is not None:
            self.failed(attempt)
            return
        self._accept(attempt)

    def _skipped(self, skipped: Skipped) -> None:
        if skipped.event is not None:
            self.record(skipped.event)

    def _assume(self, attempt: Attempt) -> None:
        core = self.core
        at_once(binding.assume(core.cache, core.queue, attempt))
        if attempt.failure is None:
            perform(binding.reserve_and_permit(core.cache, attempt, core.queue), self.server)

    def _accept(self, attempt: Attempt) -> None:
        self._admit(attempt)
        self._begin_binding(attempt)

    def _admit(self, attempt: Attempt) -> None:
        """From now on plugins can decide about a pod that waits in Permit."""
        if attempt.waits:
            core, uid = self.core, attempt.pod.uid
            waiting = WaitingPod(attempt.pod, attempt.waits, self.now, lambda: None)
            core.handle.waiting_pods[uid] = waiting
            core.set_waiting(uid, lambda message: waiting.reject("", message))
            self.waiting.append((attempt, waiting))

    def _begin_binding(self, attempt: Attempt) -> None:
        self._pre_flight(attempt)
        if not attempt.waits:
            self.bind(attempt)

    def _group_cycle(self, info: QueuedPodInfo) -> None:
        """One cycle of a pod group; bindings begin when all members were handed over."""
        core = self.core
        infos = at_once(members.gather(core.handle, core.queue, info, self.now))
        if infos is None:
            framework = core.frameworks[info.pod.spec.scheduler_name]
            lonely = Group(("", ""), framework, [info], self.now)
            attempt = lonely.attempt(info, core.queue.scheduling_cycle)
            attempt.failure = Failure(Code.ERROR, SchedulingError(""), None)
            self.failed(attempt)
            return
        framework, problem = members.framework_of(core.frameworks, infos)
        if framework is None:
            for each in infos:
                alone = core.frameworks[each.pod.spec.scheduler_name]
                attempt = Group(("", ""), alone, [each], self.now).attempt(each, 0)
                attempt.failure = Failure(Code.ERROR, SchedulingError(problem))
                self.failed(attempt)
            return
        wanted = []
        for each in infos:
            begun = core.begin(each, self.now)
            if isinstance(begun, Skipped):
                self._skipped(begun)
            else:
                wanted.append(each)
        key = group_of(info.pod)
        if not wanted or key is None:
            return
        group = Group(key, framework, wanted, self.now)
        problem = core.renew_snapshot()
        if problem:
            result = GroupResult(status=refused_by_error(problem))
        else:
            trial = Trial(core.search, core.queue, group)
            result = perform(trial.run(), self.server, self._evictions)
        accepted = []
        for attempt in outcome.attempts(group, result):
            if attempt.failure is None:
                attempt.state.group = None
                self._assume(attempt)
            if attempt.failure is None:
                self._admit(attempt)
                accepted.append(attempt)
            else:
                self.failed(attempt)
        self._tell(group, result)
        for attempt in accepted:
            self._begin_binding(attempt)

    def _evictions(self, effect: Any) -> str | None:
        return self._preempt() if isinstance(effect, Evictions) else None

    def _tell(self, group: Group, result: GroupResult) -> None:
        namespace, name = group.key
        known = self.stores["podgroups"].get(namespace, name)
        if known is None:
            return
        patch = outcome.status_patch(known, outcome.condition(result), self.now)
        if patch is not None:
            with contextlib.suppress(ApiError):
                steps = calls.patch(POD_GROUPS, namespace, name, patch, subresource="status")
                perform(steps, self.server)

    def _permitted(self) -> None:
        """Let the binding cycles go on of those pods about which Permit was decided."""
        while decided := [each for each in self.waiting if each[1].is_decided]:
            attempt, waiting = decided[0]
            self.waiting.remove(decided[0])
            self.core.set_waiting(attempt.pod.uid, None)
            self.core.handle.waiting_pods.pop(attempt.pod.uid, None)
            self.bind(attempt, waiting)
            self.deliver()

    def _pre_flight(self, attempt: Attempt) -> None:
        nomination = binding.pre_bind_pre_flight(attempt)
        if nomination is not None:
            self.publish(nomination)

    def bind(self, attempt: Attempt, waited: WaitingPod | None = None) -> None:
        """The binding cycle after Permit."""
        core = self.core
        if attempt.failure is None:
            binding.permit_wait_over(core.queue, attempt, None if waited is None else waited.status)
        if attempt.failure is None and attempt.has_pre_bind_work:
            for plugin, write in binding.pre_bind(attempt):
                problem = self._send(write)
                if problem:
                    text = f'running PreBind plugin "{plugin}": {problem}'
                    attempt.failure = Failure(Code.ERROR, SchedulingError(text))
                    break
            if attempt.failure is None:
                perform(binding.pre_bind_calls(attempt), self.server, self.wait)
        if attempt.failure is None:
            bind = binding.bind(attempt)
            problem = "" if bind is None else self._send(bind)
            if problem:
                binding.bind_error(attempt, "DefaultBinder", problem)
        if attempt.failure is None:
            binding.finished(core.cache, core.queue, attempt, self.now)
            self.record(binding.bound(attempt))
            return
        undo, assumed = binding.undo(core.cache, core.queue, attempt, self.now), attempt.pod
        later = perform(undo, self.server)
        self.failed(attempt)
        if later:
            at_once(binding.after_failure(core.queue, assumed, self.now))

    def wait(self, _effect: Any) -> None:
        """A plugin waits: informers catch up meanwhile."""
        self.deliver()

    def _send(self, write: ApiWrite) -> str:
        namespace, name = write.namespace, write.name
        steps = {
            "create": lambda: calls.create(
                PODS, namespace, write.body, name, subresource=write.subresource
            ),
            "patch": lambda: calls.patch(
                PODS, namespace, name, write.body, subresource=write.subresource
            ),
        }[write.verb]()
        try:
            perform(steps, self.server)
        except ApiError as error:
            return str(error)
        return ""

    def failed(self, attempt: Attempt) -> None:
        """The failure handler."""
        assert attempt.failure is not None
        cached = self.stores["pods"].get(attempt.pod.namespace, attempt.pod.name)
        gates = self.core.handle.fixes
        _, report = failure.handle(self.core.queue, attempt, cached, gates, self.now)
        if report is not None and attempt.failure.message:
            self.record(report.event)
            self.publish(report.call)

    def _preempt(self) -> str:
        failed = ""
        for task in self.core.take_preemptions():
            plugin = self.core.preemption_plugin(task)
            if self.asynchronous:
                for pod in task.nominated:
                    self.publish(tasks.clear_nomination(pod))
            for victim in task.victims:
                if self.asynchronous and victim is task.victims[-1] and plugin is not None:
                    plugin.evict_last(task)
                failed = failed or self._evict(task, victim)
            if not self.asynchronous:
                for pod in () if failed else task.nominated:
                    self.publish(tasks.clear_nomination(pod))
            elif plugin is not None:
                plugin.finish(task)
        return failed

    def _evict(self, task: tasks.PreemptionTask, victim: Any) -> str:
        related = task.key.partition("/")[2]
        waiting = self.core.handle.waiting_pods.get(victim.uid)
        if waiting is not None and waiting.preempt("DefaultPreemption", "preempted"):
            self.record(tasks.preempted_event(victim, task, in_memory=True), related)
            return ""
        scheduler = task.preemptor.spec.scheduler_name
        patch = tasks.disruption_patch(victim, scheduler, self.now, task.kind)
        try:
            if patch is not None:
                self._patched(patch)
            perform(calls.delete(PODS, victim.namespace, victim.name), self.server)
        except ApiError as error:
            return "" if error.code == 404 else str(error)
        self.record(tasks.preempted_event(victim, task), related)
        return ""

    # ------------------------------------------------------------------ writes

    def record(self, event: EventIntent, related: str = "") -> None:
        """Note an event."""
        about = event.regarding
        head = f"{about.metadata.namespace}/{about.metadata.name} {event.type} {event.reason}"
        more = f" related={related}" if related else ""
        self.events.append(f"{head} {event.action}{more}: {event.note}")

    def publish(self, call: StatusPatchCall) -> None:
        """Patch a pod's status; a failure changes nothing."""
        patch = call.patch(self.now)
        if patch is not None:
            with contextlib.suppress(ApiError):
                self._patched(patch)

    def _patched(self, patch: StatusPatch) -> None:
        steps = calls.patch(PODS, patch.namespace, patch.name, patch.patch, subresource="status")
        perform(steps, self.server)

    # ------------------------------------------------------------------ what shows

    def batch(self) -> dict[str, int]:
        """The counters of the batches of all profiles."""
        found: dict[str, int] = {}
        for framework in self.core.frameworks.values():
            counted = {f"flushed:{name}": n for name, n in framework.batch.flushes.items()}
            for name, number in {**framework.batch.attempts, **counted}.items():
                found[name] = found.get(name, 0) + number
        return found

    def _noted(self, before: dict[str, int]) -> Json:
        after = self.batch()
        grown = {name: n - before.get(name, 0) for name, n in after.items()}
        noted = {
            "events": sorted(self.events),
            "writes": sorted(map(_written, self.server.writes)),
            "batch": {name: n for name, n in grown.items() if n},
        }
        return {name: value for name, value in noted.items() if value}

    def entry(self, info: QueuedPodInfo, *, backoff: bool = False) -> Json:
        """A pod of the queue."""
        shown = {
            "attempts": info.attempts,
            "unschedulableCount": info.unschedulable_count,
            "consecutiveErrors": info.consecutive_errors_count,
            "unschedulablePlugins": sorted(info.unschedulable_plugins),
            "pendingPlugins": sorted(info.pending_plugins),
            "gatingPlugin": info.gating_plugin,
        }
        if backoff:
            shown["backoffExpiration"] = (self.core.queue.backoff_q.expiration(info) - START) // MS
        return {"pod": info.key, **{name: value for name, value in shown.items() if value}}

    def _listed(self, infos: Iterable[QueuedPodInfo], *, backoff: bool = False) -> Json:
        return [self.entry(info, backoff=backoff) for info in sorted(infos, key=lambda i: i.key)]

    def sections(self) -> dict[str, Json]:
        """All that is compared between operations."""
        queue = self.core.queue
        backing_off = [*queue.backoff_q.heap.sorted(), *queue.backoff_q.error_heap]
        found = {
            "activeQ": self._listed(queue.active_q.heap.sorted()),
            "backoffQ": self._listed(backing_off, backoff=True),
            "unschedulable": self._listed(queue.unschedulable),
            "assumed": self._assumed(),
            "waitingOnPermit": sorted(
                f"{attempt.pod.key} {','.join(sorted(waiting.pending_plugins))}"
                for attempt, waiting in self.waiting
            ),
            "claims": self._claims(),
            "groupState": self._group_states(),
        }
        found["pods"] = {
            f"{key[0]}/{key[1]}": _pod(obj.tree) for key, obj in self.server.objects["pods"].items()
        }
        told = {
            key: conditions_of(obj.tree) for key, obj in self.server.objects["podgroups"].items()
        }
        found["podGroups"] = {f"{key[0]}/{key[1]}": each for key, each in told.items() if each}
        return found

    def _group_states(self) -> Json:
        states = self.core.cache.pod_groups
        found: Json = {}
        for key in self.server.objects["podgroups"] if states is not None else ():
            state = states.get(key)  # type: ignore[union-attr]
            if state is None:
                continue
            found[f"{key[0]}/{key[1]}"] = {
                "all": len(state.all),
                "scheduled": state.scheduled_count,
                "unscheduled": sorted(pod.name for pod in state.unscheduled_pods()),
            }
        return found

    def _assumed(self) -> Json:
        cache = self.core.cache
        return {
            pod.key: pod.spec.node_name
            for pod in map(cache.get_pod, cache.uids())
            if pod is not None and cache.is_assumed_pod(pod)
        }

    def _claims(self) -> Json:
        found: Json = {}
        for (namespace, name), obj in self.server.objects["resourceclaims"].items():
            status = obj.tree.get("status") or {}
            shown: Json = {}
            if status.get("allocation") is not None:
                shown["allocation"] = status["allocation"]
            if status.get("reservedFor"):
                shown["reservedFor"] = [
                    f"{each['resource']}/{each['name']}" for each in status["reservedFor"]
                ]
            if shown:
                found[f"{namespace}/{name}"] = shown
        return found

    def _changed(self, before: dict[str, Json], after: dict[str, Json]) -> Json:
        """The sections that differ; of pods only those that do."""
        out: Json = {}
        for name, value in after.items():
            old = before.get(name)
            if name == "pods":
                old = old or {}
                changed = {key: pod for key, pod in value.items() if old.get(key) != pod}
                changed |= {key: "gone" for key in old if key not in value}
                if changed:
                    out[name] = changed
            elif value != old and (value or old):
                out[name] = value
            before[name] = value
        return out


def _kept(old: Json, new: Json) -> Json:
    """The new pod with those parts of the old one that an update keeps."""
    spec, status, metadata = dict(new["spec"]), dict(new.get("status") or {}), dict(new["metadata"])
    if (old.get("spec") or {}).get("nodeName"):
        spec["nodeName"] = old["spec"]["nodeName"]
    for field in ("conditions", "nominatedNodeName"):
        if (old.get("status") or {}).get(field):
            status[field] = old["status"][field]
    if old["metadata"].get("deletionTimestamp"):
        metadata["deletionTimestamp"] = old["metadata"]["deletionTimestamp"]
    return {**new, "metadata": metadata, "spec": spec, **({"status": status} if status else {})}


def _status(status: Any) -> Json:
    out: Json = {"code": status.code_name}
    return out | ({"reasons": list(status.reasons)} if status.reasons else {})


def _pod(tree: Json) -> Json:
    status = tree.get("status") or {}
    shown = {
        "nodeName": (tree.get("spec") or {}).get("nodeName"),
        "nominatedNodeName": status.get("nominatedNodeName"),
        "deleting": bool(tree["metadata"].get("deletionTimestamp")),
        "conditions": conditions_of(tree),
        "extendedResourceClaimStatus": status.get("extendedResourceClaimStatus"),
    }
    return {name: value for name, value in shown.items() if value}


def conditions_of(tree: Json) -> Json:
    """The conditions of an object, without times."""
    return [_condition(each) for each in (tree.get("status") or {}).get("conditions") or ()]


def _condition(condition: Json) -> Json:
    return {
        name: value
        for name, value in condition.items()
        if name not in ("lastTransitionTime", "lastProbeTime") and value is not None
    }


def _written(write: Json) -> str:
    name = f"{write.get('namespace', '')}/{write.get('name', '<nil>')}"
    problem = f" error: {write['error']}" if "error" in write else ""
    if write.get("subresource") == "binding":
        # The recording has no name for a binding that was refused.
        return f"bind {write.get('namespace', '')}/%!s(<nil>)" if problem else f"bind {name}"
    parts = [write["resource"], *([write["subresource"]] if "subresource" in write else ())]
    return f"{write['verb']} {'/'.join(parts)} {name}{problem}"


def answer(case: Json) -> Json:
    """Our value for `want`."""
    return hidden(Conversation(case).run())


def hidden(value: Json, names: dict[str, str] | None = None, key: str = "") -> Json:
    """Placeholders for random names and for times, by first appearance."""
    names = {} if names is None else names
    if isinstance(value, dict):
        return {name: hidden(value[name], names, name) for name in sorted(value)}
    if isinstance(value, list):
        return [hidden(each, names) for each in value]
    if isinstance(value, str):
        if value >= YEAR and key.endswith(("Time", "Timestamp")):
            return "<now>"
        return _UUID.sub(lambda m: names.setdefault(m[0], f"<uuid{len(names)}>"), value)
    return value
