"""dask-kubernetes 2026.3.0, an operator on kopf with two known races: its issues 968 and 976."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import pytest

from controlplane.operators.description import operator
from controlplane.operators.loops.session import Conditions, performed
from controlplane.operators.masks import reference_of
from controlplane.operators.oracles import alarms_of

VERSION = "2026.3.0"
WINDOWS = {"settle_s": 1.0, "quiet_s": 0.2}
DEPLOYMENT = """
apiVersion: v1
kind: Namespace
metadata: {name: dask-operator}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: dask-operator, namespace: dask-operator}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dask-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects:
  - {kind: ServiceAccount, name: dask-operator, namespace: dask-operator}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: dask-operator, namespace: dask-operator}
spec:
  selector: {matchLabels: {app: dask-operator}}
  template:
    metadata: {labels: {app: dask-operator}}
    spec:
      serviceAccountName: dask-operator
      containers:
        - name: operator
          image: ghcr.io/dask/dask-kubernetes-operator:2026.3.0
"""
CONTAINER = {"image": "dask:1", "args": ["dask"], "env": [{"name": "A", "value": "b"}]}
PORTS = [
    {"name": "tcp-comm", "port": 8786, "targetPort": "tcp-comm"},
    {"name": "http-dashboard", "port": 8787, "targetPort": "http-dashboard"},
]
CLUSTER = {
    "apiVersion": "kubernetes.dask.org/v1",
    "kind": "DaskCluster",
    "metadata": {"name": "simple"},
    "spec": {
        "worker": {"replicas": 2, "spec": {"containers": [{"name": "worker", **CONTAINER}]}},
        "scheduler": {
            "spec": {"containers": [{"name": "scheduler", **CONTAINER}]},
            "service": {
                "type": "ClusterIP",
                "selector": {"dask.org/cluster-name": "simple", "dask.org/component": "scheduler"},
                "ports": PORTS,
            },
        },
    },
}


def installed():
    try:
        return version("dask-kubernetes")
    except PackageNotFoundError:
        return ""


pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        installed() != VERSION, reason=f"dask-kubernetes {VERSION} is not installed"
    ),
]


@pytest.fixture
def dask(tmp_path):
    spec = find_spec("dask_kubernetes")
    charts = Path(spec.origin).parent / "operator" / "deployment" / "helm"
    definitions = sorted(charts.glob("*/crds/*.yaml"))
    (tmp_path / "deploy.yaml").write_text(DEPLOYMENT)
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "-m",
        "dask_kubernetes.operator.controller",
        "-A",
    ]
    return operator(
        tmp_path,
        manifests=[*(str(each) for each in definitions), "deploy.yaml"],
        processes=[{"image": "ghcr.io/dask/*", "command": command}],
        workload=[
            {"apply": CLUSTER},
            {"wait": "deployments simple-scheduler where status.readyReplicas=1 at most 30"},
        ],
        ignore=["status.phase"],
    )


def test_issue_968_the_phase_ends_as_pending_though_everything_runs(dask):
    ends = set()
    for _ in range(5):
        found = performed(dask, Conditions(**WINDOWS))
        assert found.settled
        ends.add(found.objects["daskclusters", "default/simple"]["status"]["phase"])
        if "Pending" in ends:
            break
    assert "Pending" in ends


def test_issue_976_one_error_and_there_is_no_worker_group(dask):
    calm = [performed(dask, Conditions(**WINDOWS)) for _ in range(2)]
    plan = ("fail request dask-operator create daskworkergroups default/simple-default with 500",)
    found = performed(dask, Conditions(plan, **WINDOWS))
    assert found.reached
    alarms = [str(each) for each in alarms_of(found, reference_of(calm, dask.ignore), calm)]
    assert "end state: daskworkergroups default/simple-default is missing at the end" in alarms
