"""Invariants of acknowledged writes: each did to the stored object what was asked, and nothing else.

Upstream: staging/src/k8s.io/apiserver pkg/registry/generic/registry/store.go (`Update`, `Delete`) and
pkg/storage/etcd3/store.go (`GuaranteedUpdate`, `conditionalDelete`). What was computed from one version is written over
that version or computed again; preconditions hold of the version that is written over, not of one read earlier.

An answer names the version that it wrote, and the store's history has the one before. So each version is judged by
itself: this finds a lost update at once, of any client and component, where a search for an order of all answers
(`linearizable`) sees versions and no contents. A write that changes nothing is answered with a version of another one,
so a version is judged once all have been answered that may have written it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.request import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Request, Response
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.identity import uid_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.process import Mailbox, Message
    from actors.process import Request as Asked
    from controlplane.api.object import Object
    from controlplane.apiserver.storage.entries import Event
    from controlplane.scenarios.engine.run import Run

__all__ = ["writes_do_what_was_asked"]

NAME: Final = "an acknowledged write did what was asked"
WRITING: Final = frozenset(("create", "update", "patch", "delete"))
BY_SERVERS: Final = frozenset(("deprecated.daemonset.template.generation",))
"""Entries of these maps that a server keeps itself."""
CHANGED: Final = ("the object has been modified", "Precondition failed")
"""The messages of conflicts with another version or object."""
MAPS: Final = (("data",), ("metadata", "labels"), ("metadata", "annotations"))
"""Maps of which a patch changes only the entries that it names."""


@define
class _Write:
    """A write on its way: the request, and the revision of the store when it was sent."""

    request: Request
    since: int

    @property
    def place(self) -> str:
        """The object, as messages name it."""
        asked = self.request
        name = asked.name or asked.body["metadata"].get("name", "")
        return f"{asked.label} {asked.namespace}/{name}".removesuffix("/")

    @property
    def expected(self) -> tuple[str, str]:
        """The uid and the version that it insists on; "" for any."""
        body = self.request.body
        if not isinstance(body, dict) or self.request.verb == "create":
            return "", ""
        of = "preconditions" if self.request.verb == "delete" else "metadata"
        found = body.get(of) or {}
        version = found.get("resourceVersion") or ""
        return found.get("uid") or "", "" if version == "0" else version


@cache
def _prefix(group: str, resource: str) -> str:
    """The place of a built-in resource in the store; "" for others."""
    from controlplane.apiserver.schema.feature_gates import GATES
    from controlplane.apiserver.schema.resources import builtin_resources

    for info in builtin_resources(gates=frozenset(GATES)):
        if (info.group, info.resource) == (group, resource):
            return str(info.storage_prefix)
    return ""


@define
class _Writes:
    """The writes on their way by number, and the first that did something else."""

    run: Run
    asked: dict[int, _Write] = field(factory=dict)
    claims: dict[tuple[str, str], dict[int, list[str | None]]] = field(factory=dict)
    """By resource and key, then by version: what is wrong with it in view of each write that was answered with it."""
    broken: str = ""

    # ---- the listener

    def hears(self, message: Message, target: Mailbox) -> None:
        """Note a write (`Listener`)."""
        asked, payload = message.request, message.payload
        if (
            asked is not None
            and isinstance(payload, Request)
            and payload.verb in WRITING
            and not (payload.verb == "create" and payload.subresource)
            and _prefix(payload.group, payload.resource)
            and "dryRun" not in payload.query
        ):
            self.asked[asked.number] = _Write(payload, self.run.cluster.store.revision)

    def hears_answer(self, request: Asked, value: object, error: BaseException | None) -> None:
        """Judge an answer (`Listener`)."""
        write = self.asked.pop(request.number, None)
        if write is None or self.broken or not isinstance(value, Response):
            return
        place = f"{request.asker.label}: {write.place}"
        said = self._judged(write, value, place) if value.ok else _refused(write, value)
        if said is not None:
            self.broken = f"{place} {said}"
        self._judge(write.request)

    def _judge(self, of: Request) -> None:
        """Judge the versions of an object that no write on its way can have written."""
        place = of.resource, _key(of)
        claims = self.claims.get(place)
        if not claims:
            return
        others = [
            each.since
            for each in self.asked.values()
            if (each.request.resource, _key(each.request)) == place
        ]
        for version in [each for each in claims if each <= min(others, default=each)]:
            said = claims.pop(version)
            if None not in said and not self.broken:
                self.broken = said[0] or ""

    def _judged(self, write: _Write, answer: Response, place: str) -> str | None:
        asked = write.request
        space = self.run.cluster.store.keyspace(_prefix(asked.group, asked.resource))
        if space.forgotten > write.since:
            return None
        news = space.news_after(write.since)
        if asked.verb == "delete":
            return _deleted(write, answer, news, space.get(_key(asked)))
        if answer.object is None or asked.subresource not in ("", "status"):
            return None
        version = answer.object.resource_version
        event = next((each for each in news if each.revision == version), None)
        if event is None or event.new is None:
            return self._removed(write, news)
        said = _wrote(write, event)
        claims = self.claims.setdefault((asked.resource, _key(asked)), {})
        claims.setdefault(version, []).append(None if said is None else f"{place} {said}")
        return None

    def _removed(self, write: _Write, news: Iterable[Event]) -> str | None:
        """Say that an update removed an object that has time to end.

        An update takes the last obstacle to a deletion away (`ShouldDeleteDuringUpdate`), and the time is one.
        """
        key = _key(write.request)
        for each in news:
            if each.new is not None or each.key != key or each.old is None:
                continue
            grace = each.old.metadata.get("deletionGracePeriodSeconds")
            if grace and not self._is_being_deleted(key):
                return f"removed it, which had {grace} seconds to end"
        return None

    def _is_being_deleted(self, key: str) -> bool:
        return any(
            each.request.verb == "delete" and _key(each.request) == key
            for each in self.asked.values()
        )


def _key(asked: Request) -> str:
    name = asked.name or asked.body["metadata"].get("name", "")
    return f"{asked.namespace}/{name}" if asked.namespace else name


def _refused(write: _Write, answer: Response) -> str | None:
    """Say that the uid of another object was taken for a wrong field, or that there is a conflict with nothing.

    Preconditions are checked first, and what insists on no version is computed again over the newer one.
    """
    uid, version = write.expected
    modified = any(text in answer.tree.get("message", "") for text in CHANGED)
    if answer.code == 409 and modified and not uid and not version:
        if isinstance(write.request.body, dict):
            return "insists on no version, and was refused because of another one"
    causes = (answer.tree.get("details") or {}).get("causes") or ()
    wrong = any(each.get("field") == "metadata.uid" for each in causes)
    if write.request.verb == "update" and uid and answer.code == 422 and wrong:
        return f"was refused as invalid, and not because the object is not {uid}"
    return None


def _meets(write: _Write, before: Object[Any]) -> str | None:
    """Say which precondition does not hold of the version that was written over."""
    uid, version = write.expected
    if uid and uid != before.uid:
        return f"insisted on uid {uid}, and wrote over {before.uid}"
    if version and version != str(before.resource_version):
        return f"insisted on version {version}, and wrote over {before.resource_version}"
    return None


def _deleted(write: _Write, answer: Response, news: list[Event], now: object | None) -> str | None:
    """Say that a deletion took another object than was meant."""
    if write.expected == ("", ""):
        return None
    uid, _ = write.expected
    taken = uid_of(answer)
    if uid and taken and taken != uid:
        return f"insisted on uid {uid}, and deleted {taken}"
    key, said = _key(write.request), None
    for each in news:
        if each.key == key and each.old is not None:
            said = _meets(write, each.old)
            if said is None:
                return None
    if said is None and now is None:
        return None  # it was gone before, and the answer says what it was
    return said


def _wrote(write: _Write, event: Event) -> str | None:
    """Say what a write did besides what was asked."""
    before, after = event.old, event.new
    assert after is not None
    if write.request.verb == "create":
        return None if before is None else f"wrote over uid {before.uid}"
    if before is None:
        return None  # an update may create
    said = _meets(write, before)
    if said is None and write.request.verb == "patch":
        if write.request.content_type in (MERGE_PATCH, STRATEGIC_MERGE_PATCH):
            return _patched(write.request.body, before, after)
    return said


def _patched(body: Any, before: Object[Any], after: Object[Any]) -> str | None:
    """Say which entries a merge patch changed without naming them."""
    for path in MAPS:
        named, old, new = (_at(tree, path) for tree in (body, before.tree, after.tree))
        if "$patch" in named or None in (old, new):
            continue
        for entry in {**old, **new}:
            if entry in named or entry in BY_SERVERS:
                continue
            if old.get(entry) != new.get(entry):
                return f"changed {'.'.join(path)}.{entry}, which it does not name"
    return None


def _at(tree: Any, path: tuple[str, ...]) -> dict[str, Any]:
    for name in path:
        tree = (tree or {}).get(name)
    found: dict[str, Any] = tree or {}
    return found


def writes_do_what_was_asked(*servers: str) -> Invariant:
    """After each step of these API servers: every write that was acknowledged did what was asked, and nothing else."""

    def begin(run: Run) -> None:
        run.notes[NAME] = writes = _Writes(run)
        run.world.overhear(writes)

    def check(run: Run) -> str | None:
        writes: _Writes = run.notes[NAME]
        return writes.broken or None

    return Invariant(NAME, check, servers or ("apiserver",), begin=begin)
