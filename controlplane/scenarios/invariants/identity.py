"""The identity invariant: no write that rests on an object reaches another object of its name.

Names are used again: of a StatefulSet's pods, of nodes, of claims. A component that has only been told of the first
object decides about that one; if its request names neither uid nor resourceVersion, the server carries the decision out
on whatever has the name by then. Of the races that were seen on real components, seven are of this form (kubernetes
77952, 141568, 72155 ...).

What a component knows is bounded from above: the watch events that one of its informers has received, and the answers
that the same task has received. So every violation is one: the task cannot have known the object that it changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.request import Request, Response
from controlplane.client.loops.reflector import WatchBatch
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.plans.passing import BACKGROUND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.process import Mailbox, Message, Task
    from actors.process import Request as Asked
    from controlplane.scenarios.engine.run import Run

__all__ = ["names_its_object", "uid_of", "writes_keep_to_their_object"]

NAME: Final = "a write reaches the object that it is about"
_CHANGING: Final = frozenset(("update", "patch", "delete"))
_EVICTION: Final = "eviction"


Key = tuple[str, str, str]
"""Resource, namespace, name."""
Uids = dict[Key, dict[str, None]]


@define
class _Write:
    """A request on its way that names no version: its key, and the uids of that name that its sender had received."""

    verb: str
    key: Key
    known: tuple[str, ...]


@define
class _Stream:
    """The census of one watch: what its client takes out of the mailbox is known to it."""

    resource: str
    told: Uids

    def arrived(self, message: Message) -> None:
        """Do nothing: the client has not read it (`Census`)."""

    def taken(self, message: Message) -> None:
        """Note the events that a client has received (`Census`)."""
        batch = message.payload
        if isinstance(batch, WatchBatch):
            for event in batch.events:
                _note(self.told, self.resource, event.object.metadata)


@define
class _Knowledge:
    """Objects received, by component from watches and by task from answers; the first violation."""

    told: dict[str, Uids] = field(factory=dict)
    answers: dict[Task, Uids] = field(factory=dict)
    asked: dict[int, tuple[Task, str, _Write | None]] = field(factory=dict)
    broken: str = ""

    # ---- the listener

    def hears(self, message: Message, target: Mailbox) -> None:
        """Note which object a write is about, and listen to a watch (`Listener`)."""
        payload = message.payload
        if (
            not isinstance(payload, Request)
            or message.sender.experimenter
            or payload.resource in BACKGROUND
        ):
            return
        actor = message.sender.name
        if message.stream is not None:
            told = self.told.setdefault(actor, {})
            message.stream.count(_Stream(payload.resource, told))
        if message.request is not None:
            asker = message.request.asker
            write = self._write(actor, asker, payload)
            self.asked[message.request.number] = asker, payload.resource, write

    def hears_answer(self, request: Asked, value: object, error: BaseException | None) -> None:
        """Compare the object of a write with what was known, and note what an answer tells (`Listener`)."""
        found = self.asked.pop(request.number, None)
        if found is None or error is not None or not isinstance(value, Response) or not value.ok:
            return
        task, resource, write = found
        if write is not None and not self.broken:
            uid = uid_of(value)
            if uid and uid not in write.known:
                self.broken = _violation(f"{task.actor.name}/{task.name}", write, uid)
        told = self.answers.setdefault(task, {})
        if value.items is not None:
            for each in value.items:
                _note(told, resource, each.metadata)
        elif value.object is not None:
            _note(told, resource, value.object.metadata)

    # ---- what a request is about

    def _write(self, actor: str, task: Task, request: Request) -> _Write | None:
        """Return a write that names no version of an object of which its sender knows."""
        evicts = request.subresource == _EVICTION
        if (request.verb not in _CHANGING and not evicts) or not request.name:
            return None
        key = request.resource, request.namespace, request.name
        if names_its_object(request, evicts=evicts):
            return None
        if request.resource == "nodes" and request.name == actor:
            return None  # a kubelet reports its machine to whichever Node has its name
        known = (
            *self.told.get(actor, {}).get(key, ()),
            *self.answers.get(task, {}).get(key, ()),
        )
        return _Write(request.verb, key, known) if known else None


def _note(told: Uids, resource: str, metadata: Any) -> None:
    uid = metadata.get("uid")
    if uid:
        key = resource, metadata.get("namespace", ""), metadata.get("name", "")
        told.setdefault(key, {})[uid] = None


def names_its_object(request: Request, *, evicts: bool) -> bool:
    """Return whether a request names the uid or the version of its object."""
    body = request.body
    if isinstance(body, list):
        return any(isinstance(each, dict) and each.get("op") == "test" for each in body)
    if not isinstance(body, dict):
        return False
    if evicts:
        body = body.get("deleteOptions") or {}
    of = "preconditions" if request.verb == "delete" or evicts else "metadata"
    named: Mapping[str, Any] = body.get(of) or {}
    return bool(named.get("uid") or named.get("resourceVersion"))


def uid_of(response: Response) -> str:
    """Return the uid of the object that a write changed, "" if the answer does not tell it."""
    if response.object is not None:
        return response.object.uid
    tree = response.tree
    of = tree.get("details") if tree.get("kind") == "Status" else tree.get("metadata")
    return str((of or {}).get("uid") or "")


def _violation(sender: str, write: _Write, uid: str) -> str:
    resource, namespace, name = write.key
    place = f"{namespace}/{name}" if namespace else name
    return (
        f"{sender}: {write.verb} {resource} {place} reached uid {uid}, of which it knew nothing;"
        f" it knew {write.known[-1]}"
    )


def writes_keep_to_their_object(*servers: str) -> Invariant:
    """After each step of these API servers: no component changed an object that it had not been told of.

    The users of a scenario are left out: they may name what they do not know.
    """

    def begin(run: Run) -> None:
        run.notes[NAME] = known = _Knowledge()
        run.world.overhear(known)

    def check(run: Run) -> str | None:
        known: _Knowledge = run.notes[NAME]
        return known.broken or None

    return Invariant(NAME, check, servers or ("apiserver",), begin=begin)
