from hypothesis import given
from hypothesis import strategies as st

from controlplane.scheduler.framework.args import ShapePoint
from controlplane.scheduler.framework.scores import (
    broken_linear,
    default_normalize,
    divide,
    round_half_away,
)
from controlplane.scheduler.state.host_ports import HostPorts
from controlplane.scheduler.state.resources import (
    Resource,
    _pod_resource,
    containers_tell_requests,
    is_scalar_resource,
    pod_requests,
    pod_resource,
)
from tests.scheduler.make import pod


def container(cpu, name="c", **rest):
    requests = {"cpu": cpu} if cpu else {}
    return {"name": name, "resources": {"requests": requests}, **rest}


def milli_cpu(each, **kwargs):
    return Resource.from_requests(pod_requests(each, **kwargs)).milli_cpu


def test_init_containers_run_one_after_the_other_beside_earlier_sidecars():
    each = pod(
        "p",
        containers=[container("100m"), container("100m", "d")],
        initContainers=[
            container("500m", "i1"),
            container("50m", "side", restartPolicy="Always"),
            container("400m", "i2"),
        ],
    )
    assert milli_cpu(each) == 500
    more = pod(
        "p",
        containers=[container("300m")],
        initContainers=[container("200m", "side", restartPolicy="Always"), container("350m", "i")],
        overhead={"cpu": "10m"},
    )
    assert milli_cpu(more) == 560


def test_requests_of_the_pod_replace_those_of_containers():
    each = pod(
        "p",
        containers=[container("100m")],
        resources={"requests": {"cpu": "1", "example.com/x": "5"}},
    )
    assert milli_cpu(each) == 1000
    assert pod_resource(each).resource.scalars == {}


def test_a_raised_request_counts_at_once_and_a_lowered_one_when_the_kubelet_is_done():
    def resized(wanted, allocated, actual, *, infeasible=False):
        status = {
            "name": "c",
            "allocatedResources": {"cpu": allocated},
            "resources": {"requests": {"cpu": actual}},
        }
        conditions = [{"type": "PodResizePending", "reason": "Infeasible"}] if infeasible else []
        return pod(
            "p",
            containers=[container(wanted)],
            status={"containerStatuses": [status], "conditions": conditions},
        )

    assert milli_cpu(resized("2", "1", "1"), use_status=True) == 2000
    assert milli_cpu(resized("1", "1", "2"), use_status=True) == 2000
    assert milli_cpu(resized("4", "1", "2", infeasible=True), use_status=True) == 2000
    assert milli_cpu(resized("2", "3", "3")) == 2000


def test_missing_requests_count_for_scores_but_explicit_zeros_do_not():
    assert pod_resource(pod("p", cpu="")).non_zero_milli_cpu == 100
    assert pod_resource(pod("p", cpu="0")).non_zero_milli_cpu == 0
    assert pod_resource(pod("p")).non_zero_memory == 200 * 1024 * 1024


def test_which_names_are_counted():
    names = ("example.com/gpu", "hugepages-2Mi", "attachable-volumes-x", "kubernetes.io/y")
    assert all(map(is_scalar_resource, names))
    assert not any(map(is_scalar_resource, ("cpu", "storage", "requests.example.com/x", "a b/c")))


def test_the_wildcard_address_collides_with_every_other():
    ports = HostPorts()
    ports.add("127.0.0.1", "", 80)
    assert ports.conflicts("", "TCP", 80)
    assert not ports.conflicts("127.0.0.2", "TCP", 80)
    assert not ports.conflicts("", "UDP", 80)
    ports.add("", "TCP", 80)
    assert ports.conflicts("127.0.0.2", "TCP", 80)
    copy = ports.clone()
    ports.remove("", "TCP", 80)
    ports.remove("127.0.0.1", "TCP", 80)
    ports.remove("9.9.9.9", "TCP", 80)
    assert (len(ports), len(copy)) == (0, 2)


@given(st.lists(st.integers(0, 10**6), min_size=1), st.booleans())
def test_normalised_scores_lie_between_0_and_100(scores, reverse):
    out = list(scores)
    default_normalize(out, reverse=reverse)
    assert all(0 <= score <= 100 for score in out)
    best = min(scores) if reverse else max(scores)
    if max(scores) > 0:
        assert out[scores.index(best)] == max(out)


@given(st.integers(-(10**12), 10**12), st.integers(1, 10**6))
def test_division_goes_toward_zero(a, b):
    assert divide(a, b) == int(abs(a) // b) * (1 if a >= 0 else -1)


def test_rounding_takes_halves_away_from_zero():
    assert [round_half_away(x) for x in (0.5, -0.5, 1.4999, 2.5, 0.49999999999999994)] == [
        1,
        -1,
        1,
        3,
        0,
    ]


def test_a_shape_is_interpolated_in_whole_numbers():
    falling = (ShapePoint(0, 10), ShapePoint(100, 0))
    assert [broken_linear(falling, p, 10) for p in (0, 33, 100, 200)] == [100, 67, 0, 0]
    bent = (ShapePoint(0, 0), ShapePoint(40, 5), ShapePoint(100, 10))
    assert [broken_linear(bent, p, 10) for p in (33, 70)] == [41, 75]


amounts = st.sampled_from((None, {}, {"cpu": "100m"}, {"cpu": "0.1"}, {"cpu": "2", "memory": "1"}))
statuses = st.builds(
    lambda name, has, promised: {
        "name": name,
        **({} if has is None else {"resources": {"requests": has}}),
        **({} if promised is None else {"allocatedResources": promised}),
    },
    st.sampled_from("cd"), amounts, amounts,
)  # fmt: skip


@given(
    st.lists(amounts.filter(bool), min_size=1, max_size=2),
    st.lists(statuses, max_size=2),
    st.sampled_from((None, "Infeasible", "Deferred")),
    st.booleans(),
)
def test_a_pod_whose_containers_tell_its_requests_has_no_others(asked, told, pending, allocated):
    conditions = [{"type": "PodResizePending", "status": "True", "reason": pending}]
    each = pod(
        "p",
        containers=[{"name": n, "resources": {"requests": r}} for n, r in zip("cd", asked)],
        status={"containerStatuses": told, **({"conditions": conditions} if pending else {})},
    )
    found = _pod_resource(each, allocated=allocated)
    assert pod_resource(each, allocated=allocated) == found
    if containers_tell_requests(each):
        plain = _pod_resource(pod("p", containers=each.tree["spec"]["containers"]))
        assert found == plain
        assert pod_requests(each, use_status=True, allocated=allocated) == pod_requests(each)
