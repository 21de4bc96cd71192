import pytest

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import compute_qos, pod_limits, pod_qos, pod_requests


def container(name="c", limits=None, policy=None, **requests):
    tree = {"name": name, "resources": {"requests": requests, "limits": limits or {}}}
    return tree | ({"restartPolicy": policy} if policy else {})


def pod(*containers, inits=(), **spec):
    return Pod.from_tree(
        {"spec": {"containers": list(containers), "initContainers": list(inits)} | spec}
    )


def shown(amounts):
    return {name: str(amount) for name, amount in amounts.items()}


def test_init_containers_count_when_they_need_more_than_all_that_runs_later():
    found = pod(container(cpu="1"), container(cpu="1"), inits=[container(cpu="3", memory="1Mi")])
    assert shown(pod_requests(found)) == {"cpu": "3", "memory": "1Mi"}


def test_sidecars_run_beside_everything_that_starts_after_them():
    inits = [container("s", cpu="1", policy="Always"), container("i", cpu="5")]
    assert shown(pod_requests(pod(container(cpu="2"), inits=inits))) == {"cpu": "6"}
    assert shown(pod_requests(pod(container(cpu="5"), inits=inits[:1]))) == {"cpu": "6"}


def test_resources_of_the_pod_replace_the_sum_and_overhead_comes_on_top():
    found = pod(
        container(cpu="1", memory="1Gi", limits={"cpu": "2"}),
        resources={"requests": {"cpu": "4"}},
        overhead={"cpu": "100m", "memory": "1Mi"},
    )
    assert shown(pod_requests(found)) == {"cpu": "4100m", "memory": "1025Mi"}
    assert shown(pod_limits(found)) == {"cpu": "2100m"}


FULL = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container()], "BestEffort"),
        ([container(cpu="0")], "BestEffort"),
        ([container(cpu="1")], "Burstable"),
        ([container(limits=FULL, **FULL)], "Guaranteed"),
        ([container(limits=FULL, **FULL), container()], "Burstable"),
        ([container(limits=FULL, cpu="500m", memory="1Gi")], "Burstable"),
    ],
)
def test_the_class_follows_from_requests_and_limits(containers, expected):
    assert compute_qos(pod(*containers)) == expected


def test_the_recorded_class_stays():
    assert pod_qos(Pod.from_tree({"status": {"qosClass": "Guaranteed"}})) == "Guaranteed"
