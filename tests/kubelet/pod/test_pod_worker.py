import pytest

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, format_time
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.actions import Event, Finished, SetStatus
from controlplane.kubelet.pod.pleg import PodCache
from controlplane.kubelet.pod.pod_state import FINISHED, TERMINATED, TERMINATING, PodServices
from controlplane.kubelet.pod.pod_worker import PodWorker
from controlplane.kubelet.pod.preemption import PREEMPTED_STATUS
from controlplane.kubelet.pod.prober import Results
from controlplane.kubelet.pod.restarts import BackOff
from controlplane.kubelet.pod.status import Condition

START = 1_767_225_600 * SECOND
DURATIONS = runtime.fixed(
    {
        runtime.SANDBOX: SECOND,
        runtime.PULL: 2 * SECOND,
        runtime.START: SECOND,
        runtime.RUN: 5 * SECOND,
        runtime.STOP: SECOND,
    }
)


def pod_tree(containers=("c",), *, inits=(), meta=None, **spec):
    def full(item):
        return {"name": item, "image": "i"} if isinstance(item, str) else item

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "generation": 1} | (meta or {}),
        "spec": {
            "nodeName": "n1",
            "containers": [full(item) for item in containers],
            "initContainers": [full(item) for item in inits],
        }
        | spec,
        "status": {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": format_time(START - SECOND),
                }
            ],
        },
    }


class Run:
    """Steps a worker at its own deadlines, relists each second, and keeps what it did, in seconds since the start."""

    def __init__(self, tree, **options):
        self.now = START
        self.tree = tree
        sandboxes = {}
        self.cache = PodCache(sandboxes, START)
        services = PodServices(DURATIONS, self.cache, host_ip="10.1.0.1", **options)
        self.worker = PodWorker(Pod.from_tree(tree), START, services, ip="10.0.0.1")
        sandboxes["u"] = self.worker.sandbox
        self.cache.relist(START)
        self.log = []
        self.relists = 0
        self.due = START

    def step(self):
        actions, self.due = self.worker.step(self.now)
        self.log += [((self.now - START) / SECOND, action) for action in actions]
        self.cache.look_at("u")
        if self.worker.waits_for_cache:
            self.cache.wait("u")
        return actions

    def until(self, seconds):
        end = START + int(seconds * SECOND)
        while True:
            relist = self.cache.due(self.now)
            if relist is not None:
                relist = START + max(-(-(relist - START) // SECOND), self.relists + 1) * SECOND
            times = [time for time in (self.due, relist) if time is not None]
            if not times or min(times) > end:
                break
            self.now = max(self.now, min(times))
            if relist is not None and relist <= self.now:
                self.relists = (relist - START) // SECOND
                changed, waited = self.cache.relist(self.now)
                if changed:
                    self.worker.poke()
                if changed or waited:
                    self.step()
            else:
                self.step()
        self.now = end
        return self

    @property
    def statuses(self):
        return [(at, item.status) for at, item in self.log if isinstance(item, SetStatus)]

    @property
    def status(self):
        return self.statuses[-1][1]

    def phases(self):
        found = []
        for at, status in self.statuses:
            if not found or found[-1][1] != status["phase"]:
                found.append((at, status["phase"]))
        return found

    def events(self, reason=None):
        return [
            (at, item.container or item.reason) if reason else (at, item.reason)
            for at, item in self.log
            if isinstance(item, Event) and reason in (None, item.reason)
        ]

    def condition(self, kind):
        return next(item for item in self.status["conditions"] if item["type"] == kind)

    def delete(self, grace):
        meta = self.tree["metadata"] | {
            "deletionTimestamp": format_time(self.now + grace * SECOND),
            "deletionGracePeriodSeconds": grace,
        }
        self.worker.update(Pod.from_tree(self.tree | {"metadata": meta}), self.now)
        self.due = self.now
        return self


def test_a_pod_comes_up_and_becomes_ready():
    run = Run(pod_tree()).until(100)
    assert run.events() == [
        (1, "Pulling"), (3, "Pulled"), (4, "Created"), (4, "Started"),
    ]  # fmt: skip
    assert run.phases() == [(0, "Pending"), (5, "Running")]
    assert run.status["podIP"] == "10.0.0.1"
    assert run.status["qosClass"] == "BestEffort"
    (container,) = run.status["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": format_time(START + 4 * SECOND)}}
    assert container["ready"] is True
    kinds = {item["type"]: item["status"] for item in run.status["conditions"]}
    assert kinds == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"],
        "True",
    )
    assert run.condition("PodScheduled")["lastTransitionTime"] == format_time(START - SECOND)
    assert run.due is None


def test_before_the_containers_run_their_state_says_so():
    run = Run(pod_tree()).until(0)
    (container,) = run.status["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert "podIP" not in run.status
    ready = run.condition("Ready")
    assert (ready["reason"], ready["message"]) == (
        "ContainersNotReady",
        "containers with unready status: [c]",
    )


def test_containers_are_brought_up_one_after_the_other():
    run = Run(pod_tree(["a", "b"])).until(100)
    assert run.events("Started") == [(4, "a"), (7, "b")]
    assert run.phases() == [(0, "Pending"), (8, "Running")]


def test_readiness_waits_for_the_probe():
    probes = Results()
    run = Run(pod_tree([{"name": "c", "image": "i", "readinessProbe": {}}]), probes=probes)
    run.until(20)
    (container,) = run.status["containerStatuses"]
    assert (container["started"], container["ready"]) == (True, False)
    probes.set("readiness", container["containerID"], True)
    run.worker.poke()
    run.step()
    run.until(30)
    assert run.status["containerStatuses"][0]["ready"] is True


def test_a_container_whose_liveness_probe_fails_starts_anew():
    probes = Results()
    run = Run(pod_tree([{"name": "c", "image": "i", "livenessProbe": {}}]), probes=probes).until(20)
    probes.set("liveness", run.status["containerStatuses"][0]["containerID"], False)
    run.worker.poke()
    run.step()
    run.until(40)
    assert run.events("Killing") == [(20, "c")]
    assert [
        action.message for _, action in run.log if getattr(action, "reason", "") == "Killing"
    ] == ["Container c failed liveness probe, will be restarted"]
    (container,) = run.status["containerStatuses"]
    assert (container["restartCount"], "running" in container["state"]) == (1, True)
    assert container["lastState"]["terminated"]["exitCode"] == 0


def test_what_the_runtime_did_since_the_last_relist_is_not_known():
    meta = {"annotations": {"emulate.controlplane/run-seconds": "0.5"}}
    run = Run(pod_tree(meta=meta, restartPolicy="Never")).until(4.9)
    assert run.worker.sandbox.containers["c"].ends_at <= run.now
    assert run.status["phase"] == "Pending"
    assert run.until(5).status["phase"] == "Succeeded"


def test_between_terminating_and_terminated_a_relist_is_waited_for():
    run = Run(pod_tree()).until(10).delete(30).until(11.5)
    assert run.worker.phase == TERMINATED
    assert not run.worker.active
    assert not any(isinstance(action, Finished) for _, action in run.log)
    assert run.until(12).worker.phase == FINISHED


def test_readiness_gates_are_waited_for():
    tree = pod_tree(readinessGates=[{"conditionType": "x/ok"}])
    run = Run(tree).until(10)
    assert run.condition("ContainersReady")["status"] == "True"
    assert run.condition("Ready")["message"] == (
        'corresponding condition of pod readiness gate "x/ok" does not exist.'
    )
    gate = {"type": "x/ok", "status": "True", "lastTransitionTime": format_time(START)}
    conditions = [*tree["status"]["conditions"], gate]
    run.worker.update(Pod.from_tree(tree | {"status": {"conditions": conditions}}), run.now)
    run.step()
    run.until(11)
    assert run.condition("Ready")["status"] == "True"
    assert run.condition("x/ok") == gate


def test_init_containers_run_in_order_before_the_others():
    run = Run(pod_tree(inits=["i1", "i2"])).until(100)
    assert run.events("Started") == [(4, "i1"), (12, "i2"), (20, "c")]
    assert run.phases() == [(0, "Pending"), (21, "Running")]
    first = run.statuses[0][1]
    message = "containers with incomplete status: [i1 i2]"
    assert first["conditions"][1]["message"] == message
    assert first["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert all(item["ready"] for item in run.status["initContainerStatuses"])


def test_a_sidecar_stays_and_stops_last():
    side = {"name": "s", "image": "i", "restartPolicy": "Always"}
    run = Run(pod_tree(inits=[side, "i1"])).until(50)
    assert run.events("Started") == [(4, "s"), (8, "i1"), (16, "c")]
    run.delete(30).until(100)
    assert run.events("Killing") == [(50, "c"), (51, "s")]
    assert run.worker.phase == FINISHED


def test_a_failing_init_container_fails_the_pod_that_never_restarts():
    meta = {"annotations": {"emulate.controlplane/exit-codes.i1": "3"}}
    run = Run(pod_tree(inits=["i1"], meta=meta, restartPolicy="Never")).until(100)
    assert run.phases() == [(0, "Pending"), (9, "Failed")]
    state = run.status["initContainerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (3, "Error")
    assert run.worker.phase == FINISHED
    assert not run.worker.active


def test_crashes_are_held_back_ever_longer():
    annotations = {
        "emulate.controlplane/run-seconds": "1",
        "emulate.controlplane/exit-codes": "1",
    }
    run = Run(pod_tree(meta={"annotations": annotations})).until(150)
    starts = [at for at, _ in run.events("Started")]
    ends = [at + 1 for at in starts]
    gaps = [later - earlier for later, earlier in zip(starts[1:], ends, strict=False)]
    assert gaps[:4] == [3, 13, 23, 43]
    assert run.status["phase"] == "Running"
    (container,) = run.status["containerStatuses"]
    assert container["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 1m20s restarting failed container=c pod=p_n(u)",
    }
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] == 4
    assert len(run.events("BackOff")) == 4


def test_the_delay_is_forgotten_after_a_long_run():
    back_off = BackOff()
    back_off.next(0, 0)
    assert back_off.held_until(5 * SECOND, 6 * SECOND) == 15 * SECOND
    back_off.next(5 * SECOND, 15 * SECOND)
    assert back_off.delay == 20 * SECOND
    late = 616 * SECOND
    assert back_off.held_until(late, late) is None
    back_off.next(late, late)
    assert back_off.delay == 10 * SECOND


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("2", "Failed")])
def test_a_pod_that_never_restarts_ends_with_its_program(code, phase):
    annotations = {
        "emulate.controlplane/run-seconds": "10",
        "emulate.controlplane/exit-codes": code,
    }
    tree = pod_tree(meta={"annotations": annotations}, restartPolicy="Never")
    run = Run(tree).until(100)
    assert run.phases() == [(0, "Pending"), (5, "Running"), (14, phase)]
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    assert run.condition("Ready")["reason"] == reason
    assert run.log[-1] == (16, Finished("u"))
    seen = len(run.log)
    run.delete(0).until(101)
    assert len(run.log) == seen


def test_on_failure_a_job_pod_runs_again_until_it_succeeds():
    meta = {
        "annotations": {"emulate.controlplane/exit-codes": "1,0"},
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j"}],
    }
    run = Run(pod_tree(meta=meta, restartPolicy="OnFailure")).until(100)
    assert run.phases() == [(0, "Pending"), (5, "Running"), (17, "Succeeded")]
    assert run.status["containerStatuses"][0]["restartCount"] == 1


def test_deletion_stops_reports_and_then_deletes():
    run = Run(pod_tree()).until(10).delete(30).until(100)
    assert run.events("Killing") == [(10, "c")]
    assert run.phases()[-1] == (11, "Succeeded")
    assert run.log[-1] == (12, Finished("u"))
    assert [status["phase"] for at, status in run.statuses if at < 11][-1] == "Running"


def test_who_does_not_listen_is_killed_when_the_grace_is_over():
    meta = {"annotations": {"emulate.controlplane/stop-seconds": "60"}}
    run = Run(pod_tree(meta=meta)).until(10).delete(5).until(100)
    state = run.status["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["finishedAt"]) == (137, format_time(START + 15 * SECOND))
    assert run.status["phase"] == "Failed"


def test_a_second_deletion_can_only_shorten_the_grace():
    meta = {"annotations": {"emulate.controlplane/stop-seconds": "60"}}
    run = Run(pod_tree(meta=meta)).until(10).delete(40).until(12).delete(50).until(13)
    assert run.worker.phase == TERMINATING
    run.delete(2).until(100)
    assert run.log[-1] == (16, Finished("u"))


def test_deletion_before_the_start_fails_the_pod():
    run = Run(pod_tree()).until(2).delete(30).until(100)
    assert run.status["phase"] == "Failed"
    assert run.log[-1] == (4, Finished("u"))


def test_a_pod_removed_by_force_stops_silently():
    run = Run(pod_tree()).until(10)
    seen = len(run.statuses)
    run.worker.remove(run.now)
    run.due = run.now
    run.until(100)
    assert run.worker.phase == FINISHED
    assert len(run.statuses) == seen
    assert not any(isinstance(action, Finished) for _, action in run.log)


def test_a_victim_fails_with_the_reason_of_its_death():
    run = Run(pod_tree()).until(10)
    target = Condition("DisruptionTarget", "True", "TerminationByKubelet", "made room")
    run.worker.kill(run.now, PREEMPTED_STATUS, condition=target)
    run.due = run.now
    run.until(100)
    assert (run.status["phase"], run.status["reason"]) == ("Failed", "Preempting")
    assert run.condition("DisruptionTarget")["message"] == "made room"


def test_the_active_deadline_ends_the_pod():
    run = Run(pod_tree(activeDeadlineSeconds=20)).until(100)
    assert run.phases()[-1] == (20, "Failed")
    assert run.status["reason"] == "DeadlineExceeded"


def test_a_restarted_kubelet_finds_its_containers_running():
    run = Run(pod_tree()).until(10)
    again = PodWorker(
        Pod.from_tree(run.tree | {"status": run.status}),
        run.now,
        PodServices(DURATIONS, run.cache, host_ip="10.1.0.1"),
        sandbox=run.worker.sandbox,
    )
    actions, due = again.step(run.now)
    assert not [action for action in actions if isinstance(action, Event)]
    assert due is None
    assert again.reports()[0].restart_count == 0


def test_a_restarted_kubelet_says_the_last_of_a_pod_that_had_ended():
    """The kubelet may have died between the status with the phase and the one after the sandbox was stopped."""
    meta = {"annotations": {"emulate.controlplane/run-seconds": "5"}}
    run = Run(pod_tree(meta=meta, restartPolicy="Never")).until(100)
    assert run.status["phase"] == "Succeeded"
    known = [
        item | {"status": "True"} if item["type"] == "PodReadyToStartContainers" else item
        for item in run.status["conditions"]
    ]
    told = run.status | {"conditions": known}
    again = PodWorker(
        Pod.from_tree(run.tree | {"status": told}),
        run.now,
        PodServices(DURATIONS, run.cache, host_ip="10.1.0.1"),
        sandbox=run.worker.sandbox,
    )
    (said, finished), _ = again.step(run.now)
    assert finished == Finished("u")
    found = {item["type"]: item["status"] for item in said.status["conditions"]}
    assert found["PodReadyToStartContainers"] == "False"
    assert said.status["containerStatuses"] == run.status["containerStatuses"]
    assert said.status["phase"] == "Succeeded"
    assert "podIP" in told
    assert "podIP" not in said.status  # the sandbox that had it is stopped


def test_a_terminal_pod_without_containers_is_only_deleted():
    tree = pod_tree(meta={"deletionTimestamp": format_time(START)})
    tree["status"]["phase"] = "Failed"
    run = Run(tree).until(10)
    assert run.log == [(0, Finished("u"))]
    assert not run.worker.active


def test_a_host_network_pod_has_the_address_of_its_node():
    assert Run(pod_tree(hostNetwork=True)).until(10).status["podIP"] == "10.1.0.1"


def debugged(run, *names):
    """The pod with ephemeral containers added, as an update."""
    added = [{"name": name, "image": "busybox"} for name in names]
    spec = {**run.tree["spec"], "ephemeralContainers": added}
    run.worker.update(Pod.from_tree({**run.tree, "spec": spec}), run.now)
    run.step()


def ephemeral_states(run):
    found = run.worker.reported.get("ephemeralContainerStatuses") or ()
    return {each["name"]: next(iter(each["state"])) for each in found}


def test_an_ephemeral_container_starts_in_a_running_pod_and_stays_out_of_its_readiness():
    run = Run(pod_tree())
    run.until(10)
    before = run.worker.reported
    debugged(run, "debugger")
    run.until(13)
    assert ephemeral_states(run) == {"debugger": "waiting"}
    run.until(20)
    assert ephemeral_states(run) == {"debugger": "running"}
    told = run.worker.reported["ephemeralContainerStatuses"][0]
    assert told["ready"] is False
    assert "started" not in told
    after = run.worker.reported
    assert after["conditions"] == before["conditions"]
    assert after["containerStatuses"] == before["containerStatuses"]
    debugged(run, "debugger", "second")
    run.until(30)
    assert ephemeral_states(run) == {"debugger": "running", "second": "running"}


def test_an_ephemeral_container_starts_while_an_init_container_fails_and_never_restarts():
    notes = {"emulate.controlplane/exit-codes.i": "1", "emulate.controlplane/run-seconds.d": "3"}
    run = Run(pod_tree(inits=["i"], meta={"annotations": notes}))
    run.until(12)
    debugged(run, "d")
    run.until(120)
    assert run.worker.reported["phase"] == "Pending"
    (told,) = run.worker.reported["ephemeralContainerStatuses"]
    assert told["state"]["terminated"]["exitCode"] == 0
    assert told["restartCount"] == 0


def test_an_ephemeral_container_ends_with_its_pod():
    run = Run(
        pod_tree(
            restartPolicy="Never",
            meta={"annotations": {"emulate.controlplane/run-seconds.c": "20"}},
        )
    )
    run.until(10)
    debugged(run, "d")
    run.until(120)
    assert run.worker.reported["phase"] == "Succeeded"
    assert ephemeral_states(run) == {"d": "terminated"}
