"""What a recording says of the options it was made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios.engine.plan import difference, plan_of
from controlplane.scenarios.engine.systems import SYSTEMS
from controlplane.scenarios.inputs import reading
from controlplane.scenarios.manifest_run import SCENARIO

EXAMPLES = Path(__file__).parents[2] / "examples"
SHOP = (str(EXAMPLES / "shop.yaml"),)


def header(**options):
    return plan_of(SCENARIO, **{"files": SHOP, **options}).header()


OTHER = {
    "max_pods": 1000,
    "explain_scheduling": True,
    "with": ("descheduler",),
    "descheduler_policy": str(Path(__file__).with_name("another_policy.yaml")),
    "stages": (str(EXAMPLES / "kwok" / "stages.yaml"),) * 2,
    "enable_crds": ("Logs", "ClusterLogs"),
    "node_groups": str(EXAMPLES / "cluster-autoscaler" / "zone-groups.yaml"),
    "descheduling_interval": 60.0,
    "topology_interval": 30.0,
    "descheduler_dry_run": True,
    "descheduler_plugin": (str(EXAMPLES / "descheduler" / "maintenance.py"),),
    "deschedulers": 2,
    "cluster_autoscalers": 2,
    "kueue_replicas": 2,
    "kueue_job": (str(EXAMPLES / "kueue" / "jobset" / "jobset.py"),),
    "own_controller": (str(EXAMPLES / "kueue" / "jobset" / "controller.py"),),
    "appgroup_controller": True,
    "networktopology_controller": True,
    "kueue_config": str(EXAMPLES / "kueue" / "config.yaml"),
    "scheduler_config": str(EXAMPLES / "scheduler_config.yaml"),
    "scheduler_plugin": (str(EXAMPLES / "scheduler_plugin.py"),),
    "kubelet_config": str(EXAMPLES / "cpu-manager-kubelet.yaml"),
    "machine": "cores=8",
    "apiservers": 2,
    "schedulers": 2,
    "controller_managers": 2,
    "controllers": "*,-job",
    "without": "scheduler",
    "admission": "*,-Priority",
    "cache_lag": 0.5,
    "feature_gates": ("SchedulerAsyncPreemption=false",),
    "nodes": 7,
    "node_cpu": "3",
    "node_memory": "1Gi",
    "heartbeats": False,
    "kubelet_events": False,
    "informers": "split",
    "plan": ("lose answer user create pods",),
    "until": 5.0,
    "all_at_once": True,
    "release": "1.33",
    "without_fix": ("138324",),
    "fix": ("141255",),
    "files": (str(EXAMPLES / "pods.csv"),),
}


def test_the_table_above_has_every_option_but_who_answers():
    assert {option.key for option in SCENARIO.all_options} - {
        "fair_after",
        "seed",
        "strategy",
    } == set(OTHER)


NEEDED: dict[str, Any] = {
    "descheduler_policy": str(EXAMPLES / "descheduler" / "policy.yaml"),
    "stages": (str(EXAMPLES / "kwok" / "stages.yaml"),),
    "node_groups": str(EXAMPLES / "cluster-autoscaler" / "node-groups.yaml"),
}
"""Options without which a system does not run."""


def beside(name: str) -> dict[str, Any]:
    needed = {option.key: NEEDED[option.key] for option in SYSTEMS[name].needed}
    return {"with": (name,), **needed}


SYSTEM_OF = {option.key: name for name, system in SYSTEMS.items() for option in system.options}


@pytest.mark.slow
@pytest.mark.parametrize("key", OTHER)
def test_every_option_is_in_the_header_and_compared(key):
    before = beside(SYSTEM_OF[key]) if key in SYSTEM_OF else {}
    more = beside(OTHER[key][0]) if key == "with" else {key: OTHER[key]}
    assert difference(header(**before), header(**before)) == ""
    told = difference(header(**before), header(**{**before, **more}))
    assert told.startswith("recorded with another ")


def test_a_manifest_may_be_submitted_later(tmp_path):
    path = tmp_path / "later.yaml"
    for text, expected in (("2.5", 2_500_000_000), ("0", 0)):
        path.write_text(LATER.format(text))
        assert [each.at_ns for each in reading.load([str(path)]).submissions] == [expected]
    path.write_text(LATER.format("soon"))
    with pytest.raises(UsageError, match="'soon': expected seconds"):
        reading.load([str(path)])


LATER = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: late, annotations: {{emulate.controlplane/submit-seconds: "{}"}}}}
"""


def test_more_pods_than_a_run_may_have_are_refused_at_the_object_that_asks(tmp_path):
    def workload(name: str, spec: str) -> str:
        return (
            f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n"
            "  selector: {matchLabels: {a: b}}\n"
            "  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n"
        )

    path = tmp_path / "many.yaml"
    path.write_text(
        workload("few", "replicas: 3") + "---\n" + workload("many", "replicas: 2147483647")
    )
    with pytest.raises(UsageError) as refused:
        plan_of(SCENARIO, files=(str(path),))
    assert str(refused.value).endswith(
        "Deployment many: spec.replicas: 2147483647 pods, 2147483650 with those before it:"
        " more than a run may have (--max-pods 1000000)"
    )
    plan_of(SCENARIO, files=(str(path),), max_pods=2**31 + 2)


def test_endpoints_in_a_file_bring_the_controller_that_mirrors_them(tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text("apiVersion: v1\nkind: Endpoints\nmetadata: {name: e}\n")
    name = "endpointslice-mirroring-controller"
    assert name in plan_of(SCENARIO, files=(str(file),)).configure().enabled_controllers
    assert name not in plan_of(SCENARIO, files=SHOP).configure().enabled_controllers
