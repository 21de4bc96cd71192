"""Clusters with plugins of scheduler-plugins, and their objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from controlplane.client.resources import Resource
from controlplane.cluster import Cluster
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO
from controlplane.scheduler.config.load import load
from controlplane.scheduler.config.user_plugins import registry_with
from controlplane.scheduler_plugins.controller import SchedulerPluginsController
from controlplane.scheduler_plugins.definitions import installation
from tests.test_cluster import cluster_with, plain_pod

EXAMPLES = Path(__file__).parents[2] / "examples" / "scheduler-plugins"
GROUP = "scheduling.x-k8s.io"
POD_GROUPS: Resource = Resource(GROUP, "v1alpha1", "podgroups")
QUOTAS: Resource = Resource(GROUP, "v1alpha1", "elasticquotas")
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"


def configured(plugins: str, args: dict[str, Any] | None = None, name: str = "") -> dict[str, Any]:
    """The fields of a cluster's configuration for a profile with these plugins, in YAML."""
    text = f"{HEAD}- plugins: {plugins}\n"
    if args is not None:
        text += f"  pluginConfig: [{{name: {name}, args: {yaml.safe_dump(args, default_flow_style=True).strip()}}}]\n"
    registry = registry_with()
    return {"scheduler": load(text, registry), "scheduler_plugins": registry}


def coscheduling(**args: Any) -> dict[str, Any]:
    """A scheduler with Coscheduling."""
    plugins = (
        "{multiPoint: {enabled: [{name: Coscheduling}]},"
        " queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: '*'}]}}"
    )
    return configured(plugins, args, "Coscheduling")


def capacity_scheduling() -> dict[str, Any]:
    """A scheduler with CapacityScheduling."""
    plugins = (
        "{multiPoint: {enabled: [{name: CapacityScheduling}]},"
        " postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: '*'}]}}"
    )
    return configured(plugins)


def world(user: Any, config: dict[str, Any], *, installed: bool = True, **more: Any) -> Cluster:
    """A cluster with the custom kinds and their controllers."""
    if installed:
        more = {
            "installed": installation(),
            "own_controllers": (SchedulerPluginsController,),
        } | more
    return cluster_with(user, **config, **more)


def group(name: str, least: int, **spec: Any) -> dict[str, Any]:
    """A PodGroup."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": least, **spec},
    }


def member(name: str, of: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    """A pod of a group."""
    tree = plain_pod(name, **spec)
    tree["metadata"]["labels"] = {f"{GROUP}/pod-group": of}
    tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return tree


def quota(
    namespace: str, least: dict[str, Any], most: dict[str, Any] | None = None
) -> dict[str, Any]:
    """An ElasticQuota, named as its namespace."""
    spec = {"min": least} if most is None else {"min": least, "max": most}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": namespace, "namespace": namespace},
        "spec": spec,
    }


def events(cluster: Cluster, reason: str) -> list[str]:
    """The texts of the events with a reason."""
    found = [obj.tree for obj in cluster.objects("/registry/events/")]
    return [each["message"] for each in found if each["reason"] == reason]


def executed(name: str, config: str, **more: Any) -> Cluster:
    """The cluster after the run of an example."""
    given = {"with": ("scheduler-plugins",), **more}
    if config:
        given["scheduler_config"] = str(EXAMPLES / config)
    run = Execution(plan_of(SCENARIO, files=(str(EXAMPLES / name),), **given))
    run.execute("bare")
    found = summary_of(run)
    assert found.verdict == ("until" if "until" in more else "quiescent"), found.reason
    return run.cluster
