"""Invariants of pods on their nodes: each breaks when object and node disagree, and holds otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.api.object import Object
from controlplane.api.quantity import parse
from controlplane.kubelet.pod.container_runtime import Container, Program, Sandbox
from controlplane.scenarios.invariants.pod_lives import (
    FORCED,
    deferred_resizes_do_not_fit,
    deleted_pods_go,
    ended_pods_stay_ended,
    objects_outlast_their_mounts,
    statuses_tell_what_runs,
)
from tests.scenarios.invariants.stored import StoredRun, made, said

NOW = "2026-01-01T00:00:00Z"


def pod(name: str = "web", status: Any = None, cpu: str = "1", **metadata: Any) -> Object:
    resources = {"requests": {"cpu": cpu}}
    spec = {"nodeName": "n0", "containers": [{"name": "main", "resources": resources}]}
    return made("Pod", name, spec, status or {"phase": "Running"}, **metadata)


def on_machine(**machine: Any) -> StoredRun:
    run = StoredRun()
    run.cluster = SimpleNamespace(machines={"n0": SimpleNamespace(**machine)})
    return run


@pytest.mark.parametrize("phase", ["Running", "Pending", "Failed"])
def test_a_pod_that_has_ended_and_lives_again_is_found(phase) -> None:
    law, run = ended_pods_stay_ended("apiserver"), StoredRun()
    assert said(law, pod(status={"phase": "Running"}), run=run) is None
    assert said(law, pod(status={"phase": "Succeeded"}), run=run) is None
    assert said(law, pod(status={"phase": "Succeeded"}), run=run) is None
    assert said(law, pod(status={"phase": phase}), run=run) == (
        f"default/web (web) had succeeded, and is {phase} again"
    )
    assert said(law, pod(status={"phase": phase}, uid="another"), run=run) is None


def test_a_deleted_pod_that_stays_is_found() -> None:
    law, run = deleted_pods_go("n0"), on_machine()
    assert said(law, pod(), run=run) is None
    told = "default/web is being deleted, and stays"
    assert said(law, pod(deletionTimestamp=NOW), run=run) == told
    held = pod(deletionTimestamp=NOW, finalizers=["example.com/held"])
    assert said(law, held, run=run) is None


def test_a_status_that_tells_of_other_containers_than_run_is_found() -> None:
    law = statuses_tell_what_runs("n0")
    container = Container("main", "app:1", Program())
    run = on_machine(sandboxes={"web": Sandbox("web", containers={"main": container})})
    each = {"name": "main", "containerID": "containerd://other", "state": {"running": {}}}
    shown = pod(status={"containerStatuses": [each]})
    assert said(law, pod(), run=run) is None
    said_wrongly = "the status of default/web tells that container main runs"
    assert said(law, shown, run=run) == said_wrongly
    container.start("web", 0)
    assert said(law, shown, run=run) == said_wrongly
    told = "the status of default/web does not tell that container main runs"
    assert said(law, pod(), run=run) == told
    right = {**each, "containerID": container.container_id}
    assert said(law, pod(status={"containerStatuses": [right]}), run=run) is None


@pytest.mark.parametrize(
    ("others", "cpu", "fits"), [("1", "2", True), ("3", "1", True), ("3", "2", False)]
)
def test_a_deferred_resize_that_fits_is_found(others, cpu, fits) -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    waiting = pod(status={"conditions": [pending]}, cpu=cpu)
    allocated = [pod("other", cpu=others).view, pod(cpu="500m").view]
    allocatable = {"cpu": parse("4"), "pods": parse("10")}
    run = on_machine(promises=lambda: (allocatable, allocated))
    law = deferred_resizes_do_not_fit("n0")
    told = "the resize of default/web is deferred, and fits" if fits else None
    assert said(law, waiting, run=run) == told
    allocated[1] = pod(cpu=cpu).view
    assert said(law, waiting, run=run) is None
    allocated[1] = pod(cpu="500m").view
    pending["reason"] = "Infeasible"
    assert said(law, pod(status={"conditions": [pending]}, cpu=cpu), run=run) is None


def with_mounts(published: dict[str, Any], *known: str) -> StoredRun:
    """A driver with these mounts, and a kubelet that knows that these volumes are mounted."""
    run = StoredRun()
    state = SimpleNamespace(known_mounts=lambda _uid: set(known))
    process = SimpleNamespace(shared=SimpleNamespace(volumes=SimpleNamespace(state=state)))
    run.cluster = SimpleNamespace(
        csi_drivers={"driver": SimpleNamespace(driver=SimpleNamespace(published=published))},
        machines={"n0": SimpleNamespace(process=process)},
    )
    return run


def test_an_object_that_goes_while_its_volume_is_mounted_is_found() -> None:
    law = objects_outlast_their_mounts("apiserver", "driver")
    published: dict[str, Any] = {"vol-0": {("n0", "/var/lib/kubelet/pods/web/volumes/pv"): None}}
    run = with_mounts(published, "vol-0")
    told = "default/web is gone, and vol-0 is mounted for it"
    gone = pod(status={"phase": "Succeeded"}, deletionTimestamp=NOW)
    assert said(law, gone, run=run) is None
    assert said(law, run=run) == told
    assert said(law, gone, run=run) is None
    run.notes[FORCED] = {"web"}
    assert said(law, run=run) is None
    del run.notes[FORCED]
    assert said(law, pod(status={"phase": "Succeeded"}), run=run) is None
    assert said(law, run=run) is None
    assert said(law, gone, run=run) is None
    published["vol-0"].clear()
    assert said(law, run=run) is None


@pytest.mark.parametrize(("mounted", "known"), [(False, ("vol-0",)), (True, ())])
def test_a_mount_that_was_not_known_when_the_pod_had_ended_may_be_left(mounted, known) -> None:
    law = objects_outlast_their_mounts("apiserver", "driver")
    place = {("n0", "/var/lib/kubelet/pods/web/volumes/pv"): None}
    published: dict[str, Any] = {"vol-0": dict(place) if mounted else {}}
    run = with_mounts(published, *known)
    ended = pod(status={"phase": "Failed"}, deletionTimestamp=NOW)
    assert said(law, ended, run=run) is None
    published["vol-0"].update(place)
    assert said(law, run=run) is None
