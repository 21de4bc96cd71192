"""Conditions as a kubelet writes them: stamped once for all pods that say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.pod import Pod
from controlplane.kubelet.features import GENERATION_TRACKING, features
from controlplane.kubelet.pod import status as module
from controlplane.kubelet.pod.status import Condition, stamped
from controlplane.sharing.alike import KEPT, alike, alike_list

SECOND = 10**9
KINDS = ("Ready", "Initialized", "PodScheduled", "Mine")
FOUND = st.lists(
    st.builds(
        Condition,
        st.sampled_from(KINDS[:3]),
        st.sampled_from(("True", "False")),
        st.sampled_from(("", "Why")),
    ),
    max_size=3,
    unique_by=lambda each: each.type,
)
BEFORE = st.lists(
    st.builds(
        lambda kind, status: {
            "type": kind, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z",
        },
        st.sampled_from(KINDS),
        st.sampled_from(("True", "False")),
    ),
    max_size=4,
    unique_by=lambda each: each["type"],
)  # fmt: skip


@given(FOUND, BEFORE, st.integers(0, 2), st.integers(0, 3 * SECOND))
def test_conditions_that_pods_share_are_stamped_as_those_of_one_alone(
    found, before, generation, now
):
    shared = alike_list([alike(dict(each)) for each in before])
    expected = stamped(found, [dict(each) for each in before], generation, now)
    assert stamped(found, shared, generation, now) == expected
    assert stamped(found, shared, generation, now) == expected  # remembered by now


def test_pods_that_say_the_same_in_one_second_share_the_outcome_and_later_ones_do_not():
    found = [Condition("Ready", "True")]
    one, same, later = (stamped(found, [], 1, at) for at in (SECOND, SECOND + 5, 2 * SECOND))
    assert one is same
    assert [each[0]["lastTransitionTime"] for each in (one, later)] == [
        "1970-01-01T00:00:01Z", "1970-01-01T00:00:02Z",
    ]  # fmt: skip
    for number in range(2 * KEPT):
        stamped(found, [], 1, number * SECOND)
        assert len(module._stamps.known) <= KEPT


@pytest.mark.parametrize(
    ("release", "tracked"), [("1.32", False), ("1.33", False), ("1.34", True), ("1.36", True)]
)
def test_a_status_tells_the_generation_of_its_pod_from_1_34_on(release, tracked):
    on = features(release=release).enabled(GENERATION_TRACKING)
    tree = {"metadata": {"name": "a", "generation": 3}, "spec": {"containers": [{"name": "c"}]}}
    made = module.build(
        Pod.from_tree(tree),
        (),
        module.Observed(start_time=0, sandbox_ready=True),
        now=SECOND,
        tracks_generation=on,
    )
    told = [made, *made["conditions"]]
    assert [part.get("observedGeneration") for part in told] == [3 if tracked else None] * len(told)
