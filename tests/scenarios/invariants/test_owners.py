"""Adoption and collection: what is done without a look, or to another version than was looked at, is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controlplane.api.request import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request, Response
from controlplane.scenarios.invariants.owners import (
    adopters_look_first,
    nothing_outlives_its_owners,
)
from tests.scenarios.invariants.stored import StoredRun, made

LAW = adopters_look_first("controller-manager")
ADOPTION = {
    "metadata": {
        "uid": "lone",
        "ownerReferences": [
            {"kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
        ],
    }
}
NOW = "2026-01-01T00:00:00Z"


class Task:
    """A task, by identity."""

    def __init__(self, name: str) -> None:
        self.name, self.label = name, f"controller-manager/{name}"


class World:
    """A listener that is told of the requests of one task, and of their answers."""

    def __init__(self, task: str) -> None:
        listeners: list[Any] = []
        self.world = SimpleNamespace(overhear=listeners.append)
        self.notes: dict[str, Any] = {}
        self.task = Task(task)
        assert LAW.begin is not None
        LAW.begin(self)  # type: ignore[arg-type]
        (self.listener,) = listeners
        self.number = 0

    def ask(
        self, verb: str, resource: str, name: str, body: Any, answer: Response, kind: str = JSON
    ) -> str | None:
        request = Request(
            verb, resource=resource, namespace="default", name=name, body=body, content_type=kind
        )
        self.number += 1
        asked = SimpleNamespace(number=self.number, asker=self.task)
        sender = SimpleNamespace(experimenter=False)
        self.listener.hears(SimpleNamespace(request=asked, payload=request, sender=sender), None)
        self.listener.hears_answer(asked, answer, None)
        return LAW.check(self)  # type: ignore[arg-type]

    def get(self, resource: str, name: str, **metadata: Any) -> str | None:
        obj = made("ReplicaSet", name, resourceVersion="7", **metadata)
        return self.ask("get", resource, name, None, Response(200, obj.tree, obj))

    def adopt(self) -> str | None:
        return self.ask("patch", "pods", "lone", ADOPTION, Response(200, {}))

    def delete(self, code: int = 200, **preconditions: str) -> str | None:
        return self.ask("delete", "pods", "a", {"preconditions": preconditions}, Response(code, {}))


def test_an_owner_that_was_read_alive_may_adopt() -> None:
    world = World("replicaset.worker")
    assert world.get("replicasets", "web") is None
    assert world.adopt() is None
    assert world.adopt() is None, "one look is enough for all that it adopts at once"


@pytest.mark.parametrize(
    ("read", "said"),
    [
        ({"name": "other"}, "was not read before"),
        ({"name": "web", "uid": "next"}, "was not read before"),
        ({"name": "web", "deletionTimestamp": NOW}, "was read as being deleted"),
    ],
)
def test_an_owner_that_is_gone_or_goes_may_not(read, said) -> None:
    world = World("replicaset.worker")
    world.get("replicasets", read.pop("name"), **read)
    assert world.adopt() == (
        f"controller-manager/replicaset.worker: ReplicaSet web adopts lone, and {said}"
    )


def test_a_look_before_the_last_reconcile_does_not_count() -> None:
    world = World("replicaset.worker")
    world.get("replicasets", "web")
    world.ask("update", "replicasets", "web", {}, Response(200, {}))
    assert world.adopt() is not None


def test_the_collector_insists_on_what_it_has_read() -> None:
    task = "controller-manager/gc_attempt_to_delete.worker: delete pods default/a"
    for wanted, said in (
        ({"uid": "a", "resourceVersion": "7"}, None),
        ({"resourceVersion": "7"}, f"{task} does not insist on uid a, which it read"),
        ({"uid": "a"}, f"{task} does not insist on version 7, which it read"),
    ):
        world = World("gc_attempt_to_delete.worker")
        world.get("pods", "a")
        assert world.delete(**wanted) == said
    assert World("gc_attempt_to_delete.worker").delete(uid="a") == f"{task} was not read before"


def test_after_a_conflict_the_uid_is_enough() -> None:
    world = World("gc_attempt_to_delete.worker")
    world.get("pods", "a")
    assert world.delete(409, uid="a", resourceVersion="7") is None
    world.get("pods", "a")
    assert world.delete(uid="a") is None


@pytest.mark.parametrize(
    ("task", "kind", "metadata", "said"),
    [
        ("job.worker", MERGE_PATCH, {"finalizers": ["a"], "resourceVersion": "7"}, None),
        ("job.worker", STRATEGIC_MERGE_PATCH, {"finalizers": ["a"]}, None),
        ("job.worker", MERGE_PATCH, {"labels": {}}, None),
        (
            "job.worker",
            MERGE_PATCH,
            {"finalizers": None},
            "replaces finalizers, and does not insist on the version that it read",
        ),
        ("gc.orphan", STRATEGIC_MERGE_PATCH, {"ownerReferences": [], "uid": "a"}, None),
        (
            "gc.orphan",
            STRATEGIC_MERGE_PATCH,
            {"ownerReferences": []},
            "changes ownerReferences, and does not insist on the object that it means",
        ),
    ],
)
def test_a_patch_of_owners_or_finalizers_undoes_nothing(task, kind, metadata, said) -> None:
    found = World(task).ask("patch", "pods", "a", {"metadata": metadata}, Response(200, {}), kind)
    assert found == (said and f"controller-manager/{task}: patch pods default/a {said}")


def test_at_rest_an_object_has_an_owner_that_exists() -> None:
    law = nothing_outlives_its_owners()

    def said(*objects: Any) -> str | None:
        run = StoredRun(*objects)
        prefixes = SimpleNamespace(prefixes=lambda: ["/registry/pods/", "/registry/replicasets/"])
        run.cluster = SimpleNamespace(store=prefixes)
        return law.check(run)  # type: ignore[arg-type]

    references = [
        {"kind": "ReplicaSet", "name": name, "uid": name, "blockOwnerDeletion": True}
        for name in ("one", "two")
    ]
    pod, two = made("Pod", "a", ownerReferences=references), made("ReplicaSet", "two")
    assert said(pod, two) is None
    next_ = made("ReplicaSet", "two", uid="next")
    assert (
        said(pod, next_)
        == "Pod default/a is left over of ReplicaSet one and ReplicaSet two, gone by uid"
    )
    going = made("ReplicaSet", "two", finalizers=["foregroundDeletion"], deletionTimestamp=NOW)
    assert said(pod, going) is None
    assert said(going) == "ReplicaSet default/two waits for dependents, and has none"
