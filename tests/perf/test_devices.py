"""Operations on devices, in small worlds."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.perf import runner, workloads
from controlplane.perf.devices import pattern_of

CLAIM = """
apiVersion: resource.k8s.io/v1beta2
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: one, exactly: {deviceClassName: all}}]}}
"""
FILES = {
    "node.yaml": """
apiVersion: v1
kind: Node
metadata: {generateName: with-dra-}
status:
  capacity: {pods: "110", cpu: "4", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
""",
    "class.yaml": """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: all}
spec: {selectors: [{cel: {expression: device.driver == "test.example.com"}}]}
""",
    "claim.yaml": CLAIM,
    "template.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: template}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: all}}]}}}
""",
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: p-}
spec:
  containers: [{name: pause, image: pause, resources: {claims: [{name: c}]}}]
  resourceClaims: [{name: c, resourceClaimTemplateName: template}]
""",
    "config.yaml": """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: default-scheduler}]
""",
}
BEGIN = (
    "{opcode: createNodes, count: 1}",
    "{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}",
    '{opcode: createResourceDriver, driverName: test.example.com, nodes: "with-dra-*",'
    " maxClaimsPerNodeParam: $devices}",
    "{opcode: createAny, templatePath: class.yaml}",
    "{opcode: createResourceClaims, count: 2, templatePath: claim.yaml, namespace: init}",
    "{opcode: allocResourceClaims, namespace: init}",
    "{opcode: createAny, templatePath: template.yaml, namespace: test}",
)
PODS = "{opcode: createPods, namespace: test, count: COUNT, podTemplatePath: pod.yaml, collectMetrics: true MORE}"


def run(tmp_path, pods, *, hints="true", devices=3):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    lines = "".join(f"  - {each}\n" for each in (*BEGIN, pods))
    gates = f"{{DynamicResourceAllocation: true, SchedulerQueueingHints: {hints}}}"
    path = tmp_path / "performance-config.yaml"
    path.write_text(
        f"- name: T\n  featureGates: {gates}\n  schedulerConfigPath: config.yaml\n"
        f"  workloadTemplate:\n{lines}"
        f"  workloads:\n  - {{name: w, params: {{devices: {devices}, steady: true}}}}\n"
    )
    return runner.run(workloads.load(path)[0])


@pytest.mark.parametrize("hints", ["true", "false"])
def test_pods_get_the_devices_that_allocated_claims_leave(tmp_path, hints):
    result = run(tmp_path, PODS.replace("COUNT", "4").replace("MORE", ""), hints=hints)
    assert result.failed == ""
    assert result.collections[0].throughput().pods == 4


def test_one_pod_more_than_devices_waits(tmp_path):
    result = run(tmp_path, PODS.replace("COUNT", "5").replace("MORE", ""))
    assert "of 5 pods in test scheduled" in result.failed
    assert result.collections[0].throughput().pods == 4


def test_a_claim_that_no_node_can_give_is_an_error(tmp_path):
    result = run(tmp_path, PODS.replace("COUNT", "1").replace("MORE", ""), devices=0)
    assert result.failed == (
        "operation 6, allocResourceClaims: claim init/claim-0 (1 of 2) cannot be allocated on any node"
    )


def test_devices_of_deleted_pods_are_given_again(tmp_path):
    pods = PODS.replace("COUNT", "3").replace("MORE", ", steadyStateParam: $steady, duration: 50ms")
    result = run(tmp_path, pods)
    assert result.failed == ""
    assert result.collections[0].throughput().pods > 3


@pytest.mark.parametrize(
    ("glob", "name", "matches"),
    [
        ("dra-*", "dra-1", True),
        ("dra-*", "node-1", False),
        ("n?[0-3]", "nx2", True),
        ("n[^0-3]", "n2", False),
        (r"a\*", "a*", True),
        ("a.b", "axb", False),
    ],
)
def test_patterns_of_go(glob, name, matches):
    assert bool(pattern_of(glob).fullmatch(name)) is matches


@pytest.mark.parametrize("glob", ["a[", "a\\", "[z-a]"])
def test_a_malformed_pattern_is_refused(glob):
    with pytest.raises(UsageError, match="malformed pattern"):
        pattern_of(glob)
