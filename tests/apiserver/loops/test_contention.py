"""Which requests meet: a short answer for many is the same as asking about each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.request import Request
from controlplane.apiserver.loops.contention import Crowd, meets

REQUESTS = st.builds(
    lambda verb, resource, namespace, name, subresource, named: Request(
        verb,
        resource=resource,
        namespace=namespace,
        name="" if verb == "create" and not subresource else name,
        subresource=subresource,
        body={"metadata": {"name": named}} if named else {"metadata": {"generateName": "x-"}},
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
    st.sampled_from(("", "x", "y")),
)


@given(
    REQUESTS,
    st.lists(REQUESTS, max_size=6),
    st.lists(REQUESTS, max_size=6),
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


@given(REQUESTS)
def test_what_comes_from_outside_meets_all_that_writes(one):
    crowd = Crowd()
    crowd.come(object())
    assert crowd.meets_any(one, lambda _: False) == (one.verb not in ("get", "list"))
