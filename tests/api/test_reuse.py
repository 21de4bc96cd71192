"""Decoding a revision from the one before gives what decoding it alone gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.object import Object

SPECS = {
    "nodeName": st.sampled_from(["", "a", "b"]),
    "priority": st.sampled_from([None, 0, 5]),
    "containers": st.sampled_from(
        [[{"name": "x", "resources": {"requests": {"cpu": "1"}}}], [{"name": "y"}]]
    ),
    "nodeSelector": st.sampled_from([{}, {"a": "b"}]),
    "schedulerName": st.sampled_from(["default-scheduler", "other"]),
    "unknownField": st.just(1),
    "tolerations": st.sampled_from([[], [{"key": "k", "operator": "Exists"}]]),
}
specs = st.fixed_dictionaries({}, optional=SPECS)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "conditions": st.sampled_from([[], [{"type": "PodScheduled", "status": "True"}]]),
        "startTime": st.sampled_from([None, "2026-01-01T00:00:00Z"]),
    },
)


@given(specs, statuses, specs, statuses, st.sets(st.sampled_from(sorted(SPECS))))
def test_reusing_parts_of_the_revision_before_changes_nothing(
    spec, status, newer, new_status, keep
):
    metadata = {"name": "web", "namespace": "default", "uid": "u"}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    before = Object({**head, "spec": spec, "status": status})
    newer = {**newer, **{key: value for key, value in spec.items() if key in keep}}
    tree = {**head, "spec": newer, "status": {**status, **new_status}}
    before.view  # noqa: B018 - decoded, so that it can be reused
    reused, alone = Object(tree, before).view, Object(tree).view
    assert (reused.spec, reused.status) == (alone.spec, alone.status)
    assert reused.metadata == alone.metadata
