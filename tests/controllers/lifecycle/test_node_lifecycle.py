from __future__ import annotations

import pytest

from controlplane.api.coordination import Lease
from controlplane.api.request import Response
from controlplane.api.times import SECOND, format_micro_time, format_time
from controlplane.apiserver.schema.status import ApiError
from controlplane.client.resources import NODES
from controlplane.cluster_config import APISERVER, CONTROLLER_MANAGER
from controlplane.controllers.lifecycle import node_lifecycle as lifecycle
from controlplane.controllers.lifecycle.node_lifecycle import HealthBook
from tests.controllers.builders import NOW, node, pod
from tests.controllers.worlds import Small

GRACE = lifecycle.MONITOR_GRACE_NS
STARTUP = lifecycle.STARTUP_GRACE_NS


def taint(name, effect="NoSchedule"):
    return {"key": f"node.kubernetes.io/{name}", "effect": effect}


def lease(renewed: int) -> Lease:
    return Lease.from_tree(
        {"metadata": {"name": "n"}, "spec": {"renewTime": format_micro_time(renewed)}}
    )


def keys(pairs):
    return [key.removeprefix("node.kubernetes.io/") for key, _ in pairs]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"Ready": "True"}, []),
        ({"Ready": "False"}, ["not-ready"]),
        ({"Ready": "Unknown"}, ["unreachable"]),
        ({"Ready": "True", "MemoryPressure": "True"}, ["memory-pressure"]),
        ({"DiskPressure": "True", "PIDPressure": "True"}, ["disk-pressure", "pid-pressure"]),
        ({"NetworkUnavailable": "True", "MemoryPressure": "False"}, ["network-unavailable"]),
    ],
)
def test_no_schedule_taints_follow_conditions(conditions, expected):
    change = lifecycle.scheduling_taints(node(conditions=conditions))
    assert keys(change.add) == expected
    assert change.remove == ()


def test_a_registered_node_becomes_schedulable_once_it_is_ready():
    change = lifecycle.scheduling_taints(node(taints=[taint("not-ready")]))
    assert change == ((), (("node.kubernetes.io/not-ready", "NoSchedule"),))


def test_cordoning_taints_and_foreign_taints_stay():
    foreign = {"key": "dedicated", "effect": "NoSchedule"}
    cordoned = node(unschedulable=True, taints=[foreign, taint("unreachable", "NoExecute")])
    assert keys(lifecycle.scheduling_taints(cordoned).add) == ["unschedulable"]
    assert lifecycle.scheduling_taints(cordoned).remove == ()


def test_a_taint_set_again_gets_a_new_time_in_its_place():
    taints = [taint("not-ready"), taint("memory-pressure")]
    changed = lifecycle.with_taints(taints, [("node.kubernetes.io/not-ready", "NoSchedule")], NOW)
    assert [each["key"] for each in changed] == [each["key"] for each in taints]
    assert changed[0]["timeAdded"] == format_time(NOW)
    assert lifecycle.without_taints(changed, [(taints[1]["key"], "NoSchedule")]) == changed[:1]


def test_the_two_eviction_taints_exclude_each_other():
    assert lifecycle.eviction_taints("True") is None
    change = lifecycle.eviction_taints("Unknown")
    assert (keys(change.add), keys(change.remove)) == (["unreachable"], ["not-ready"])
    change = lifecycle.eviction_taints("False")
    assert (keys(change.add), keys(change.remove)) == (["not-ready"], ["unreachable"])


def test_a_node_that_falls_silent_is_judged_after_the_grace_period():
    book = HealthBook()
    silent = node(conditions={"Ready": "True", "MemoryPressure": "False"})
    assert book.probe(silent, None, NOW).conditions is None
    assert book.probe(silent, None, NOW + GRACE).conditions is None
    probe = book.probe(silent, None, NOW + GRACE + 1)
    assert (probe.before, probe.after) == ("True", "Unknown")
    found = {
        each["type"]: (each["status"], each["reason"], each["message"]) for each in probe.conditions
    }
    stopped = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    never = ("Unknown", "NodeStatusNeverUpdated", "Kubelet never posted node status.")
    assert found == {
        "Ready": stopped,
        "MemoryPressure": stopped,
        "DiskPressure": never,
        "PIDPressure": never,
    }
    assert book.is_down("n")


def test_a_heartbeat_or_a_renewed_lease_keeps_a_node_alive():
    book = HealthBook()
    book.probe(node(), lease(NOW), NOW)
    at = NOW + GRACE
    assert book.probe(node(), lease(NOW + 10 * SECOND), at).conditions is None
    assert book.probe(node(), lease(NOW + 10 * SECOND), at + GRACE).conditions is None
    beating = node(heartbeat=NOW + 20 * SECOND)
    assert book.probe(beating, lease(NOW + 10 * SECOND), at + GRACE + 1).conditions is None
    # After a heartbeat the lease, though not renewed, counts once more.
    assert book.probe(beating, lease(NOW + 10 * SECOND), at + 2 * GRACE + 2).conditions is None
    assert book.probe(beating, lease(NOW + 10 * SECOND), at + 3 * GRACE + 3).conditions is not None


def test_only_the_controllers_own_clock_counts():
    book = HealthBook()
    old = node(heartbeat=NOW - 3600 * SECOND)
    assert book.probe(old, lease(NOW - 3600 * SECOND), NOW).conditions is None


def test_a_new_node_without_conditions_has_the_startup_grace_period():
    book = HealthBook()
    fresh = node(conditions={})
    probe = book.probe(fresh, None, NOW + STARTUP)
    assert (probe.before, probe.after, probe.conditions) == ("Unknown", None, None)
    probe = book.probe(fresh, None, NOW + STARTUP + 1)
    assert probe.after == "Unknown"
    assert {each["reason"] for each in probe.conditions} == {"NodeStatusNeverUpdated"}


def test_a_node_known_to_be_silent_is_not_written_again():
    book = HealthBook()
    unknown = node(conditions={"Ready": "Unknown"})
    book.probe(unknown, None, NOW)
    probe = book.probe(unknown, None, NOW + 10 * GRACE)
    assert (probe.before, probe.after, probe.conditions) == ("Unknown", "Unknown", None)


def test_clocks_can_be_restarted():
    book = HealthBook()
    book.probe(node(), None, NOW)
    book.restart_clocks(NOW + GRACE)
    assert book.probe(node(), None, NOW + 2 * GRACE).conditions is None


def test_pods_of_a_node_that_is_down_are_not_ready():
    (changed,) = lifecycle.not_ready_conditions(pod("a"), NOW)
    assert (changed["status"], changed["lastTransitionTime"]) == ("False", format_time(NOW))
    assert lifecycle.not_ready_conditions(pod("a", ready=False), NOW) is None
    assert lifecycle.not_ready_conditions(pod("a", ready=None), NOW) is None


def test_zones_and_old_labels():
    labels = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z"}
    assert lifecycle.zone_of(node(labels=labels)) == "r:\x00:z"
    assert lifecycle.zone_of(node()) == ""
    labels = {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "other"}
    assert lifecycle.missing_labels(node(labels=labels)) == {"beta.kubernetes.io/os": "linux"}


def test_a_conflict_when_the_node_is_read_is_tried_again_as_one_when_it_is_written():
    """Upstream retries both as one; nothing else looks at the node before its next change."""

    async def cordon(client, ctx):
        await client.patch(NODES, "", "node-1", {"spec": {"unschedulable": True}})
        conflict = ApiError(409, "Conflict", "the object has been modified", {})
        answer = Response(conflict.code, conflict.tree)
        ctx.faults.intercept(CONTROLLER_MANAGER, APISERVER, answer, count=2, label="409")

    small = Small((), 5, cordon, nodes=1).run()
    assert [taint.key for taint in small.one("minions").spec.taints] == [lifecycle.UNSCHEDULABLE]
