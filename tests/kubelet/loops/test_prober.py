"""Probes in a world: what they find reaches the pod's status, and a container that is not alive starts anew."""

from __future__ import annotations

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"
SHOWN = "emulate.controlplane/"


def run(workload):
    done = Campaign(plan_of(Scenario("probes", workload=workload), nodes=1), "fifo").under(0)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def container(run):
    return next(obj for obj in run.objects(PODS)).tree["status"]["containerStatuses"][0]


def probed(annotations, **probes):
    tree = pod("web", nodeName="node-1")
    tree["metadata"]["annotations"] = {SHOWN + name: text for name, text in annotations.items()}
    for name, more in probes.items():
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 2, **more}
        tree["spec"]["containers"][0][name] = probe
    return tree


def unhealthy(run):
    found = [obj.tree for obj in run.objects("/registry/events/")]
    return [each["message"] for each in found if each["reason"] == "Unhealthy"]


def test_a_container_is_ready_once_its_probe_succeeds() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(probed({"ready-seconds": "10"}, readinessProbe={}))
        await user.sleep(8)
        seen.append((container(user.run)["started"], container(user.run)["ready"]))
        await user.sleep(30)

    done = run(workload)
    assert seen == [(True, False)]
    assert container(done)["ready"] is True
    assert unhealthy(done) == ["Readiness probe failed: emulated"]


def test_who_fails_the_liveness_probe_starts_anew() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(probed({"live-seconds": "20"}, livenessProbe={"failureThreshold": 2}))
        await user.sleep(35)
        seen.append(container(user.run)["restartCount"])
        await user.delete("Pod", "web")

    done = run(workload)
    assert seen == [1]
    assert "Liveness probe failed: emulated" in unhealthy(done)


def test_until_the_startup_probe_succeeds_liveness_is_not_asked() -> None:
    async def workload(user) -> None:
        tree = probed(
            {"ready-seconds": "12", "live-seconds": "30"},
            startupProbe={"failureThreshold": 20},
            livenessProbe={"failureThreshold": 1},
        )
        await user.create(tree)
        await user.sleep(10)
        assert container(user.run)["started"] is False
        await user.sleep(15)
        assert container(user.run)["started"] is True
        assert container(user.run)["restartCount"] == 0
        await user.delete("Pod", "web")
        await user.sleep(10)

    done = run(workload)
    assert not done.objects(PODS)


def script(text, annotations=None, **probes):
    """A pod whose program is a script, with probes that run commands."""
    tree = probed(annotations or {}, **probes)
    tree["spec"]["containers"][0]["command"] = ["sh", "-c", text]
    return tree


def command(*words, **more):
    return {"exec": {"command": list(words)}, **more}


HEALTH = command("cat", "/tmp/health", failureThreshold=1)


def test_a_probes_command_sees_the_files_of_the_program_as_they_are_by_then() -> None:
    seen = []

    async def workload(user) -> None:
        text = "echo ok > /tmp/health; sleep 20; rm /tmp/health; sleep infinity"
        await user.create(script(text, livenessProbe=HEALTH))
        await user.sleep(18)
        seen.append(container(user.run)["restartCount"])
        await user.sleep(12)
        seen.append(container(user.run)["restartCount"])
        await user.delete("Pod", "web")

    done = run(workload)
    assert seen == [0, 1]
    missing = "cat: /tmp/health: No such file or directory\n"
    assert unhealthy(done) == [f"Liveness probe failed: {missing}"]


def test_a_container_whose_command_succeeds_is_left_alone_and_the_world_comes_to_rest() -> None:
    async def workload(user) -> None:
        await user.create(script("echo ok > /tmp/health; sleep infinity", livenessProbe=HEALTH))
        await user.sleep(60)

    done = run(workload)
    assert container(done)["restartCount"] == 0
    assert unhealthy(done) == []


def test_a_file_that_a_program_makes_late_is_waited_for() -> None:
    async def workload(user) -> None:
        ready = command("test", "-f", "/tmp/ready")
        await user.create(
            script("sleep 50; touch /tmp/ready; sleep infinity", readinessProbe=ready)
        )

    done = run(workload)
    assert container(done)["ready"] is True


def test_a_command_that_takes_too_long_fails() -> None:
    async def workload(user) -> None:
        slow = command("sh", "-c", "sleep 3", timeoutSeconds=2, failureThreshold=1)
        await user.create(script("sleep infinity", livenessProbe=slow))
        await user.sleep(10)
        await user.delete("Pod", "web")

    done = run(workload)
    assert 'Liveness probe failed: command "sh -c sleep 3" timed out' in unhealthy(done)


def test_annotations_go_on_ruling_where_they_are_set() -> None:
    async def workload(user) -> None:
        fails = command("false")
        tree = script("sleep infinity", {"ready-seconds": "5"}, readinessProbe=fails)
        await user.create(tree)
        await user.sleep(30)

    assert container(run(workload))["ready"] is True


def test_a_command_that_the_shell_does_not_know_goes_by_annotations_and_defaults() -> None:
    async def workload(user) -> None:
        await user.create(script("sleep infinity", readinessProbe=command("pg_isready")))

    assert container(run(workload))["ready"] is True


def test_a_probe_of_an_unknown_program_goes_by_annotations_and_defaults() -> None:
    async def workload(user) -> None:
        tree = probed({}, readinessProbe=command("false"))
        tree["spec"]["containers"][0]["command"] = ["nginx"]
        await user.create(tree)

    assert container(run(workload))["ready"] is True
