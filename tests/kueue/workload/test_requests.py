from __future__ import annotations

from controlplane.api.quantity import parse
from controlplane.kueue.workload.adjust import adjusted
from controlplane.kueue.workload.admissibility import inadmissible
from controlplane.kueue.workload.requests import RequestOptions, transformed
from tests.kueue.objects import pod_set, workload

GI = 1 << 30


def amounts(quantities):
    return {name: each.value() for name, each in quantities.items()}


def rules(*transformations):
    return RequestOptions.from_config({"transformations": list(transformations)}).transformations


def asked(**quantities):
    return {name: parse(text) for name, text in quantities.items()}


def test_a_retained_input_counts_beside_its_outputs() -> None:
    rule = {"input": "mig", "strategy": "Retain", "outputs": {"memory": "5Gi"}}
    assert amounts(transformed(asked(mig="2"), rules(rule))) == {"memory": 10 * GI, "mig": 2}


def test_a_replaced_input_is_gone() -> None:
    rule = {"input": "mig", "strategy": "Replace", "outputs": {"memory": "5Gi"}}
    found = amounts(transformed(asked(mig="2", memory="1Gi"), rules(rule)))
    assert found == {"memory": 11 * GI}


def test_another_resource_multiplies_the_outputs_only() -> None:
    rule = {"input": "gpu", "multiplyBy": "slices", "outputs": {"credits": "3"}}
    found = amounts(transformed(asked(gpu="2", slices="4"), rules(rule)))
    assert found == {"credits": 24, "gpu": 2, "slices": 4}


def test_an_allowance_does_not_reduce_what_was_asked_for() -> None:
    rule = {"input": "gpu", "outputs": {"cpu": "-1"}}
    assert amounts(transformed(asked(gpu="2", cpu="5"), rules(rule))) == {"cpu": 5, "gpu": 2}


def test_overhead_and_limits_complete_the_requests_of_a_copy() -> None:
    spec = {"runtimeClassName": "fat"}
    tree = workload("a", pod_sets=[pod_set(spec=spec)])
    container = tree["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "2"}}
    ranges = [
        {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "1Gi"}}]}},
        {"spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "2Gi"}}]}},
    ]
    classes = {"fat": {"overhead": {"podFixed": {"cpu": "250m"}}}}
    found = adjusted(tree, ranges, classes)["spec"]["podSets"][0]["template"]["spec"]
    assert found["overhead"] == {"cpu": "250m"}
    assert found["containers"][0]["resources"]["requests"] == {"memory": "1Gi", "cpu": "2"}
    assert "overhead" not in tree["spec"]["podSets"][0]["template"]["spec"]


def test_the_first_obstacle_is_told() -> None:
    tree = workload("a", requests={"cpu": "3"})
    failed = inadmissible(tree, None, None, [])
    assert failed is not None
    assert failed.message.startswith('workload namespace "default" does not exist')
    namespace = {"metadata": {"name": "default"}}
    assert inadmissible(tree, namespace, None, []) is None
    ranges = [{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}]
    failed = inadmissible(tree, namespace, None, ranges)
    assert failed is not None
    assert failed.message == (
        "resources didn't satisfy LimitRange constraints: "
        'spec.podSets[0].template.spec.containers[0]: Invalid value: ["cpu"]: '
        "requests must not be above the limitRange max"
    )
