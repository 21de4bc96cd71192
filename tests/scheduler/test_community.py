"""Plugins of scheduler-plugins in a KubeSchedulerConfiguration."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from actors.sharing import CHECK_FOOTPRINTS, Budget
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.cli.main import cli
from controlplane.errors import UsageError
from controlplane.scheduler.community import PLUGINS
from controlplane.scheduler.community.beta import below, probability
from controlplane.scheduler.community.load import Emulated
from controlplane.scheduler.community.pod_fingerprint import fingerprint, xxh64
from controlplane.scheduler.config.user_plugins import load_config, registry_with
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.pod_info import PodInfo
from tests.cli.test_run import ROOT, controlplane
from tests.scheduler.make import node_tree, pod_tree

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {{enabled: [{{name: QOSSort}}], disabled: [{{name: "*"}}]}}
    score: {{enabled: [{{name: TargetLoadPacking, weight: 5}}, {{name: PodState}}]}}
  pluginConfig:
  - name: TargetLoadPacking
    args: {{apiVersion: kubescheduler.config.k8s.io/v1, kind: TargetLoadPackingArgs, {}}}
"""


@pytest.mark.slow
def test_they_are_enabled_by_their_names(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format("targetUtilization: 60"))
    done = controlplane(
        "run", ROOT / "examples" / "shop.yaml", "--nodes", 5, "--scheduler-config", file
    )
    assert done.returncode == 0, done.stderr
    assert "22 bound to a node" in done.stdout


@pytest.mark.slow
def test_scores_say_that_they_read_nominated_pods(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format("targetUtilization: 60"))
    token = CHECK_FOOTPRINTS.set(Budget(worlds=1))
    try:
        shop = str(ROOT / "examples" / "shop.yaml")
        done = CliRunner().invoke(
            cli, ["run", shop, "--nodes", "5", "--scheduler-config", str(file)]
        )
    finally:
        CHECK_FOOTPRINTS.reset(token)
    assert "violated" not in done.output
    assert "22 bound to a node" in done.output


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("targetUtil: 1", 'strict decoding error: unknown field "targetUtil"'),
        ("metricProvider: {type: Bad}", "invalid MetricProvider.Type, got Bad"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused_with_the_file(args, told, tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.format(args))
    with pytest.raises(UsageError) as refused:
        load_config(file, registry_with())
    assert str(refused.value) == f'{file}: initializing plugin "TargetLoadPacking": {told}'


def test_each_has_a_name_of_its_own():
    assert len({cls.name for cls in PLUGINS}) == len(PLUGINS)


@pytest.mark.parametrize(
    ("threshold", "alpha", "beta", "expected"),
    [(0.5, 2, 2, 0.5), (0.25, 1, 1, 0.25), (0.2, 2, 5, 0.34464), (0.9, 0.5, 0.5, 0.7951672)],
)
def test_the_beta_distribution_is_summed_up_to_the_threshold(threshold, alpha, beta, expected):
    assert below(threshold, alpha, beta) == pytest.approx(expected, abs=1e-6)


def test_a_load_without_deviation_is_below_its_threshold_or_not():
    assert [probability(0.5, 0, threshold)[0] for threshold in (0.4, 0.5, 0.6)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("data", "expected"), [(b"", 0xEF46DB3751D8E999), (b"abc", 0x44BC2CF5AD770999)]
)
def test_the_hash_of_fingerprints_is_xxh64(data, expected):
    assert xxh64(data) == expected


def test_a_fingerprint_does_not_depend_on_the_order_of_pods():
    pods = [("default", f"pod-{number}") for number in range(9)]
    assert fingerprint(pods) == fingerprint(reversed(pods))
    assert fingerprint(pods) != fingerprint(pods[1:])


TOLERANCE = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: low
  annotations:
    preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority: "{}"
    preemption-toleration.scheduling.x-k8s.io/toleration-seconds: "-1"
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {{name: small, namespace: default}}
spec:
  nodeName: node-1
  priorityClassName: low
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "5"}}}}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: big, namespace: default}}
spec:
  priorityClassName: high
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: "5"}}}}}}]
"""
PREEMPTION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    postFilter: {enabled: [{name: PreemptionToleration}], disabled: [{name: "*"}]}
"""


@pytest.mark.parametrize(
    ("minimum", "told"),
    [(2000, "No victims found on node node-1 for preemptor pod big"), (500, "1 bound to a node")],
)
def test_a_pod_tolerates_preemption_by_priorities_below_a_minimum(tmp_path, minimum, told):
    config, world = tmp_path / "config.yaml", tmp_path / "world.yaml"
    config.write_text(PREEMPTION)
    world.write_text(TOLERANCE.format(minimum))
    done = controlplane("run", world, "--nodes", 1, "--scheduler-config", config)
    assert done.returncode == 0, done.stderr
    assert told in done.stdout


def test_the_load_of_a_node_is_that_of_the_source_at_the_time_of_the_cycle():
    class Source:
        kinds = property(lambda _: {})

        def at(self, node_of, now, stored):
            assert node_of("n").name == "n"
            return lambda pod, container, resource: {"cpu": 500, "memory": now}[resource]

    running = {"name": "c", "state": {"running": {}}}
    tree = pod_tree("p", node="n")
    tree["status"] = {"phase": "Running", "containerStatuses": [running]}
    info = NodeInfo(PodInfo(Pod.from_tree(tree)))
    made = node_tree("n", cpu="2", memory="1k")
    made["status"]["capacity"] = {"cpu": "2", "memory": "1k"}
    info.set_node(Node.from_tree(made))
    plain = Emulated(Handle(clock=lambda: 250_000)).metrics(info)
    assert [each.value for each in plain] == [0, 0]
    found = Emulated(Handle(clock=lambda: 250_000, usage=Source())).metrics(info)
    assert [(each.type, each.value) for each in found] == [("CPU", 25), ("Memory", 25)]


USAGE = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: u}
spec:
  selector: {matchNames: [busy]}
  usages: [{usage: {cpu: {value: "10"}}}]
"""
FAKE = """
apiVersion: v1
kind: Node
metadata: {{name: {0}, annotations: {{kwok.x-k8s.io/node: fake}}}}
status:
  allocatable: {{cpu: "32", memory: 256Gi, pods: "110"}}
  capacity: {{cpu: "32", memory: 256Gi, pods: "110"}}
---
"""
BUSY = """
apiVersion: v1
kind: Pod
metadata: {name: busy}
spec: {nodeName: z, containers: [{name: c, image: i}]}
"""
LATER = """
---
apiVersion: v1
kind: Pod
metadata: {name: later, annotations: {emulate.controlplane/submit-seconds: "30"}}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
"""
ONLY = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score: {enabled: [{name: TargetLoadPacking}], disabled: [{name: "*"}]}
"""


@pytest.mark.parametrize("used", [True, False])
def test_pods_are_packed_by_the_usage_that_kwok_tells(used, tmp_path):
    files = {"world.yaml": FAKE.format("a") + FAKE.format("z") + BUSY + LATER, "config.yaml": ONLY}
    files["usage.yaml"] = USAGE if used else USAGE.replace("busy", "nothing")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = controlplane(
        "run",
        tmp_path / "world.yaml",
        "--nodes",
        0,
        "--with",
        "kwok",
        "--stages",
        ROOT / "examples" / "kwok" / "stages.yaml",
        "--stages",
        tmp_path / "usage.yaml",
        "--scheduler-config",
        tmp_path / "config.yaml",
        "--until",
        60,
    )
    assert done.returncode == 0, done.stderr
    at = next(line.split()[-1] for line in done.stdout.splitlines() if "default/later" in line)
    assert at == ("z" if used else "a")
