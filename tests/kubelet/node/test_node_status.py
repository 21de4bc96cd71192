from controlplane.api.coordination import Lease
from controlplane.api.core import Node
from controlplane.api.times import SECOND, format_time
from controlplane.kubelet.node import node_status

NOW = 1_767_225_600 * SECOND


def test_a_registered_node_is_ready_and_knows_its_machine():
    tree = node_status.registration("n1", node_status.capacity(cpu="4"), NOW, ip="10.1.0.1")
    node = Node.from_tree(tree)
    assert node.labels["kubernetes.io/hostname"] == "n1"
    assert str(node.status.allocatable["cpu"]) == "4"
    assert [(item.type, item.status) for item in node.status.conditions] == [
        ("MemoryPressure", "False"), ("DiskPressure", "False"),
        ("PIDPressure", "False"), ("Ready", "True"),
    ]  # fmt: skip
    assert node.status.node_info.operating_system == "linux"


def test_a_node_of_a_manifest_keeps_what_it_says():
    given = {
        "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "spec": {"unschedulable": True},
        "status": {"capacity": {"cpu": "4", "pods": "5"}, "allocatable": {"cpu": "3"}},
    }
    node = Node.from_tree(node_status.adopted(given, NOW))
    assert node.labels["zone"] == "a"
    assert node.labels["kubernetes.io/os"] == "linux"
    assert node.spec.unschedulable
    assert str(node.status.allocatable["cpu"]) == "3"
    assert str(node.status.capacity["pods"]) == "5"
    assert node.status.conditions[-1].type == "Ready"


def test_heartbeats_move_and_transitions_stay():
    first = node_status.conditions(NOW)
    later = node_status.conditions(NOW + 10 * SECOND, first)
    assert {item["lastTransitionTime"] for item in later} == {format_time(NOW)}
    assert {item["lastHeartbeatTime"] for item in later} == {format_time(NOW + 10 * SECOND)}
    down = node_status.conditions(NOW + 20 * SECOND, later, not_ready="no network")
    assert down[-1]["reason"] == "KubeletNotReady"
    assert down[-1]["lastTransitionTime"] == format_time(NOW + 20 * SECOND)
    assert down[0]["lastTransitionTime"] == format_time(NOW)


def test_conditions_of_others_are_kept():
    foreign = {"type": "NetworkUnavailable", "status": "False"}
    assert foreign in node_status.conditions(NOW, [foreign])


def test_an_unchanged_status_is_sent_only_now_and_then():
    before = {"conditions": node_status.conditions(NOW)}
    after = {"conditions": node_status.conditions(NOW + SECOND, before["conditions"])}
    assert not node_status.status_due(after, before, NOW + SECOND, NOW)
    assert node_status.status_due(after, before, NOW + 300 * SECOND, NOW)
    changed = {"conditions": node_status.conditions(NOW + SECOND, not_ready="x")}
    assert node_status.status_due(changed, before, NOW + SECOND, NOW)


def test_a_lease_is_renewed_without_touching_the_rest():
    tree = node_status.lease("n1", NOW, node_uid="u")
    again = node_status.renewed(tree, NOW + 10 * SECOND)
    view = Lease.from_tree(again)
    assert view.key == "kube-node-lease/n1"
    assert view.spec.renew_time == NOW + 10 * SECOND
    assert view.spec.lease_duration_seconds == 40
    assert again["metadata"] is tree["metadata"]
