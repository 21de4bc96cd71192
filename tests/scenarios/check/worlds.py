"""Small configurations, and what a run of a check finds in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.log import Unheard
from controlplane.scenarios.check.scenario import findings_of
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading

if TYPE_CHECKING:
    from pathlib import Path

    from controlplane.scenarios.check.verdicts import Finding
    from controlplane.scenarios.engine.plan import Plan

SCENARIO = loading.from_module("controlplane.scenarios.check.scenario")


def deployment(
    name: str = "web",
    *,
    replicas: int | None = 2,
    cpu: str = "100m",
    spec: str = "",
    pod: str = "",
    notes: str = "",
    template_notes: str = "",
) -> str:
    """A Deployment; `spec` and `pod` are more fields of its spec and of its pods' spec, in YAML's flow form."""
    wanted = "" if replicas is None else f"replicas: {replicas}, "
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, annotations: {{{notes}}}}}
spec: {{{wanted}{spec}
  selector: {{matchLabels: {{app: {name}}}}},
  template: {{
    metadata: {{labels: {{app: {name}}}, annotations: {{{template_notes}}}}},
    spec: {{{pod}
      containers: [{{name: main, image: app, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}
---"""


def budget(spec: str, name: str = "web") -> str:
    """A PodDisruptionBudget of the pods of a Deployment."""
    return f"""
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{{spec}, selector: {{matchLabels: {{app: {name}}}}}}}
---"""


def scaler(least: int, most: int, *, behavior: str = "", name: str = "web") -> str:
    """A HorizontalPodAutoscaler that keeps CPU at half of the requests."""
    return f"""
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: {name}}}
spec: {{{behavior}
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: {name}}},
  minReplicas: {least}, maxReplicas: {most},
  metrics: [{{type: Resource, resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 50}}}}}}]}}
---"""


def nodes(*zones: str, cpu: str = "4", notes: str = "") -> str:
    """A node for each zone named."""
    return "".join(
        f"""
apiVersion: v1
kind: Node
metadata:
  name: node-{number}
  labels: {{kubernetes.io/hostname: node-{number}, topology.kubernetes.io/zone: {zone}}}
  annotations: {{{notes}}}
status:
  capacity: {{cpu: "{cpu}", memory: 8Gi, pods: "110"}}
  allocatable: {{cpu: "{cpu}", memory: 8Gi, pods: "110"}}
---"""
        for number, zone in enumerate(zones, 1)
    )


def plan(folder: Path, text: str, **options: Any) -> Plan:
    """The plan of a check of these manifests."""
    path = folder / "files.yaml"
    path.write_text(text, encoding="utf-8")
    return plan_of(SCENARIO, files=(str(path),), **options)


def found(folder: Path, text: str, *events: str, **options: Any) -> list[Finding]:
    """The findings of one run with these events."""
    run = Execution(plan(folder, text, event=events, **options), log=Unheard())
    run.execute("bare")
    assert run.result.verdict in ("stopped", "violated"), run.result
    return findings_of(run)


def verdicts(folder: Path, text: str, *events: str, **options: Any) -> list[str]:
    """The verdicts of one run with these events."""
    return [each.verdict for each in found(folder, text, *events, **options)]
