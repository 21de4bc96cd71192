"""Warnings for pods that no recorded conversation reaches: each one against the words of upstream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.warnings import pod_warnings, template_warnings
from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.api_error import ApiError


def _told(spec: Tree, **meta: Tree) -> list[str]:
    return pod_warnings({"metadata": {"name": "p", **meta}, "spec": spec}, None)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"volumes": [{"name": "v", "rbd": {}}, {"name": "w", "storageos": {}}]},
         ["spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
          "spec.volumes[1].storageOS: deprecated in v1.22, non-functional in v1.25+"]),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s", "items": [
            {"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]}}]},
         ['volume "v" (Secret "s"): overlapping paths: "x/y" with "x"']),
        ({"volumes": [{"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "t"}},
            {"downwardAPI": {"items": [{"path": "t"}]}}]}}]},
         ['volume "v" (Projected DownwardAPI): overlapping paths: "t" with "t"']),
        ({"overhead": {"memory": "100m"}},
         ['spec.overhead[memory]: fractional byte value "100m" is invalid, must be an integer']),
        ({"containers": [{"name": "c", "env": [{"name": "A", "value": "1"},
                                               {"name": "A", "value": "$(A)2"}]}]}, []),
        ({"containers": [{"name": "c", "ports": [
            {"containerPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"},
            {"containerPort": 80, "protocol": "TCP", "hostPort": 80}]}]},
         ["spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 "
          "ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}",
          "spec.containers[0].ports[1]: overlapping port definition with "
          "spec.containers[0].ports[0]"]),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"preference": {"matchExpressions": [{"key": "beta.kubernetes.io/os"}]}}]}}},
         ["spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]."
          "preference.matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; "
          'use "kubernetes.io/os" instead']),
    ],
)  # fmt: skip
def test_a_doubtful_pod_is_warned_of(spec: Tree, expected: list[str]) -> None:
    assert _told(spec) == expected


def test_old_annotations_are_warned_of_where_no_field_took_their_place() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    meta = {"annotations": {key: "unconfined", "scheduler.alpha.kubernetes.io/critical-pod": ""}}
    old = 'non-functional in v1.16+; use the "priorityClassName" field instead'
    plain = {"containers": [{"name": "c"}]}
    given = {**plain, "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
    place = "template.metadata.annotations"

    assert template_warnings({"metadata": meta, "spec": given}, "template") == [
        f"{place}[scheduler.alpha.kubernetes.io/critical-pod]: {old}"
    ]
    assert template_warnings({"metadata": meta, "spec": plain}, "template")[1:] == [
        f'{place}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    ]


def _plain_port_warnings(ports: list[Tree]) -> list[str]:
    """Each port against all before it, as upstream does."""
    found = []
    at = "spec.containers[0].ports"
    for number, port in enumerate(ports):
        ip, host = port.get("hostIP", ""), port.get("hostPort", 0)
        for other_number, other in enumerate(ports[:number]):
            other_ip, other_host = other.get("hostIP", ""), other.get("hostPort", 0)
            if (ip, host) == (other_ip, other_host):
                word = "duplicate"
            elif not host or not other_host:
                word = "overlapping"
            elif host == other_host and bool(ip) != bool(other_ip):
                word = "dangerously ambiguous"
            else:
                continue
            found.append(f"{at}[{number}]: {word} port definition with {at}[{other_number}]")
    return found


@given(
    st.lists(
        st.fixed_dictionaries(
            {"containerPort": st.just(80), "hostPort": st.sampled_from([0, 1, 2])},
            optional={"hostIP": st.sampled_from(["", "10.0.0.1", "10.0.0.2"])},
        ),
        max_size=7,
    )
)
def test_ports_that_hide_each_other_are_told_in_order(ports: list[Tree]) -> None:
    found = _told({"containers": [{"name": "c", "ports": ports}]})
    assert [each for each in found if "without hostPort" not in each] == _plain_port_warnings(ports)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ports", "done"),
    [
        ([{"containerPort": 80, "hostPort": n + 1} for n in range(30_000)], True),
        ([{"containerPort": 80}] * 30_000, False),
    ],
)
def test_very_many_ports_are_looked_at_in_linear_work_or_interrupted(
    ports: list[Tree], done: bool
) -> None:
    budget = work.Budget()
    work.on(budget)
    try:
        if done:
            assert _told({"containers": [{"name": "c", "ports": ports}]}) == []
            assert budget.left > work.LIMIT // 2
        else:
            with pytest.raises(ApiError):
                _told({"containers": [{"name": "c", "ports": ports}]})
    finally:
        work.on(work.FREE)
