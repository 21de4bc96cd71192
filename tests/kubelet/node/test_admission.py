import pytest

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.kubelet.node.admission import Admission, admit, rejection_status
from controlplane.kubelet.pod.preemption import is_critical, preemptable

ALLOCATABLE = {"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi", "pods": "3"}


def node(**spec):
    return Node.from_tree(
        {
            "metadata": {"name": "n1", "labels": {"zone": "a", "kubernetes.io/os": "linux"}},
            "spec": spec,
            "status": {"allocatable": ALLOCATABLE},
        }
    )


def pod(name="p", *, meta=None, ports=(), status=None, **requests):
    requests = {key.replace("_", "-"): value for key, value in requests.items()}
    spec = {}
    for key in ("nodeName", "nodeSelector", "priority", "tolerations", "os"):
        if key in requests:
            spec[key] = requests.pop(key)
    container = {"name": "c", "resources": {"requests": requests}, "ports": list(ports)}
    return Pod.from_tree(
        {
            "metadata": {"name": name, "uid": name} | (meta or {}),
            "spec": spec | {"containers": [container]},
            "status": status or {},
        }
    )


def test_what_fits_is_admitted():
    assert admit(pod(cpu="2", memory="4Gi"), node(), []).admitted


@pytest.mark.parametrize(
    ("candidate", "active", "reason", "message"),
    [
        (
            pod(cpu="1500m"), [pod("q", cpu="1")], "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000",
        ),
        (
            pod(memory="5Gi"), [], "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 5368709120, used: 0, "
            "capacity: 4294967296",
        ),
        (
            pod(), [pod("a"), pod("b"), pod("c")], "OutOfpods",
            "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3",
        ),
        (
            pod(nodeSelector={"zone": "b"}), [], "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            pod(nodeName="n2"), [], "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        (
            pod(ports=[{"hostPort": 80}]),
            [pod("q", ports=[{"hostPort": 80, "hostIP": "10.0.0.1"}])], "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod "
            "ports",
        ),
        (
            pod(meta={"labels": {"kubernetes.io/os": "windows"}}), [],
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
        (
            pod(os={"name": "windows"}), [], "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
    ],
)  # fmt: skip
def test_each_failure_has_upstreams_reason_and_message(candidate, active, reason, message):
    found = admit(candidate, node(), active)
    assert (found.admitted, found.reason, found.message) == (False, reason, message)


def test_only_taints_that_evict_keep_a_pod_out():
    soft = {"key": "k", "effect": "NoSchedule"}
    hard = {"key": "k", "effect": "NoExecute"}
    assert admit(pod(), node(taints=[soft]), []).admitted
    assert admit(pod(), node(taints=[hard]), []).reason == "TaintToleration"
    assert admit(pod(tolerations=[{"operator": "Exists"}]), node(taints=[hard]), []).admitted
    static = pod(meta={"annotations": {"kubernetes.io/config.source": "file"}})
    assert admit(static, node(taints=[hard]), []).admitted


def test_extended_resources_that_the_node_does_not_know_are_not_its_business():
    assert admit(pod(**{"x.io/gpu": "9"}), node(), []).admitted


def test_other_pods_count_with_what_they_really_have():
    resized = {
        "containerStatuses": [
            {"name": "c", "resources": {"requests": {"cpu": "1900m"}},
             "allocatedResources": {"cpu": "1"}}
        ]
    }  # fmt: skip
    found = admit(pod(cpu="500m"), node(), [pod("q", cpu="1", status=resized)])
    assert found.reason == "OutOfcpu"


def test_a_critical_pod_displaces_the_cheapest_class_first():
    critical = pod("boss", cpu="1", priority=2_000_000_000)
    burstable = pod("burst", cpu="1500m", priority=5)
    idle = pod("idle", priority=9)
    found = admit(critical, node(), [idle, burstable])
    assert found.admitted
    assert [victim.name for victim in found.victims] == ["burst"]


def test_a_critical_pod_is_refused_when_no_victims_suffice():
    critical = pod("boss", cpu="3", priority=2_000_000_000)
    found = admit(critical, node(), [pod("q", cpu="1")])
    assert found.reason == "UnexpectedAdmissionError"
    assert found.message.endswith("reclaim resources: [(res: cpu, q: 1000), ]")


def test_priorities_decide_among_ordinary_pods():
    assert preemptable(pod(priority=2), pod(priority=1))
    assert not preemptable(pod(priority=1), pod(priority=1))
    assert not preemptable(pod(), pod(priority=1))
    assert is_critical(pod(meta={"annotations": {"kubernetes.io/config.mirror": "x"}}))


def test_a_rejected_pod_fails_for_good():
    found = admit(pod(nodeName="n2"), node(), [])
    assert rejection_status(pod(), found.reason, found.message) == {
        "phase": "Failed",
        "reason": "NodeName",
        "message": f"Pod was rejected: {found.message}",
    }


def test_handlers_are_asked_in_order_and_the_first_refusal_counts():
    asked = []

    class Handler:
        def __init__(self, name, admitted):
            self.name, self.admitted = name, admitted

        def admit(self, pod, state):
            asked.append((self.name, state.disk))
            return Admission(self.admitted, self.name)

    handlers = [Handler("first", True), Handler("second", False), Handler("third", True)]
    decided = admit(None, None, (), disk="disk", handlers=handlers)
    assert (decided.admitted, decided.reason) == (False, "second")
    assert asked == [("first", "disk"), ("second", "disk")]


def test_the_victims_of_all_handlers_are_killed_once():
    class Handler:
        def __init__(self, *victims):
            self.victims = victims

        def admit(self, pod, state):
            return Admission(True, victims=self.victims)

    decided = admit(None, None, (), handlers=[Handler("a", "b"), Handler("b", "c")])
    assert decided.victims == ("a", "b", "c")
