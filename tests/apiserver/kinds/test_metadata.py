"""Changes of metadata."""

from __future__ import annotations

from controlplane.apiserver.kinds.metadata import change_errors


def test_new_finalizers_of_a_deleted_object_are_quoted() -> None:
    old = {"name": "a", "deletionTimestamp": "2020-01-01T00:00:00Z"}
    found = change_errors({**old, "resourceVersion": "1", "finalizers": ["\n", "b"]}, old)
    assert any(r'[]string{"\n", "b"}' in str(each) for each in found)
