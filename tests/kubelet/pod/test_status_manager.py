"""The status manager: versions, what is to be sent, and what is written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.kubelet.pod.status import OWN_CONDITIONS
from controlplane.kubelet.pod.status_manager import StatusManager, can_be_deleted, differs, merged
from controlplane.sharing.alike import alike, alike_list
from tests.kubelet.pod.test_pod_config import pod

POD = pod("a", "1").view


def condition(kind: str, status: str = "True", **more) -> dict:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z", **more}


def test_what_did_not_change_is_not_sent_again() -> None:
    statuses = StatusManager()
    assert statuses.set(POD, {"phase": "Pending"})
    assert not statuses.set(POD, {"phase": "Pending"})
    (told,) = statuses.unsent()
    statuses.sent(told, told.uid)
    assert statuses.unsent() == []
    assert statuses.set(POD, {"phase": "Running"})
    assert [each.version for each in statuses.unsent()] == [2]


def test_a_change_while_another_is_sent_is_still_to_be_sent() -> None:
    statuses = StatusManager()
    statuses.set(POD, {"phase": "Pending"})
    (told,) = statuses.unsent()
    statuses.set(POD, {"phase": "Running"})
    statuses.sent(told, told.uid)
    assert [each.status for each in statuses.unsent()] == [{"phase": "Running"}]


def test_a_full_pass_repairs_what_others_wrote() -> None:
    statuses = StatusManager()
    said = {"phase": "Running", "conditions": [condition("Ready")]}
    statuses.set(POD, said)
    told = statuses.unsent()[0]
    statuses.sent(told, told.uid)
    shown = pod("a", "1", phase="Running")
    shown.tree["status"] = {**said, "conditions": [condition("Ready"), condition("Other")]}
    assert statuses.to_send([("1", shown.view)]) == []
    marked = pod("a", "1", phase="Running")
    marked.tree["status"] = {**said, "conditions": [condition("Ready", "False")]}
    assert [each.uid for each in statuses.to_send([("1", marked.view)])] == ["1"]
    statuses.keep_only([])
    assert statuses.get("1") is None


def test_a_pod_goes_when_nothing_of_it_is_left() -> None:
    statuses = StatusManager()
    going = pod("a", "1", phase="Failed", deletionTimestamp="2026-01-01T00:00:00Z").view
    statuses.set(going, {"phase": "Failed"})
    assert not can_be_deleted(going, statuses.unsent()[0])
    statuses.terminate(going)
    assert can_be_deleted(going, statuses.unsent()[0])
    assert not can_be_deleted(POD, statuses.unsent()[0])
    mirror = {"kubernetes.io/config.mirror": "hash"}
    static = pod(
        "a", "1", phase="Failed", deletionTimestamp="2026-01-01T00:00:00Z", annotations=mirror
    )
    assert not can_be_deleted(static.view, statuses.unsent()[0])


KINDS = st.sampled_from(["Ready", "Initialized", "PodScheduled", "Other", "DisruptionTarget"])
STATUSES = st.builds(
    lambda phase, kinds: {
        "phase": phase,
        "conditions": [condition(kind, status) for kind, status in sorted(kinds.items())],
    },
    st.sampled_from(["Pending", "Running", "Failed"]),
    st.dictionaries(KINDS, st.sampled_from(["True", "False"])),
)


@given(STATUSES, STATUSES)
def test_what_is_written_is_the_kubelets_with_the_conditions_of_others(api, known) -> None:
    found = merged(api, known)
    by_type = {item["type"]: item for item in found["conditions"]}
    assert len(by_type) == len(found["conditions"])
    for item in known["conditions"]:
        if item["type"] in ("Ready", "Initialized", "PodScheduled", "DisruptionTarget"):
            assert by_type[item["type"]] == item
    for item in api["conditions"]:
        if item["type"] == "Other":
            assert by_type["Other"] == item
    if api["phase"] == "Failed":
        assert found["phase"] == "Failed"
    else:
        assert not differs(found, merged(found, known))


def plainly_differs(api, known) -> bool:
    """What `differs` says, the long way: everything that is the kubelet's, side by side."""

    def own(status):
        conditions = sorted(
            (
                {key: item.get(key) for key in ("type", "status", "reason", "message")}
                for item in status.get("conditions") or ()
                if item["type"] in OWN_CONDITIONS
            ),
            key=lambda item: item["type"],
        )
        others = ("nominatedNodeName", "resourceClaimStatuses", "extendedResourceClaimStatus")
        rest = {key: value for key, value in status.items() if key not in others}
        return {**rest, "conditions": conditions}

    return own(api) != own(known)


SHOWN = st.builds(
    lambda status, shared, more: {
        **status,
        **more,
        "conditions": alike_list([alike(item) for item in status["conditions"]])
        if shared
        else status["conditions"],
    },
    STATUSES,
    st.booleans(),
    st.dictionaries(st.sampled_from(("hostIP", "nominatedNodeName", "podIP")), st.just("x")),
)


@given(SHOWN, SHOWN)
def test_what_differs_is_what_is_not_the_same_side_by_side(api, known) -> None:
    assert differs(api, known) == plainly_differs(api, known)
    without = {key: value for key, value in known.items() if key != "conditions"}
    assert differs(api, without) == plainly_differs(api, without)


def test_the_tree_that_the_api_server_shows_takes_the_place_of_an_equal_one() -> None:
    statuses = StatusManager()
    said, shown = ({"phase": "Pending", "podIP": "10.0.0.1"} for _ in range(2))
    statuses.set(POD, said)
    (told,) = statuses.unsent()
    assert statuses.agreed(told, shown)
    assert statuses.get("1") is shown
    assert [each.version for each in statuses.unsent()] == [told.version]
    assert not statuses.set(POD, said)


def test_what_is_shown_otherwise_or_said_since_stays() -> None:
    statuses = StatusManager()
    said = {"phase": "Pending"}
    statuses.set(POD, said)
    (told,) = statuses.unsent()
    assert not statuses.agreed(told, {"phase": "Running"})
    assert statuses.get("1") is said
    newer = {"phase": "Running"}
    statuses.set(POD, newer)
    assert not statuses.agreed(told, {"phase": "Pending"})
    assert statuses.get("1") is newer
