"""Acknowledged writes against the store's history: lost updates, preconditions that did not hold, early removals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.api.object import Object
from controlplane.api.request import STRATEGIC_MERGE_PATCH, Request, Response
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.requests.registry import Registry
from controlplane.apiserver.storage.store import Store
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.writes import NAME, writes_do_what_was_asked
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

LAW = writes_do_what_was_asked("etcd")


class World:
    """A store of config maps, and a listener that is told of requests and answers."""

    def __init__(self) -> None:
        self.store = Store()
        self.space = self.store.keyspace("/registry/configmaps/")
        listeners: list[Any] = []
        self.world = SimpleNamespace(overhear=listeners.append)
        self.cluster = SimpleNamespace(store=self.store)
        self.notes: dict[str, Any] = {}
        assert LAW.begin is not None
        LAW.begin(self)  # type: ignore[arg-type]
        (self.listener,) = listeners
        self.asked = 0

    def put(self, uid: str = "u", **metadata: Any) -> Object:
        version = str(self.store.revision + 1)
        named = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": version}
        obj = Object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}})
        self.space.put(obj.key, obj)
        return obj

    def ask(self, verb: str, body: Any = None, resource: str = "configmaps") -> Any:
        kind = STRATEGIC_MERGE_PATCH if verb == "patch" else "application/json"
        asked = Request(
            verb, resource=resource, namespace="default", name="a", body=body, content_type=kind
        )
        self.asked += 1
        number = SimpleNamespace(number=self.asked, asker=SimpleNamespace(label="user/main"))
        self.listener.hears(SimpleNamespace(request=number, payload=asked), None)
        return number

    def answer(self, number: Any, obj: Object | None = None, code: int = 200, **tree: Any) -> None:
        self.listener.hears_answer(number, Response(code, tree, obj), None)

    def said(self) -> str | None:
        found: str | None = LAW.check(self)  # type: ignore[arg-type]
        return found and found.removeprefix("user/main: ")


def labels(**found: str) -> dict[str, Any]:
    return {"metadata": {"labels": found}}


def test_a_patch_that_undoes_the_one_before_is_found() -> None:
    world = World()
    world.put(labels={})
    number = world.ask("patch", labels(mine="1"))
    world.put(labels={"other": "1"})
    world.answer(number, world.put(labels={"mine": "1"}))
    assert world.said() == (
        "patch configmaps default/a changed metadata.labels.other, which it does not name"
    )


def test_a_patch_that_leaves_everything_else_alone_is_sound() -> None:
    world = World()
    world.put(labels={"other": "1"})
    number = world.ask("patch", labels(mine="1"))
    world.answer(number, world.put(labels={"mine": "1", "other": "1"}))
    assert world.said() is None


def test_a_patch_that_changes_nothing_is_answered_with_what_another_wrote() -> None:
    world = World()
    world.put(labels={"mine": "1"})
    one, other = world.ask("patch", labels(mine="1")), world.ask("patch", labels(mine="2"))
    written = world.put(labels={"mine": "2"})
    world.answer(world.ask("patch", labels(mine="2")), written)
    world.answer(other, written)
    world.answer(one, written)
    assert world.said() is None


@pytest.mark.parametrize("exact", [{"uid": "u"}, {"resourceVersion": "2"}])
def test_an_update_over_another_than_it_insists_on_is_found(exact) -> None:
    world = World()
    assert world.put().resource_version == 2
    number = world.ask("update", {"metadata": {"name": "a", **exact}})
    world.put("v")
    world.answer(number, world.put("v"))
    (name, wanted), actual = next(iter(exact.items())), world.space.get("default/a")
    assert actual is not None
    over = "v" if name == "uid" else "3"
    what = "uid" if name == "uid" else "version"
    assert world.said() == (
        f"update configmaps default/a insisted on {what} {wanted}, and wrote over {over}"
    )


def test_an_update_over_what_it_insists_on_is_sound() -> None:
    world = World()
    world.put()
    number = world.ask("update", {"metadata": {"name": "a", "uid": "u", "resourceVersion": "2"}})
    world.answer(number, world.put())
    assert world.said() is None


def test_a_deletion_of_another_object_than_it_insists_on_is_found() -> None:
    for uid, said in (("u", None), ("w", "insisted on uid w, and wrote over u")):
        world = World()
        world.put()
        number = world.ask("delete", {"preconditions": {"uid": uid}})
        world.space.delete("default/a")
        world.answer(number)
        assert world.said() == (said and f"delete configmaps default/a {said}")


def test_a_deletion_that_takes_the_next_object_of_the_name_is_found_by_its_answer() -> None:
    world = World()
    world.put()
    number = world.ask("delete", {"preconditions": {"uid": "u"}})
    world.space.delete("default/a")
    world.put("v")
    world.space.delete("default/a")
    world.answer(number, kind="Status", details={"uid": "v"})
    assert world.said() == "delete configmaps default/a insisted on uid u, and deleted v"


def test_an_update_removes_nothing_that_has_time_to_end() -> None:
    world = World()
    going = world.put(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=5)
    number = world.ask("update", {"metadata": {"name": "a"}})
    forced = world.ask("delete", {"gracePeriodSeconds": 0})
    world.space.delete("default/a")
    world.answer(number, going)
    assert world.said() is None, "maybe the deletion removed it"
    world.answer(forced)
    going = world.put(deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=5)
    number = world.ask("update", {"metadata": {"name": "a"}})
    world.space.delete("default/a")
    world.answer(number, going)
    assert world.said() == "update configmaps default/a removed it, which had 5 seconds to end"


def test_what_insists_on_nothing_is_in_conflict_with_nothing() -> None:
    world = World()
    text = "the object has been modified; please apply your changes to the latest version"
    number = world.ask("update", {"metadata": {"name": "a", "resourceVersion": "1"}})
    world.answer(number, code=409, message=text)
    assert world.said() is None
    world.answer(world.ask("patch", labels(mine="1")), code=409, message=text)
    assert world.said() == (
        "patch configmaps default/a insists on no version, and was refused because of another one"
    )


def test_a_wrong_uid_is_a_conflict_and_no_wrong_field() -> None:
    world = World()
    number = world.ask("update", {"metadata": {"name": "a", "uid": "w"}})
    world.answer(number, code=422, details={"causes": [{"field": "metadata.uid"}]})
    assert world.said() == (
        "update configmaps default/a was refused as invalid, and not because the object is not w"
    )


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["preconditions", "grace"])
def test_search_finds_a_server_that_forgets(mistake, monkeypatch) -> None:
    """A deletion whose preconditions are not checked; an update that removes a pod which has time to end."""
    if mistake == "grace":
        finished = Registry.is_finished

        def early(self: Registry, old: Any, new: Any) -> bool:
            metadata = {**old["metadata"], "deletionGracePeriodSeconds": 0}
            return finished(self, {**old, "metadata": metadata}, new)

        monkeypatch.setattr(Registry, "is_finished", early)
    else:
        once = Registry._once

        def bare(self: Registry, ctx: Any, key: str, found: Object, options: DeleteOptions) -> Any:
            return once(self, ctx, key, found, DeleteOptions(grace=options.grace))

        monkeypatch.setattr(Registry, "_once", bare)
    churn = loading.from_module(loading.NAMED["controller-churn"])
    plan = plan_of(churn, part="writers")
    alone = evolve(plan.scenario, invariants=(LAW,))
    seen = Campaign(evolve(plan, scenario=alone)).explore(40)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert NAME in seen.findings[0].result.reason
