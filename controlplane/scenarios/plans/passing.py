"""Messages between processes: requests, answers and watch events, named by client, verb and object.

Where several API servers share a store, their calls to it are named, too. Pings, the store's own watches and streams
of bytes are not: no line of a plan means them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from controlplane.api.csi import CsiRequest
from controlplane.api.request import Request, Response
from controlplane.apiserver.loops.etcd import Call
from controlplane.apiserver.storage.transactions import Get, Transaction
from controlplane.client.loops.reflector import WatchBatch
from controlplane.scenarios.plans.language import ANSWER, EVENT, REQUEST

if TYPE_CHECKING:
    from actors.process import Mailbox, Message

CSI: Final = "csi"
"""The resource of calls to a CSI driver."""
ETCD: Final = "etcd"
"""Before the resource of calls to the store: `etcd/pods`."""
WRITE: Final = "write"
"""The verb of transactions of the store."""
CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")
BACKGROUND: Final = frozenset(("events", "leases", "nodes/status"))
"""Resources that are written all the time and that decisions rarely rest on."""


@frozen
class Passing:
    """One message. `tree` is the object: of a request the body, of an answer or an event what it tells.

    `peer` is the server; `code` the HTTP code of an answer; `uid` and `revision` those of the object, if known.
    """

    kind: str
    actor: str
    peer: str
    verb: str
    resource: str
    name: str
    tree: Any = field(default=None, repr=False)
    code: int = 0
    uid: str = ""
    revision: int = 0
    before: Any = field(default=None, repr=False)
    """The object before: of a request of a client outside as stored, of an event as the watch told it last."""

    def with_before(self, before: Any) -> Passing:
        """Return the message with the object as it was before."""
        return evolve(self, before=before)

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """The key of messages that repeat each other: kind, client, verb, resource and name."""
        return self.kind, self.actor, self.verb, self.resource, self.name

    @property
    def writes(self) -> bool:
        """Return whether it is a request to write, or its answer."""
        return self.kind != EVENT and self.verb in WRITES

    def __str__(self) -> str:
        code = f" {self.code}" if self.code else ""
        return f"{self.kind} {self.actor} {self.verb} {self.resource} {self.name}{code}".rstrip()


def key_of(namespace: str, name: str) -> str:
    """Return an object's name with its namespace, if it has one."""
    return f"{namespace}/{name}" if namespace else name


WRITES: Final = frozenset(("create", "update", "patch", "delete", "deletecollection"))


def is_background(each: Passing) -> bool:
    """Return whether a message belongs to what is written all the time."""
    resource = each.resource.removeprefix(f"{ETCD}/")
    return resource in BACKGROUND or resource.partition("/")[0] in BACKGROUND


def of_request(message: Message, target: Mailbox) -> Passing | None:
    """Return the name of a message that asks for something; None for others."""
    payload = message.payload
    sender, peer = message.sender.name, target.owner.name
    if isinstance(payload, Request):
        body = payload.body if isinstance(payload.body, dict) else None
        metadata = (body or {}).get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        name = payload.name or metadata.get("name") or ""
        return Passing(
            REQUEST,
            sender,
            peer,
            payload.verb,
            f"{payload.resource}/{payload.subresource}"
            if payload.subresource
            else payload.resource,
            f"{payload.namespace}/{name}" if payload.namespace else str(name),
            body,
            uid=str(metadata.get("uid") or ""),
        )
    if isinstance(payload, Call):
        return _of_call(payload, sender, peer)
    if isinstance(payload, CsiRequest):
        fields = payload.fields
        name = fields.get("volume_id") or fields.get("name") or fields.get("snapshot_id") or ""
        return Passing(REQUEST, sender, peer, payload.method, CSI, str(name), dict(fields))
    return None


def _of_call(call: Call, server: str, store: str) -> Passing | None:
    """Return the name of a server's call to its store: a read of one key, or a transaction by its first change."""
    operation = call.operation
    if isinstance(operation, Transaction) and operation.changes:
        verb, prefix, key = WRITE, operation.changes[0].prefix, operation.changes[0].key
    elif isinstance(operation, Get):
        verb, prefix, key = "get", operation.prefix, operation.key
    else:
        return None
    resource = prefix.strip("/").rpartition("/")[2]
    return Passing(REQUEST, server, store, verb, f"{ETCD}/{resource}", key)


def of_answer(asked: Passing, value: object) -> Passing:
    """Return the name of the answer to a request."""
    tree: Any = None
    code = uid = name = None
    revision = 0
    if isinstance(value, Response):
        tree, code = value.tree, value.code
        metadata = tree.get("metadata") if isinstance(tree, dict) else None
        if value.ok and isinstance(metadata, dict) and value.items is None:
            uid, name = metadata.get("uid"), metadata.get("name")
            text = str(metadata.get("resourceVersion") or "")
            revision = int(text) if text.isdigit() else 0
    named = asked.name
    if name and asked.verb == "create" and not named.rpartition("/")[2]:
        named = f"{named}{name}"
    return Passing(
        ANSWER,
        asked.actor,
        asked.peer,
        asked.verb,
        asked.resource,
        named,
        tree,
        code or 0,
        str(uid or ""),
        revision,
    )


def of_events(message: Message, target: Mailbox, resource: str) -> list[Passing]:
    """Return the names of the watch events that a message brings, in order; bookmarks have none."""
    payload = message.payload
    if not isinstance(payload, WatchBatch):
        return []
    actor, peer = target.owner.name, message.sender.name
    return [
        Passing(
            EVENT,
            actor,
            peer,
            event.type if event.type in CHANGES else "",
            resource,
            event.object.key,
            event.object.tree,
            uid=str(event.object.metadata.get("uid") or ""),
            revision=event.revision,
        )
        for event in payload.events
    ]
