"""Each verdict both ways: a configuration that has it, and the same one repaired."""

from __future__ import annotations

import pytest

from tests.scenarios.check.worlds import budget, deployment, found, nodes, scaler, verdicts

ON_NODE_1 = "nodeName: node-1,"
APART = (
    "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: ["
    "{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}},"
)
ZONES = (
    "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone,"
    " whenUnsatisfiable: %s, labelSelector: {matchLabels: {app: web}}}],"
)
STARTS = "emulate.controlplane/cpu-start-usage: 100m, emulate.controlplane/cpu-start-seconds: '120'"
IN_ZONE_A = "nodeSelector: {topology.kubernetes.io/zone: a},"
QUICK = "behavior: {scaleDown: {stabilizationWindowSeconds: 60}},"
LOAD = "emulate.controlplane/cpu-load: '%s'"
BEARS = "emulate.controlplane/overload-cpu: '3'"
READY_LATE = deployment(
    replicas=1, template_notes="emulate.controlplane/ready-seconds: '130'"
).replace("image: app,", "image: app, readinessProbe: {httpGet: {port: 80}},")


CASES = {
    "never at rest: a template that names a node, and a taint": (
        "never-at-rest",
        nodes("a", "a") + deployment(pod=ON_NODE_1),
        nodes("a", "a") + deployment(),
        ["taint:node-1"],
    ),
    "never at rest: an update of a pinned pod that does not fit twice": (
        "never-at-rest",
        nodes("a", "a") + deployment(replicas=1, cpu="3", pod=ON_NODE_1),
        nodes("a", "a")
        + deployment(replicas=1, cpu="3", pod=ON_NODE_1, spec="strategy: {type: Recreate},"),
        ["rollout:Deployment/default/web"],
    ),
    "the number of replicas swings: CPU at the start taken for load": (
        "unstable-replicas",
        nodes("a", "a")
        + deployment(replicas=1, notes=LOAD % "20m", template_notes=STARTS)
        + scaler(1, 6, behavior=QUICK),
        nodes("a", "a") + deployment(replicas=1, notes=LOAD % "20m") + scaler(1, 6, behavior=QUICK),
        [],
    ),
    "the number of replicas swings: an update whose pods need CPU to start": (
        "unstable-replicas",
        nodes("a", "a") + deployment(replicas=1) + scaler(1, 6, behavior=QUICK),
        nodes("a", "a") + READY_LATE + scaler(1, 6, behavior=QUICK),
        ["start:Deployment/default/web"],
    ),
    "nodes fail under the load of a lost one": (
        "cascade",
        nodes("a", "a", "a", notes=BEARS) + deployment(replicas=6, notes=LOAD % "7500m"),
        nodes("a", "a", "a", notes=BEARS) + deployment(replicas=6, notes=LOAD % "3"),
        ["lose:node-1"],
    ),
    "no node: replicas that must be apart, and as many nodes": (
        "no-node",
        nodes("a", "a", "a") + deployment(replicas=3, pod=APART),
        nodes("a", "a", "a", "a") + deployment(replicas=3, pod=APART),
        ["lose:node-1"],
    ),
    "no node: a strict constraint when a zone is lost": (
        "no-node",
        nodes("a", "b") + deployment(replicas=4, pod=ZONES % "DoNotSchedule"),
        nodes("a", "b") + deployment(replicas=4, pod=ZONES % "ScheduleAnyway"),
        ["lose-zone:a"],
    ),
    "no room: two nodes carry the pods, one does not": (
        "no-room",
        nodes("a", "a") + deployment(replicas=4, cpu="1500m"),
        nodes("a", "a") + deployment(replicas=4, cpu="900m"),
        ["drain:node-1"],
    ),
    "replicas are missing: a quota": (
        "missing",
        nodes("a", "a")
        + "\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {pods: '3'}}\n---"
        + deployment(replicas=4),
        nodes("a", "a")
        + "\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {pods: '4'}}\n---"
        + deployment(replicas=4),
        [],
    ),
    "replicas are missing: pods that do not get ready": (
        "missing",
        nodes("a", "a")
        + deployment(template_notes="emulate.controlplane/never-ready: 'true'").replace(
            "image: app,", "image: app, readinessProbe: {httpGet: {port: 80}},"
        ),
        nodes("a", "a")
        + deployment().replace("image: app,", "image: app, readinessProbe: {httpGet: {port: 80}},"),
        [],
    ),
    "below minReplicas: a manifest with its own replicas": (
        "below-minimum",
        nodes("a", "a") + deployment(replicas=1) + scaler(3, 5),
        nodes("a", "a") + deployment(replicas=None) + scaler(3, 5),
        ["apply"],
    ),
    "below a budget: an update that takes two of four at a time": (
        "below-budget",
        nodes("a", "a")
        + deployment(
            replicas=4, spec="strategy: {rollingUpdate: {maxUnavailable: 2, maxSurge: 0}},"
        )
        + budget("maxUnavailable: 1"),
        nodes("a", "a")
        + deployment(
            replicas=4, spec="strategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 0}},"
        )
        + budget("maxUnavailable: 1"),
        ["rollout:Deployment/default/web"],
    ),
    "a drain that never ends: a budget that allows nothing": (
        "blocked-drain",
        nodes("a", "a") + deployment() + budget("minAvailable: 2"),
        nodes("a", "a") + deployment() + budget("minAvailable: 1"),
        ["drain:node-1"],
    ),
    "a drain that never ends: pods that name their node": (
        "blocked-drain",
        nodes("a", "a") + deployment(pod=ON_NODE_1),
        nodes("a", "a") + deployment(),
        ["drain:node-1"],
    ),
    "no replica is ready: drains, and no budget": (
        "outage",
        nodes("a", "a") + deployment(),
        nodes("a", "a") + deployment() + budget("maxUnavailable: 1"),
        ["drain:node-1", "drain:node-2"],
    ),
    "all replicas in one zone: a wish that a selector makes vain": (
        "one-zone",
        nodes("a", "b") + deployment(pod=IN_ZONE_A + ZONES % "ScheduleAnyway"),
        nodes("a", "b") + deployment(pod=ZONES % "ScheduleAnyway"),
        [],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_broken_configuration_is_told(case, tmp_path):
    verdict, broken, _, events = CASES[case]
    assert verdict in verdicts(tmp_path, broken, *events)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_repaired_one_has_no_finding(case, tmp_path):
    _, _, repaired, events = CASES[case]
    assert verdicts(tmp_path, repaired, *events) == []


def test_a_cycle_is_told_with_its_actors(tmp_path):
    first, *_ = found(tmp_path, nodes("a", "a") + deployment(pod=ON_NODE_1), "taint:node-1")
    assert first.objects == ("Deployment/default/web",)
    assert first.after == "node-1 gets a NoExecute taint"
    told = " | ".join(first.lines)
    assert "the taint eviction controller evicts a pod from node node-1" in told
    assert "the ReplicaSet controller makes a pod on node node-1, which its template names" in told


def test_a_blocked_drain_names_the_budget(tmp_path):
    text = nodes("a", "a") + deployment() + budget("minAvailable: 2")
    first, *_ = found(tmp_path, text, "drain:node-1")
    assert first.objects == ("PodDisruptionBudget/default/web", "Deployment/default/web")
    assert "The disruption budget web needs 2 healthy pods and has 2 currently" in first.says


def test_one_replica_that_moves_is_no_outage(tmp_path):
    text = nodes("a", "a") + deployment(replicas=1)
    assert verdicts(tmp_path, text, "drain:node-1", "drain:node-2") == []


def test_a_workload_that_asks_to_be_recreated_is_no_outage(tmp_path):
    text = nodes("a", "a") + deployment(spec="strategy: {type: Recreate},")
    assert verdicts(tmp_path, text, "rollout:Deployment/default/web") == []


def test_a_zone_that_takes_the_room_away_is_no_finding(tmp_path):
    text = nodes("a", "b") + deployment(replicas=4, cpu="1500m")
    assert verdicts(tmp_path, text, "lose-zone:a") == []


def test_a_drain_with_a_loss_of_room_is_told_while_it_lasts(tmp_path):
    text = nodes("a", "a") + deployment(replicas=4, cpu="1500m")
    first, *_ = found(tmp_path, text, "drain:node-1")
    assert "Insufficient cpu" in first.says
    assert first.after == "node-1 is drained"


def test_load_that_rises_and_falls_once_is_no_swing(tmp_path):
    text = nodes("a", "a", "a") + deployment(replicas=None) + scaler(1, 6)
    assert verdicts(tmp_path, text, "load:Deployment/default/web") == []


@pytest.mark.parametrize("event", ["lose:node-1", "taint:node-1", "drain:node-1", "apply"])
def test_a_plain_deployment_survives(event, tmp_path):
    assert verdicts(tmp_path, nodes("a", "a", "a") + deployment(replicas=3), event) == []


def test_a_swing_is_told_with_its_author(tmp_path):
    text = nodes("a", "a") + deployment(replicas=6, notes=LOAD % "20m") + scaler(1, 9)
    first, *_ = found(tmp_path, text, "apply")
    assert first.verdict == "unstable-replicas"
    assert "replicas of Deployment/default/web go from 1 to 6 to 1" in first.says
    assert first.says.endswith("the user sets 6")
