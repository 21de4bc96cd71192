"""Whatever faults, the end is the same; and a component that does not try again is found."""

from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.kubelet.pod.status_manager import StatusManager
from controlplane.scenarios.engine.convergence import difference
from tests.chaos import healing
from tests.chaos.settled import BEING_DELETED, settled
from tests.chaos.workloads import WORKLOADS


@pytest.fixture(autouse=True)
def worlds_are_checked() -> None:
    """These runs are long: what every world is searched for is searched for elsewhere."""


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_part_of_the_campaign_heals(replicas: int) -> None:
    for verdict in healing.campaign(4, 40, replicas, "pods"):
        assert not verdict.reason, (verdict.reason, verdict.struck, verdict.command)
        assert verdict.struck


@pytest.mark.parametrize(
    "runs",
    [pytest.param(2, marks=pytest.mark.slow), pytest.param(6, marks=pytest.mark.nightly)],
)
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_workload_heals(name: str, replicas: int, runs: int) -> None:
    for verdict in healing.campaign(runs, 0, replicas, name):
        assert not verdict.reason, (verdict.reason, verdict.struck, verdict.command)


@pytest.mark.slow
def test_a_resize_that_comes_late_does_not_undo_the_next_one() -> None:
    verdict = healing.attempt("pods", 3713138, replicas=3)
    assert not verdict.reason, (verdict.reason, verdict.struck)


@pytest.mark.slow
def test_a_run_is_decided_by_its_seed() -> None:
    one, other = (healing.attempt("pods", 7) for _ in range(2))
    assert one.run.result.trace_hash == other.run.result.trace_hash
    assert one.struck == other.struck
    assert "--workload pods" in one.command
    assert "--seed 7" in one.command


def test_a_kubelet_that_does_not_tell_again_is_found(monkeypatch) -> None:
    monkeypatch.setattr(StatusManager, "to_send", lambda *_: [])
    assert any(each.reason for each in healing.campaign(20, 0, 1, "pods"))


@pytest.mark.slow
def test_the_table_names_what_did_not_heal(monkeypatch, capsys) -> None:
    monkeypatch.setattr(StatusManager, "to_send", lambda *_: [])
    assert healing.main(["--runs", "1", "--seed", "4", "--workload", "pods"]) == 1
    printed = capsys.readouterr().out
    assert "python -m tests.chaos.healing --workload pods --replicas 1 --seed" in printed
    assert "1 runs, " in printed


def _config(uid: str, **more: object) -> Object:
    metadata = {"name": "one", "namespace": "default", **more}
    return Object(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"of": uid}}
    )


def test_who_and_when_is_left_out_wherever_it_stands_and_nothing_else() -> None:
    first, second = "0a1b2c3d-0000-4000-8000-000000000001", "0a1b2c3d-0000-4000-8000-000000000002"
    one = settled([_config(f"pvc-{first} at 10.0.0.1 from 2026-01-01T00:00:00Z")])
    other = settled([_config(f"pvc-{second} at 10.0.3.17 from 2026-01-01T00:00:09Z")])
    assert difference(one, other, {}) is None
    assert difference(one, settled([_config(f"pv-{first}")]), {}) is not None


def test_drawn_names_are_left_out_in_references_too() -> None:
    def world(name: str) -> list[Object]:
        drawn = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "generateName": "web-"},
        }
        return [Object(drawn), _config(name)]

    assert difference(settled(world("web-x")), settled(world("web-y")), {}) is None


def _content(**metadata: object) -> Object:
    named = {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z", **metadata}
    spec = {"volumeSnapshotRef": {"namespace": "default", "name": "s"}}
    return Object({"kind": "VolumeSnapshotContent", "metadata": named, "spec": spec})


def test_only_a_content_that_is_marked_no_more_may_stay() -> None:
    """As upstream leaves one whose mark was kept in the cache and not written."""
    marked = {"annotations": {BEING_DELETED: "yes"}}
    snapshot = Object({"kind": "VolumeSnapshot", "metadata": {"name": "s", "namespace": "default"}})
    assert not settled([_content()])
    assert settled([_content(**marked)])
    assert len(settled([_content(), snapshot])) == 2
    assert settled([_content(deletionTimestamp=None)])
