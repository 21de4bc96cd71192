"""The pool of rejected pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.queue.metrics import QueueMetrics
from controlplane.scheduler.queue.unschedulable_pods import SPREAD, UnschedulablePods
from tests.scheduler.make import pod

AFFINITY = {"podAffinity": {}}
moves = st.lists(
    st.tuples(
        st.sampled_from(("add", "add", "remove", "replace")),
        st.integers(0, 5),
        st.booleans(),
        st.sampled_from(((), (SPREAD,), ("NodeResourcesFit",), (SPREAD, "NodeAffinity"))),
    ),
    max_size=40,
)


@given(moves)
def test_those_whom_another_pod_may_help_are_found_without_looking_at_all(operations):
    pool = UnschedulablePods(QueueMetrics())
    for number, (what, i, affine, rejectors) in enumerate(operations):
        affinity = AFFINITY if affine else {}
        each = pod(f"p{i}", uid=f"u{number}", affinity=affinity)
        known = pool.get(pod_key(each))
        if what == "remove":
            pool.remove(pod_key(each))
        elif what == "add":
            info = known or QueuedPodInfo.for_pod(each, 0)
            info.unschedulable_plugins = dict.fromkeys(rejectors)
            pool.add_or_update(info, "test")
        elif known is not None:
            known.pod_info.update(each)
            pool.replaced(known)
        wanted = [
            info
            for info in pool
            if SPREAD in info.unschedulable_plugins or info.pod_info.has_affinity
        ]
        assert pool.with_cross_pod_rules() == wanted
