"""How many pods of a node match."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.labels import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, Selector, requirement
from controlplane.api.object import Object
from controlplane.scheduler.plugins.spread_constraints import count_matching
from controlplane.scheduler.state.pod_info import PodInfo

WORDS = st.sampled_from(("a", "b"))
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: requirement(key, operator, sorted(values)),
        WORDS, st.sampled_from((IN, NOT_IN)), st.sets(WORDS, min_size=1),
    ),
    st.builds(lambda key, operator: requirement(key, operator, ()), WORDS,
              st.sampled_from((EXISTS, DOES_NOT_EXIST))),
)  # fmt: skip


def pod(namespace: str, labels: dict[str, str], *, ends: bool) -> PodInfo:
    meta: dict[str, Any] = {"name": "p", "namespace": namespace, "labels": labels}
    if ends:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    view: Any = Object({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {}}).view
    return PodInfo(view)


PODS = st.lists(st.builds(lambda space, labels, ends: pod(space, labels, ends=ends), WORDS,
                          st.dictionaries(WORDS, WORDS), st.booleans()), max_size=6)  # fmt: skip


@given(PODS, st.lists(REQUIREMENTS, max_size=12), st.booleans())
def test_those_count_that_match_and_stay(pods, requirements, nothing):
    selector = Selector(() if nothing else requirements, nothing=nothing)
    expected = sum(
        each.pod.namespace == "a"
        and each.pod.metadata.deletion_timestamp is None
        and not selector.empty()
        and selector.matches(each.pod.labels)
        for each in pods
    )
    assert count_matching(pods, selector, "a") == expected
