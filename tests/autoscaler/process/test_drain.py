"""The drain of a node: which pods are evicted, what is tried again, when it fails."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.pod import Pod
from controlplane.autoscaler.options import SECOND
from controlplane.autoscaler.process.drain import Drainer, DrainFailed
from controlplane.autoscaler.process.settings import Settings
from controlplane.client.errors import ApiError
from controlplane.decisions import Sleep, Together


class Server:
    """A server that refuses evictions a number of times; pods stay until they were looked at a number of times."""

    def __init__(self, refusals: int = 0, looks: int = 0) -> None:
        self.now = 0
        self.refusals = refusals
        self.looks = looks
        self.evicted: list[tuple[str, int]] = []
        self.slept: list[str] = []
        self.told: list[tuple[str, str]] = []

    def report(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.told.append((about.name, message))

    def run(self, decision: Any) -> None:
        """Carry a decision out; parts that run side by side come one after the other."""
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = decision.send(answer) if failure is None else decision.throw(failure)
            except StopIteration as stop:
                self.result = stop.value
                return
            answer = failure = None
            if isinstance(effect, Together):
                answer = []
                for part in effect.parts:
                    self.run(part)
                    answer.append(self.result)
            elif isinstance(effect, Sleep):
                self.now += effect.duration_ns
                self.slept.append(effect.point)
            else:
                try:
                    answer = self._call(effect)
                except ApiError as error:
                    failure = error

    def _call(self, call: Any) -> Any:
        if call.verb == "create":
            if self.refusals:
                self.refusals -= 1
                raise ApiError(429, {"message": "budget"})
            seconds = call.body["deleteOptions"]["gracePeriodSeconds"]
            self.evicted.append((call.name, seconds))
            return None
        if self.looks:
            self.looks -= 1
            return type("Found", (), {"view": pod(call.name)})
        raise ApiError(404, {"message": "not found"})


def pod(
    name: str,
    *,
    owner: str = "ReplicaSet",
    grace: int | None = None,
    priority: int | None = None,
    **notes: str,
) -> Pod:
    owners = [{"kind": owner, "name": "o", "uid": "o", "controller": True}]
    spec: dict[str, Any] = {"nodeName": "n"}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    if priority is not None:
        spec["priority"] = priority
    meta = {"name": name, "namespace": "d", "ownerReferences": owners, "annotations": notes}
    return Pod.from_tree({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


def drainer(server: Server, **settings: Any) -> Drainer:
    return Drainer(Settings(**settings), lambda: server.now, server.report)


def test_pods_are_evicted_with_their_grace_up_to_the_greatest():
    server = Server(looks=2)
    long = drainer(server, max_graceful_termination=60 * SECOND)
    server.run(long.drain("n", [pod("a"), pod("b", grace=5), pod("c", grace=600)]))
    assert server.evicted == [("a", 30), ("b", 5), ("c", 60)]
    assert server.slept == ["autoscaler.drain"] * 2
    assert long.counts == {"succeeded": 3, "failed": 0}


def test_a_refused_eviction_is_tried_again():
    server = Server(refusals=2)
    server.run(drainer(server).drain("n", [pod("a")]))
    assert server.slept == ["autoscaler.evict"] * 2
    assert server.evicted == [("a", 30)]


def test_a_drain_fails_when_an_eviction_is_refused_for_too_long():
    server = Server(refusals=100)
    failing = drainer(server)
    with pytest.raises(DrainFailed) as error:
        server.run(failing.drain("n", [pod("a")]))
    told = "failed to evict pod d/a within allowed timeout (last error: budget)"
    assert str(error.value) == f"Failed to drain node /n, due to following errors: [{told}]"
    assert server.now == 120 * SECOND
    assert ("a", "failed to delete pod for ScaleDown") in server.told
    assert failing.counts == {"succeeded": 0, "failed": 1}


def test_a_drain_fails_when_a_pod_stays():
    server = Server(looks=1000)
    with pytest.raises(DrainFailed, match="pods remaining after timeout"):
        server.run(drainer(server).drain("n", [pod("a")]))
    assert server.now == 630 * SECOND


def test_pods_of_daemon_sets_are_evicted_as_options_and_annotations_say():
    key = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
    daemons = [
        pod("plain", owner="DaemonSet"),
        pod("yes", owner="DaemonSet", **{key: "true"}),
        pod("no", owner="DaemonSet", **{key: "false"}),
    ]
    occupied = Server()
    occupied.run(drainer(occupied).drain("n", daemons))
    assert [name for name, _ in occupied.evicted] == ["plain", "yes"]
    empty = Server()
    empty.run(drainer(empty).evict_daemon_sets("n", daemons))
    assert [name for name, _ in empty.evicted] == ["yes"]
    mirror = pod("mirror", **{"kubernetes.io/config.mirror": "x"})
    none = Server()
    none.run(drainer(none).drain("n", [mirror]))
    assert none.evicted == []


def test_with_priorities_the_lowest_go_first_and_each_group_is_waited_for():
    server = Server(looks=1)
    limits = ((0, 60), (1000, 20))
    going = [
        pod("high", priority=5000, grace=100),
        pod("middle", priority=1000),
        pod("low", priority=999, grace=100),
        pod("lowest", priority=-9),
        pod("daemon", owner="DaemonSet", priority=2000),
    ]
    server.run(drainer(server, drain_priorities=limits).drain("n", going))
    assert server.evicted == [
        ("low", 60),
        ("lowest", 30),
        ("high", 20),
        ("middle", 20),
        ("daemon", 20),
    ]
    assert server.slept == ["autoscaler.drain"]


def test_a_group_that_stays_keeps_the_next_one_where_it_is():
    server = Server(looks=1000)
    limits = ((0, 60), (1000, 20))
    with pytest.raises(DrainFailed, match="pods remaining after timeout"):
        server.run(
            drainer(server, drain_priorities=limits).drain(
                "n", [pod("high", priority=2000), pod("low")]
            )
        )
    assert [name for name, _ in server.evicted] == ["low"]
    assert server.now == 90 * SECOND
