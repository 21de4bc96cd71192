"""The configuration mux: what is new, gone or changed, by uid and in upstream's order."""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.kubelet.pod.pod_config import (
    ADD,
    API,
    DELETE,
    FILE,
    RECONCILE,
    REMOVE,
    UPDATE,
    PodConfig,
)


def pod(name: str, uid: str, *, phase: str = "Pending", node: str = "n", **metadata) -> Object:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": uid, **metadata},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }
    return Object(tree)


def told(updates) -> list[tuple[str, list[str]]]:
    return [(update.operation, [each.uid for each in update.pods]) for update in updates]


def test_a_push_tells_what_changed_since_the_last() -> None:
    config = PodConfig()
    same = pod("same", "0")
    assert told(config.push(API, [same, pod("a", "1"), pod("b", "2"), pod("c", "3")])) == [
        (ADD, ["0", "1", "2", "3"])
    ]
    now = [
        same,
        pod("a", "4"),
        pod("b", "2", phase="Running"),
        pod("c", "3", labels={"new": "one"}),
        pod("d", "5", deletionTimestamp="2026-01-01T00:00:00Z"),
    ]
    assert told(config.push(API, now)) == [
        (REMOVE, ["1"]),
        (ADD, ["4", "5"]),
        (UPDATE, ["3"]),
        (RECONCILE, ["2"]),
    ]
    gone = pod("c", "3", labels={"new": "one"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert told(config.push(API, [*now[:3], gone, now[4]])) == [(DELETE, ["3"])]


def test_a_recreated_pod_is_one_that_went_and_one_that_came() -> None:
    config = PodConfig()
    old, new = pod("a", "1"), pod("a", "2")
    config.push(API, [old])
    assert told(config.change(API, old, new)) == [(REMOVE, ["1"]), (ADD, ["2"])]
    assert told(config.change(API, new, None)) == [(REMOVE, ["2"])]
    assert config.change(API, new, None) == []


def test_changes_one_by_one_tell_what_one_push_tells() -> None:
    one, other = PodConfig(), PodConfig()
    before = [pod("a", "1"), pod("b", "2")]
    one.push(API, before)
    other.push(API, before)
    after = pod("a", "1", phase="Running")
    assert told(one.push(API, [after, before[1]])) == told(other.change(API, before[0], after))


def test_the_first_push_tells_that_the_source_is_there() -> None:
    config = PodConfig((API, FILE))
    assert config.sources == (API, FILE)
    assert told(config.push(API, [])) == [(ADD, [])]
    assert told(config.push(API, [])) == []
    assert told(config.push(FILE, [pod("static", "9")])) == [(ADD, ["9"])]
    assert (config.heard(API), PodConfig().heard(API)) == (True, False)
