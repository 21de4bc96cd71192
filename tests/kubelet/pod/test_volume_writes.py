"""What a pod's annotations say of its writes."""

from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.kubelet.pod.volume_writes import Writing, writing_of

SECOND = 1_000_000_000


def written(**notes):
    told = {f"emulate.controlplane/{key.replace('_', '-')}": value for key, value in notes.items()}
    metadata = {"name": "web", "namespace": "default", "uid": "1", "annotations": told}
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return writing_of(Object(tree).view)


def test_who_names_no_volume_writes_nothing():
    assert written(writes="3") is None


def test_volumes_are_written_to_in_turn():
    found = written(writes_to="log data", writes="3", write_seconds="0.5")
    assert found == Writing(("log", "data"), 3, SECOND // 2)
    assert [found.volume(number) for number in range(3)] == ["log", "data", "log"]
    assert [found.over(number) for number in range(5)] == [False, False, False, True, True]


@pytest.mark.parametrize("text", ["", "many", "-1"])
def test_what_is_said_wrongly_is_ignored(text):
    found = written(writes_to="log", writes=text, write_seconds=text)
    assert found == Writing(("log",), None, SECOND)
    assert not found.over(1_000_000)
