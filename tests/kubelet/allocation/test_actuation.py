from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.kubelet.allocation.actuation import (
    ContainerStep,
    Plan,
    PodStep,
    actuated_after,
    in_progress,
    memory_objection,
    plan,
)
from controlplane.kubelet.allocation.state import PodResources, desired
from controlplane.kubelet.features import DEFAULTS

GI = 1 << 30


def pod(*containers: tuple[str, str, str], restart: tuple[str, ...] = ()) -> Pod:
    """(name, cpu, memory), the same as request and limit; `restart` names resources."""
    listed: list[dict[str, Any]] = []
    for name, cpu, memory in containers:
        amounts = {"cpu": cpu, "memory": memory}
        policy = [{"resourceName": each, "restartPolicy": "RestartContainer"} for each in restart]
        resources = {"requests": amounts, "limits": amounts}
        listed.append({"name": name, "resources": resources, "resizePolicy": policy})
    return Pod.from_tree({"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": listed}})


def recorded(each: Pod) -> PodResources:
    return desired(each, DEFAULTS)


def planned(new: Pod, old: Pod) -> Plan:
    return plan(new, recorded(old), lambda _: True, DEFAULTS)


def test_what_grows_is_raised_from_the_pod_down_and_memory_comes_first() -> None:
    made = planned(pod(("a", "2", "2Gi")), pod(("a", "1", "1Gi")))
    assert made.steps == (
        PodStep("memory", "limits", 2 * GI),
        ContainerStep("a", "memory"),
        PodStep("cpu", "limits", 2000),
        PodStep("cpu", "requests", 2000),
        ContainerStep("a", "cpu"),
    )


def test_what_shrinks_is_lowered_from_the_containers_up() -> None:
    made = planned(pod(("a", "1", "1Gi")), pod(("a", "2", "1Gi")))
    assert made.steps == (
        ContainerStep("a", "cpu"),
        PodStep("cpu", "requests", 1000),
        PodStep("cpu", "limits", 1000),
    )


def test_containers_that_shrink_go_first_and_the_last_of_them_before_the_others() -> None:
    old = pod(("a", "2", "1Gi"), ("b", "1", "1Gi"), ("c", "2", "1Gi"), ("d", "1", "1Gi"))
    new = pod(("a", "1", "1Gi"), ("b", "2", "1Gi"), ("c", "1", "1Gi"), ("d", "2", "1Gi"))
    assert planned(new, old).steps == tuple(ContainerStep(name, "cpu") for name in "cabd")


def test_a_container_that_must_restart_is_killed_and_not_updated() -> None:
    new = pod(("a", "2", "2Gi"), restart=("memory",))
    made = planned(new, pod(("a", "1", "1Gi")))
    assert made.restarts == ("a",)
    assert not any(isinstance(step, ContainerStep) for step in made.steps)
    assert PodStep("cpu", "limits", 2000) in made.steps
    only_cpu = planned(pod(("a", "2", "1Gi"), restart=("memory",)), pod(("a", "1", "1Gi")))
    assert only_cpu.restarts == ()


def test_a_container_that_does_not_run_waits_for_its_start() -> None:
    new, old = pod(("a", "2", "1Gi")), pod(("a", "1", "1Gi"))
    made = plan(new, recorded(old), lambda _: False, DEFAULTS)
    assert not any(isinstance(step, ContainerStep) for step in made.steps)
    assert not in_progress(new, recorded(old), lambda _: False, DEFAULTS)
    assert in_progress(new, recorded(old), lambda _: True, DEFAULTS)
    assert not in_progress(new, recorded(new), lambda _: True, DEFAULTS)


def test_memory_in_use_cannot_be_taken_away() -> None:
    made = planned(
        pod(("a", "1", "1Gi"), ("b", "1", "1Gi")), pod(("a", "1", "2Gi"), ("b", "1", "1Gi"))
    )
    assert made.new_limits == {"a": GI, "": 2 * GI}
    assert memory_objection(made, lambda _: 100) == ""
    assert memory_objection(made, {"": GI + 5, "a": GI + 1}.__getitem__) == (
        'cannot decrease memory limits: attempting to set container "a" memory limit (1073741824) '
        "below current usage (1073741829)"
    )
    assert memory_objection(made, {"": 3 * GI, "a": 2 * GI}.__getitem__) == (
        "cannot decrease memory limits: [attempting to set pod memory limit (2147483648) below "
        'current usage (3221225472), attempting to set container "a" memory limit (1073741824) '
        "below current usage (3221225472)]"
    )


def test_each_step_of_a_container_is_recorded_by_itself() -> None:
    new, old = pod(("a", "2", "2Gi")), pod(("a", "1", "1Gi"))
    half = actuated_after(new, recorded(old), ContainerStep("a", "memory"))
    assert half.containers["a"]["limits"] == {"cpu": "1", "memory": "2Gi"}
    assert in_progress(new, half, lambda _: True, DEFAULTS)
    done = actuated_after(new, half, ContainerStep("a", "cpu"))
    assert done == recorded(new)
    assert planned(new, new).steps == ()
