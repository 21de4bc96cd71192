"""Users submit what their files hold, and again what was refused only because it came too early."""

from __future__ import annotations

from actors import EventLog, strategies
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.manifest_run import SCENARIO

NAMESPACE_AND_PODS = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: shop}
spec: {containers: [{name: main, image: "app:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: stranger, namespace: shop}
spec: {serviceAccountName: nobody, containers: [{name: main, image: "app:1"}]}
"""


def test_a_pod_that_comes_with_its_namespace_is_submitted_again(tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text(NAMESPACE_AND_PODS)
    plan = plan_of(SCENARIO, files=(str(file),), nodes=1)
    run = Execution(plan, strategies.named("fifo", 0), log=EventLog(keep=True))
    run.execute("bare")
    assert run.result.verdict == "quiescent"
    (pod,) = [obj.view for obj in run.cluster.objects("/registry/pods/")]
    assert (pod.name, pod.status.phase) == ("bare", "Running")
    run.save(tmp_path)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    refused = [line for line in lines if '"user.refused"' in line]
    assert len(refused) == 1
    assert 'serviceaccount \\"nobody\\" not found' in refused[0]
