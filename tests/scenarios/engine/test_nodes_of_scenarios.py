"""The nodes of a scenario and its other parts are chosen apart."""

from __future__ import annotations

import pytest

from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.scenarios import Scenario
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of


async def _nothing(_user) -> None:
    pass


def _bare(_setting) -> ClusterConfig:
    return ClusterConfig(kubelets=False, controllers=False)


def _own(setting) -> list:
    return [node_tree(f"own-{number}") for number in range(setting["nodes"] or 0)]


def _names(**fields) -> list[str]:
    asked = fields.pop("asked", {})
    plan = plan_of(Scenario("mine", workload=_nothing, **fields), **asked)
    return [tree["metadata"]["name"] for tree in plan.configure().nodes]


@pytest.mark.parametrize("build", [{}, {"build": _bare}], ids=["every part", "few parts"])
def test_nodes_are_those_of_the_options_unless_named(build):
    assert _names(**build) == ["node-1", "node-2"]
    assert _names(**build, asked={"nodes": 3}) == ["node-1", "node-2", "node-3"]
    assert _names(**build, nodes=_own) == ["own-0", "own-1"]
    assert _names(**build, nodes=lambda _setting: ()) == []


def test_a_configuration_may_name_its_nodes_or_have_none():
    assert _names(build=lambda _s: ClusterConfig(nodes=[node_tree("a")])) == ["a"]
    assert _names(build=lambda _s: ClusterConfig(nodes=())) == []
    assert _names(build=lambda _s: ClusterConfig(nodes=[node_tree("a")]), nodes=_own) == [
        "own-0", "own-1",
    ]  # fmt: skip


def test_the_nodes_register_without_kubelets():
    run = Execution(plan_of(Scenario("mine", workload=_nothing, build=_bare), nodes=3))
    run.execute("bare")
    assert len(summary_of(run).nodes) == 3


def test_a_cluster_without_a_scenario_has_no_nodes_of_its_own():
    cluster = Cluster(ClusterConfig(controllers=False))
    assert not [name for name in cluster.components() if name.startswith("node-")]
