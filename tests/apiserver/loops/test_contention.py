"""Which requests meet: a short answer for many is the same as asking about each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.inlet import ExternalMessage
from controlplane.api.request import Request
from controlplane.apiserver.loops import contention
from controlplane.apiserver.loops.contention import UNREAD, Crowd, from_outside, meets

REQUESTS = st.builds(
    lambda verb, resource, namespace, name, subresource, named: Request(
        verb,
        resource=resource,
        namespace=namespace,
        name="" if verb == "create" and not subresource else name,
        subresource=subresource,
        body=UNREAD
        if named is None
        else {"metadata": {"name": named}}
        if named
        else {"metadata": {"generateName": "x-"}},
    ),
    st.sampled_from(("get", "list", "create", "update", "patch", "delete", "deletecollection")),
    st.sampled_from(
        (
            "pods",
            "bindings",
            "nodes",
            "services",
            "namespaces",
            "configmaps",
            "poddisruptionbudgets",
        )
    ),
    st.sampled_from(("a", "b")),
    st.sampled_from(("", "x", "y")),
    st.sampled_from(("", "", "status", "resize", "eviction", "binding")),
    st.sampled_from(("", "x", "y", None)),
)


@pytest.mark.slow
@given(
    REQUESTS,
    st.lists(REQUESTS, max_size=12),
    st.lists(REQUESTS, max_size=12),
    st.sets(st.sampled_from(("a", "b"))),
)
def test_a_request_meets_some_if_it_meets_one_of_them(one, gone, others, with_quotas):
    has_quotas = with_quotas.__contains__
    crowd = Crowd()
    for each in (*gone, *others):
        crowd.come(each)
    for each in gone:
        crowd.go(each)
    assert crowd.size == len(others)
    assert crowd.meets_any(one, has_quotas) == any(meets(one, each, has_quotas) for each in others)


@pytest.mark.slow
@given(REQUESTS, st.lists(REQUESTS, max_size=12), st.lists(REQUESTS, max_size=12))
def test_that_remembers_few_sorts_of_requests_and_forgets_them(one, gone, others):
    crowd = Crowd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contention, "PLANS", 2)
        for each in (*gone, *others):
            crowd.come(each)
        for each in gone:
            crowd.go(each)
        assert len(crowd._plans) <= 2
        found = crowd.meets_any(one, lambda _: False)
    assert found == any(meets(one, each, lambda _: False) for each in others)
    for each in others:
        crowd.go(each)
    assert not any(cell.count or cell.names for cell in crowd._cells.values())


def outside(method, path):
    return ExternalMessage({"m": method, "p": path}, None)


PODS = "/api/v1/namespaces/a/pods"


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", PODS, ("create", "pods", "a", "", "")),
        ("POST", f"{PODS}/x/eviction", ("create", "pods", "a", "x", "eviction")),
        ("PATCH", f"{PODS}/x", ("patch", "pods", "a", "x", "")),
        ("PUT", f"{PODS}/x/status", ("update", "pods", "a", "x", "status")),
        ("DELETE", f"{PODS}/x", ("delete", "pods", "a", "x", "")),
        ("DELETE", PODS, ("deletecollection", "pods", "a", "", "")),
        ("DELETE", "/api/v1/namespaces/a", ("delete", "namespaces", "", "a", "")),
        (
            "POST",
            "/apis/example.com/v1/things" + "x" * 2000,
            ("create", "things" + "x" * 2000, "", "", ""),
        ),
    ],
)
def test_a_request_from_outside_is_about_what_its_first_line_says(method, path, expected):
    found = from_outside(outside(method, path))
    assert (found.verb, found.resource, found.namespace, found.name, found.subresource) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("POST", PODS), ("POST", PODS), False),
        (("POST", PODS), ("GET", PODS), False),
        (("POST", PODS), ("PATCH", f"{PODS}/x/status"), True),
        (("PATCH", f"{PODS}/x/status"), ("POST", PODS), True),
        (("PATCH", f"{PODS}/x"), ("PATCH", f"{PODS}/y"), False),
        (("PATCH", f"{PODS}/x"), ("DELETE", PODS), True),
        (("POST", PODS), ("POST", "/api/v1/namespaces/b/pods"), False),
        (("POST", PODS), ("PATCH", "/api/v1/namespaces/b"), True),
        (("POST", PODS), ("POST", "/somewhere/else"), True),
        (("POST", "/somewhere/else"), ("GET", PODS), True),
    ],
)
def test_requests_from_outside_meet_by_what_they_are_about(one, other, expected):
    crowd = Crowd()
    message = outside(*other)
    crowd.come(message)
    assert crowd.meets_any(from_outside(outside(*one)), lambda _: False) is expected
    crowd.go(message)
    assert not crowd.meets_any(from_outside(outside(*one)), lambda _: False)


def test_creations_that_a_quota_counts_meet_from_outside_as_well():
    crowd = Crowd()
    crowd.come(outside("POST", PODS))
    one = from_outside(outside("POST", "/api/v1/namespaces/a/configmaps"))
    assert crowd.meets_any(one, lambda namespace: namespace == "a")
    assert not crowd.meets_any(one, lambda _: False)


def test_news_of_a_connection_meets_no_request():
    crowd = Crowd()
    crowd.come(ExternalMessage({"gone": 7}, None))
    assert not crowd.meets_any(from_outside(outside("PATCH", f"{PODS}/x")), lambda _: False)


@given(REQUESTS)
def test_what_is_not_known_at_all_meets_all_that_writes(one):
    crowd = Crowd()
    crowd.come(object())
    assert crowd.meets_any(one, lambda _: False) == (one.verb not in ("get", "list"))
