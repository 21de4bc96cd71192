"""The device manager's decisions: NUMA hints, alignment, restarts, and the checkpoint file."""

from __future__ import annotations

import pytest

from controlplane.api.pod import Pod
from controlplane.decisions import Write
from controlplane.kubelet.cm.devicemanager.hints import by_affinity, device_hints
from controlplane.kubelet.cm.devicemanager.manager import GRACE_NS, DeviceManager
from controlplane.kubelet.cm.devicemanager.plugin import Listed, PluginDevice, plugins_of_node
from controlplane.kubelet.cm.devicemanager.pod_devices import DeviceState, Entry, restored
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.invariants import device_violations
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.cm.topologymanager.hints import TopologyHint
from controlplane.kubelet.effects import Step, Steps

GPU = "example.com/gpu"
FOUR = plugins_of_node(
    {"metadata": {"annotations": {"emulate.controlplane/device-plugins": f"{GPU}=4@0,1"}}}
)[GPU].devices


def pod(uid: str, count: int) -> Pod:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: str(count)}}}
    return Pod.from_tree(
        {"metadata": {"name": uid, "uid": uid}, "spec": {"containers": [container]}}
    )


class Manager:
    """A manager with its active pods, and what is decided about NUMA nodes."""

    def __init__(self, *, ready: bool = True, running: bool = False) -> None:
        self.active: list[Pod] = []
        self.now = 0
        self.hint = TopologyHint()
        self.manager = DeviceManager(
            (0, 1),
            lambda _uid, _container: self.hint,
            KubeletView(lambda: self.active, lambda: ready),
            lambda: self.now,
            lambda _uid, _container: running,
        )

    def list(self, devices: tuple[PluginDevice, ...] = FOUR) -> None:
        done(self.manager.listed(GPU, Listed(devices, False)))

    def allocate(self, uid: str, count: int) -> tuple[str, ...]:
        asked = pod(uid, count)
        self.active.append(asked)
        done(self.manager.allocate(asked, asked.spec.containers[0]))
        owned = self.manager.owned.get(Entry(uid, "c", GPU), {})
        return tuple(each for ids in owned.values() for each in ids)


def done(steps: Steps[None]) -> list[Step]:
    return list(steps)


def test_devices_are_spread_over_numa_nodes() -> None:
    assert [each.numa for each in FOUR] == [(0,), (0,), (1,), (1,)]


def test_hints_prefer_the_fewest_nodes_that_could_ever_do() -> None:
    known = {each.id: each for each in FOUR}
    two = device_hints(known, (0, 1), known, (), 2)
    assert two == [(1, True), (2, True), (3, False)]
    assert device_hints(known, (0, 1), known, (), 3) == [(3, True)]
    busy = device_hints(known, (0, 1), ["device-0", "device-2"], (), 2)
    assert busy == [(3, False)]
    assert device_hints(known, (0, 1), known, ["device-3"], 1) == [(2, True), (3, False)]


def test_devices_near_the_decided_node_come_first() -> None:
    made = Manager()
    made.list()
    made.hint = TopologyHint(0b10, True)
    assert made.allocate("a", 3) == ("device-2", "device-3", "device-0")
    known = {each.id: each for each in FOUR}
    assert by_affinity(known, None, known)[2] == tuple(known)


def test_what_cannot_be_allocated_is_told_as_upstream_tells_it() -> None:
    made = Manager()
    made.manager.start(DeviceState(registered={GPU: ("device-0",)}).text)
    with pytest.raises(ManagerError, match="no healthy devices present; cannot allocate unhealthy"):
        made.allocate("a", 1)
    made.list()
    made.allocate("b", 1)
    made.list((PluginDevice("device-0", healthy=False), PluginDevice("device-1")))
    with pytest.raises(ManagerError, match="previously allocated devices are no longer healthy"):
        made.allocate("b", 1)
    with pytest.raises(ManagerError, match=f'changed request for resource "{GPU}" from 1 to 2'):
        made.allocate("b", 2)


def test_a_container_that_runs_across_a_restart_is_left_alone() -> None:
    made = Manager(ready=False, running=True)
    made.manager.start(DeviceState({Entry("a", "c", GPU): {-1: ("device-0",)}}).text)
    assert made.allocate("a", 1) == ("device-0",)
    strict = Manager(ready=False)
    strict.manager.start(DeviceState({Entry("a", "c", GPU): {-1: ("device-0",)}}).text)
    with pytest.raises(ManagerError, match="cannot allocate unregistered device"):
        strict.allocate("a", 1)


def test_a_resource_outlives_its_plugin_for_five_minutes() -> None:
    made = Manager()
    made.list()
    made.manager.disconnected(GPU)
    assert made.manager.amounts() == ({GPU: "4"}, {GPU: "0"})
    made.now = GRACE_NS
    assert done(made.manager.remove_expired()) == []
    made.now = GRACE_NS + 1
    (write,) = done(made.manager.remove_expired())
    assert isinstance(write, Write)
    assert made.manager.amounts() == ({GPU: "0"}, {GPU: "0"})


def test_the_file_is_read_back_and_a_damaged_one_is_refused() -> None:
    state = DeviceState({Entry("a", "c", GPU): {0: ("x", "y"), 1: ("y",)}}, {GPU: ("x", "y", "z")})
    assert restored(state.text) == state
    made = Manager()
    assert "checkpoint is corrupted" in made.manager.start(state.text.replace('"z"', '"q"'))
    assert not made.manager.owned


def test_a_device_with_two_owners_is_a_violation() -> None:
    twice = {Entry("a", "c", GPU): {-1: ("x",)}, Entry("b", "c", GPU): {-1: ("x",)}}
    assert device_violations(DeviceState(twice)) == [f"{GPU} x belongs to pods a and b"]
    shared = {Entry("a", "c", GPU): {-1: ("x",)}, Entry("a", "d", GPU): {-1: ("x",)}}
    assert device_violations(DeviceState(shared)) == []
