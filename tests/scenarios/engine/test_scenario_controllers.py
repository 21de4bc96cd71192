"""The controllers that a scenario asks for."""

from __future__ import annotations

import textwrap

import pytest

from controlplane.cluster import Cluster, ClusterConfig
from controlplane.controllers.common.selection import STANDARD
from controlplane.errors import UsageError
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.scenario import Scenario
from tests.cli.test_run import controlplane


async def nothing(_user):
    """Do nothing."""


@pytest.mark.parametrize("asked", ["statefulset, job", ("statefulset", "job")])
def test_a_scenario_names_its_controllers_in_one_line(asked):
    plan = plan_of(Scenario("mine", workload=nothing, controllers=asked))
    assert plan.configure().enabled_controllers == (*STANDARD, "statefulset", "job")
    assert len(plan.configure().nodes) == 2


def test_the_option_takes_the_place_of_a_scenarios_controllers():
    plan = plan_of(Scenario("mine", workload=nothing, controllers="job"), controllers="cronjob")
    assert plan.configure().enabled_controllers == ("cronjob",)


def test_an_unknown_controller_is_refused_when_the_scenario_is_made():
    with pytest.raises(
        UsageError,
        match="'mine': controllers: no controller 'statefulsets'; did you mean statefulset",
    ):
        Scenario("mine", workload=nothing, controllers="statefulsets")


def test_a_cluster_takes_one_text_as_a_list_and_refuses_unknown_names_at_once():
    assert ClusterConfig(enabled_controllers="statefulset").enabled_controllers == ("statefulset",)
    with pytest.raises(UsageError, match="enabled_controllers: no controller 'sts'"):
        Cluster(ClusterConfig(enabled_controllers="sts"))


def test_a_search_names_objects_without_a_controller(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        textwrap.dedent(
            '''
            """A stateful set in a world without its controller."""
            from controlplane.scenarios import Scenario

            async def workload(user):
                labels = {"app": "a"}
                await user.create({
                    "apiVersion": "apps/v1", "kind": "StatefulSet",
                    "metadata": {"name": "a", "namespace": "default"},
                    "spec": {"selector": {"matchLabels": labels}, "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "c", "image": "i"}]}}}})

            SCENARIO = Scenario("mine", workload=workload)
            '''
        )
    )
    done = controlplane("explore", path, "--schedules", 2, "--jobs", 1)
    assert done.returncode == 0, done.stderr
    assert "only kept, as nothing here acts on them: StatefulSet.apps (1)" in done.stdout
