"""Invariants of DaemonSets: each breaks when two daemons meet, or too many are down, and holds otherwise."""

from __future__ import annotations

from typing import Any

from controlplane.api.object import Object
from controlplane.scenarios.invariants.daemonsets import (
    daemons_roll_within_their_limit,
    daemons_wait_for_the_one_before,
)
from tests.scenarios.invariants.stored import StoredRun, made, owned, said

NOW = "2026-01-01T00:00:00Z"
TEMPLATE = {"template": {"spec": {"nodeSelector": {"agent": "yes"}}}}


def daemon(name: str, node: str, phase: str = "Running", **metadata: Any) -> Object:
    return owned("DaemonSet", "agent", name, phase, {"nodeName": node}, **metadata)


def agent(**rolling: Any) -> Object:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, **rolling}}
    return made("DaemonSet", "agent", {**TEMPLATE, "updateStrategy": strategy})


NODES = [made("Node", f"n{number}", labels={"agent": "yes"}) for number in range(3)]


def test_a_daemon_that_begins_where_another_still_is_is_found() -> None:
    law, run = daemons_wait_for_the_one_before("etcd"), StoredRun()
    going = daemon("a", "n0", deletionTimestamp=NOW)
    assert said(law, agent(), *NODES, going, run=run) is None
    assert said(law, agent(), *NODES, going, daemon("b", "n1"), run=run) is None
    assert said(law, agent(), *NODES, going, daemon("c", "n0"), run=run) == (
        "default/c begins on n0, where a still is"
    )


def test_a_daemon_that_ended_and_one_of_a_set_that_surges_are_not_waited_for() -> None:
    law = daemons_wait_for_the_one_before("etcd")
    for owner, phase in ((agent(), "Failed"), (agent(maxSurge=1, maxUnavailable=0), "Running")):
        run, going = StoredRun(), daemon("a", "n0", phase, deletionTimestamp=NOW)
        assert said(law, owner, *NODES, going, run=run) is None
        assert said(law, owner, *NODES, going, daemon("b", "n0"), run=run) is None


def test_a_rollout_that_takes_more_nodes_than_it_may_is_found() -> None:
    law, run = daemons_roll_within_their_limit("etcd"), StoredRun()
    pods = [daemon(f"a{number}", f"n{number}") for number in range(3)]
    going = [daemon(f"a{number}", f"n{number}", deletionTimestamp=NOW) for number in range(3)]
    assert said(law, agent(), *NODES, *pods, run=run) is None
    assert said(law, agent(), *NODES, going[0], *pods[1:], run=run) is None
    assert said(law, agent(), *NODES, *going[:2], pods[2], run=run) == (
        "DaemonSet default/agent has taken its pods down on n0 and n1"
    )


def test_a_node_whose_new_daemon_is_ready_or_that_fits_no_more_does_not_count() -> None:
    law, run = daemons_roll_within_their_limit("etcd"), StoredRun()
    pods = [daemon(f"a{number}", f"n{number}") for number in range(3)]
    going = [daemon(f"a{number}", f"n{number}", deletionTimestamp=NOW) for number in range(3)]
    assert said(law, agent(), *NODES, *pods, run=run) is None
    assert said(law, agent(), *NODES, going[0], *pods[1:], run=run) is None
    new = daemon("b", "n0")
    assert said(law, agent(), *NODES, new, *pods[1:], run=run) is None
    assert said(law, agent(), *NODES, new, going[1], pods[2], run=run) is None
    unfit = [*NODES[:2], made("Node", "n2", labels={"agent": "no"})]
    assert said(law, agent(), *unfit, new, *going[1:], run=run) is None


def test_nothing_is_said_once_a_controller_may_have_forgotten_what_it_wrote() -> None:
    run = StoredRun()
    run.world.faults.injected = {"crash"}
    pods = [daemon("a", "n0", deletionTimestamp=NOW)]
    law = daemons_wait_for_the_one_before("etcd")
    assert said(law, agent(), *NODES, *pods, run=run) is None
    assert said(law, agent(), *NODES, *pods, daemon("b", "n0"), run=run) is None
