"""Owners are found by reference and by selector, and asked for when a controlled object changes."""

import pytest

from controlplane.api.apps import ReplicaSet
from controlplane.api.object import Object
from controlplane.api.pod import Pod
from controlplane.client.indexer import Indexer
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ref_manager import namespace_index


def pod(owner="", uid="", *, kind="ReplicaSet", labels=None):
    references = []
    if owner:
        references = [{"kind": kind, "name": owner, "uid": uid or owner, "controller": True}]
    metadata = {"namespace": "n", "name": "p", "uid": "p", "ownerReferences": references}
    return Pod.from_tree({"metadata": {**metadata, "labels": labels or {"app": "a"}}})


@pytest.fixture
def asked():
    return []


@pytest.fixture
def owners(asked):
    cache = Indexer()
    cache.add_indexes(namespace=namespace_index)
    for name in ("a", "b"):
        tree = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"namespace": "n", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": {"selector": {"matchLabels": {"app": name}}},
        }
        obj = Object(tree)
        assert isinstance(obj.view, ReplicaSet)
        cache.put(obj)
    return Owners("ReplicaSet", cache, asked.append)


def test_an_owner_is_found_by_kind_name_and_uid(owners):
    assert owners.of(pod("a")).key == "n/a"
    assert owners.of(pod("a", "another-life")) is None
    assert owners.of(pod("a", kind="Job")) is None
    assert owners.of(pod()) is None


def test_owners_that_select_an_orphan_are_asked_for(owners, asked):
    owners.ask_adopters(pod(labels={"app": "b"}))
    assert asked == ["n/b"]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (pod("a"), pod("a"), ["n/a"]),
        (pod("a"), pod("b"), ["n/a", "n/b"]),
        (pod("a"), pod(), ["n/a", "n/a"]),
        (pod(), pod(), []),
        (pod(labels={"app": "a"}), pod(labels={"app": "b"}), ["n/b"]),
    ],
)
def test_an_update_concerns_the_former_owner_and_the_one_of_now(
    owners, asked, before, after, expected
):
    owners.changed(before, after)
    assert asked == expected
