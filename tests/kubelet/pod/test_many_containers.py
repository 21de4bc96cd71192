"""The kubelet's work for a pod is linear in the number of its containers."""

from __future__ import annotations

import pytest

from controlplane.kubelet.pod import container_runtime, reporting, status
from controlplane.kubelet.pod.container_runtime import Container, Program, Sandbox
from controlplane.kubelet.pod.pleg import PodCache
from tests.kubelet.pod.test_pod_worker import Run, pod_tree

COUNT = 300


@pytest.fixture
def compared(monkeypatch):
    """How often the state of a container was made anew."""
    made = []
    plain = container_runtime.Seen

    def counting(*values):
        made.append(values)
        return plain(*values)

    monkeypatch.setattr(container_runtime, "Seen", counting)
    return made


def test_a_relist_makes_only_the_states_that_changed(compared):
    sandbox = Sandbox("u")
    for number in range(COUNT):
        container = Container(f"c{number}", "i", Program())
        container.start("u", 0)
        sandbox.containers[container.name] = container
    cache = PodCache({"u": sandbox}, 0)
    cache.look_at("u")
    assert cache.relist(1)[0] == ["u"]
    assert len(compared) == COUNT
    for number in range(COUNT):
        sandbox.containers[f"c{number}"].stop(number, 0, 0)
        sandbox.containers[f"c{number}"].settle(number)
        assert cache.due_for("u", number) == number
        cache.look_at("u")
        assert cache.relist(number)[0] == ["u"]
    assert len(compared) == 2 * COUNT


def test_a_state_is_another_one_after_every_change():
    container = Container("c", "i", Program())
    states = [container.seen()]
    container.start("u", 0)
    states.append(container.seen())
    container.resources = {"limits": {"cpu": "1"}}
    states.append(container.seen())
    container.stop(1, 0, 0)
    assert container.seen() is states[-1]
    container.settle(1)
    states.append(container.seen())
    container.start("u", 2)
    states.append(container.seen())
    assert len({id(each) for each in states}) == len(set(map(repr, states))) == 5


def test_a_report_reads_the_containers_of_the_pod_once(monkeypatch):
    run = Run(pod_tree([f"c{number}" for number in range(COUNT)]))
    read = []
    plain = reporting.container_trees
    monkeypatch.setattr(reporting, "container_trees", lambda pod: read.append(pod) or plain(pod))
    assert len(run.worker.reports()) == COUNT
    assert len(read) == 1


def test_conditions_that_go_are_deleted_by_type():
    old = [{"type": f"t{number}", "status": "True"} for number in range(3)]
    patch = status.status_patch({"conditions": old}, {"conditions": old[1:]})
    assert patch["conditions"] == [{"$patch": "delete", "type": "t0"}]
    addresses = [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]
    patch = status.status_patch({"podIPs": addresses}, {"podIPs": addresses[1:]})
    assert patch["podIPs"] == [{"$patch": "delete", "ip": "10.0.0.1"}]
