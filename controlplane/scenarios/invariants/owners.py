"""Invariants of owner references: what is adopted has a living owner, and what is collected had none when it was read.

Upstream: pkg/controller/controller_ref_manager.go (`RecheckDeletionTimestamp`: an uncached read of the owner comes
before anything is adopted) and pkg/controller/garbagecollector/garbagecollector.go (`attemptToDeleteItem`,
`deleteObject`: an object is deleted as it was read, with the owners that it had then).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.request import MERGE_PATCH, Request, Response
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import all_objects

if TYPE_CHECKING:
    from actors.process import Mailbox, Message, Task
    from actors.process import Request as Asked
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["adopters_look_first", "nothing_outlives_its_owners"]

NAME: Final = "an owner is looked at before it adopts, and a dependent before it is collected"
COLLECTING: Final = "gc_attempt_to_delete"
COLLECTOR: Final = ("gc_", "gc.")
"""The beginnings of the names of the garbage collector's tasks."""
LISTS: Final = ("finalizers", "ownerReferences")
FOREGROUND: Final = "foregroundDeletion"
Place = tuple[str, str, str]
"""Resource, namespace and name."""


def _place(asked: Request) -> Place:
    return asked.resource, asked.namespace, asked.name


@define
class _Reads:
    """Single objects that each task has read since its last other request, and the first violation."""

    run: Run
    asked: dict[int, Request] = field(factory=dict)
    read: dict[Task, dict[Place, Object[Any]]] = field(factory=dict)
    refused: dict[Task, Place] = field(factory=dict)
    """Deletions that were refused because the object had changed."""
    broken: str = ""

    def hears(self, message: Message, target: Mailbox) -> None:
        """Note a read, and judge an adoption (`Listener`)."""
        asked, payload = message.request, message.payload
        if asked is None or not isinstance(payload, Request) or message.sender.experimenter:
            return
        task = asked.asker
        if payload.verb == "get" and not payload.subresource:
            self.asked[asked.number] = payload
        elif payload.verb == "patch":
            self._adopts(task, payload)
            self._replaces(task, payload)
        elif payload.verb == "delete" and task.name.startswith(COLLECTING):
            self.asked[asked.number] = payload
            self._collects(task, payload)
        elif payload.verb in ("create", "update", "delete"):
            self.read.pop(task, None)

    def hears_answer(self, request: Asked, value: object, error: BaseException | None) -> None:
        """Note what was read, and a deletion that was refused (`Listener`)."""
        asked = self.asked.pop(request.number, None)
        if asked is None or not isinstance(value, Response):
            return
        task = request.asker
        if asked.verb == "get":
            known = self.read.setdefault(task, {})
            known.pop(_place(asked), None)
            if value.ok and value.object is not None:
                known[_place(asked)] = value.object
        elif value.code == 409:
            self.refused[task] = _place(asked)
        else:
            self.refused.pop(task, None)

    def _adopts(self, task: Task, asked: Request) -> None:
        metadata = asked.body.get("metadata") if isinstance(asked.body, dict) else None
        for owner in (metadata or {}).get("ownerReferences") or ():
            if not owner.get("controller") or owner.get("$patch") or self.broken:
                continue
            if task.name.startswith(COLLECTING):
                continue  # it lets an object go on, and keeps the owners that it has
            seen = [each for each in self.read.get(task, {}).values() if each.uid == owner["uid"]]
            what = f"{task.label}: {owner['kind']} {owner['name']} adopts {asked.name}"
            if not seen:
                self.broken = f"{what}, and was not read before"
            elif seen[-1].metadata.get("deletionTimestamp"):
                self.broken = f"{what}, and was read as being deleted"

    def _replaces(self, task: Task, asked: Request) -> None:
        """Judge a patch that may undo what another one wrote: a list is replaced as a whole by a merge patch."""
        metadata = asked.body.get("metadata") if isinstance(asked.body, dict) else None
        if not metadata or self.broken:
            return
        version, uid = metadata.get("resourceVersion"), metadata.get("uid")
        what = f"{task.label}: {asked.label} {asked.namespace}/{asked.name}"
        lists = [each for each in LISTS if each in metadata]
        if lists and asked.content_type == MERGE_PATCH and not version:
            self.broken = (
                f"{what} replaces {lists[0]}, and does not insist on the version that it read"
            )
        elif lists and task.name.startswith(COLLECTOR) and not (version or uid):
            self.broken = (
                f"{what} changes {lists[0]}, and does not insist on the object that it means"
            )

    def _collects(self, task: Task, asked: Request) -> None:
        """Judge a deletion by what is stored: nothing else happens before the server reads it, or the server looks."""
        wanted = (asked.body or {}).get("preconditions") or {}
        if self.broken:
            return
        place = _place(asked)
        what = f"{task.label}: {asked.label} {asked.namespace}/{asked.name}"
        if place not in self.read.get(task, {}):
            self.broken = f"{what} was not read before"
            return
        known = self.read[task][place]
        if wanted.get("uid") != known.uid:
            self.broken = f"{what} does not insist on uid {known.uid}, which it read"
        elif not wanted.get("resourceVersion") and self.refused.get(task) != place:
            self.broken = (
                f"{what} does not insist on version {known.resource_version}, which it read"
            )


def adopters_look_first(*managers: str) -> Invariant:
    """After each step of these controller managers: no owner adopts before a live read has shown it alive, and the
    garbage collector deletes nothing but the version that it has read, and changes nothing but the object that it means
    (`patch.go`: the uid is a precondition). What replaces a list of finalizers or owners insists on the version.

    After a conflict it may delete a newer version that has the same owners, by uid alone.
    """

    def begin(run: Run) -> None:
        run.notes[NAME] = reads = _Reads(run)
        run.world.overhear(reads)

    def check(run: Run) -> str | None:
        reads: _Reads = run.notes[NAME]
        return reads.broken or None

    return Invariant(NAME, check, managers, begin=begin)


def nothing_outlives_its_owners() -> Invariant:
    """At rest each object with owners has one that exists, by uid, and no object waits for dependents that are gone.

    For worlds with a garbage collector that has come to rest.
    """

    def check(run: Run) -> str | None:
        stored = list(all_objects(run))
        living = {obj.uid for obj in stored}
        blocked: dict[str, str] = {}
        for obj in stored:
            owners = obj.metadata.get("ownerReferences") or ()
            if owners and not any(each["uid"] in living for each in owners):
                names = " and ".join(f"{each['kind']} {each['name']}" for each in owners)
                return f"{obj.tree['kind']} {obj.key} is left over of {names}, gone by uid"
            for each in owners:
                if each.get("blockOwnerDeletion"):
                    blocked[each["uid"]] = obj.key
        for obj in stored:
            if FOREGROUND in (obj.metadata.get("finalizers") or ()) and obj.uid not in blocked:
                if obj.metadata.get("deletionTimestamp"):
                    return f"{obj.tree['kind']} {obj.key} waits for dependents, and has none"
        return None

    return Invariant("nothing outlives its owners", check)
