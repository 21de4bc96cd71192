"""Clients outside of the world under a plan: control points at their connections, inside the server.

What a plan can do to the messages of an emulated process it can do to those of a process outside: its requests are
looked at as they enter the world, its answers and events as they leave. All of it happens in the world, so a session
with a plan replays without its clients; only the process itself is ended by a listener outside.

Only staleness that Kubernetes allows is produced. A frozen resource shows its old state in lists from the cache
(resourceVersion=0) and in watches; other reads are current. Swallowed states are those that a client misses when its
watch breaks and it lists anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from attrs import define, field, frozen

from actors.inlet import ExternalMessage
from controlplane.api.request import User
from controlplane.apiserver.front.answering import HttpAnswer, failed
from controlplane.apiserver.http.message import CUT, END, to_request
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.server import failure
from controlplane.apiserver.schema.api_error import ApiError
from controlplane.apiserver.schema.protobuf import reading as protobuf
from controlplane.scenarios.plans.language import (
    AFTER,
    ANSWER,
    EVENT,
    FAIL,
    KILL,
    LOSE,
    REASONS,
    REQUEST,
    SWALLOW,
)
from controlplane.scenarios.plans.passing import CHANGES, WRITES, Passing, key_of

if TYPE_CHECKING:
    from actors.process import Mailbox, Message
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.apiserver.storage.watch_cache import WatchEvent
    from controlplane.cluster import Cluster
    from controlplane.scenarios.plans.language import Perturbation

__all__ = ["ADMINISTRATOR", "Clients", "Line", "Lines", "OutsideClients", "Seen"]

ADMINISTRATOR: Final = "admin"
"""The name of clients with the administrator's rights."""
_ACCOUNT: Final = "system:serviceaccount:"
_COMPONENTS: Final = {
    "system:kube-scheduler": "scheduler",
    "system:kube-controller-manager": "controller-manager",
}
"""The names of emulated processes by the users of the real components that may take their place."""
_NODE: Final = "system:node:"
_POD: Final = "authentication.kubernetes.io/pod-name"
_INITIAL: Final = "k8s.io/initial-events-end"


class Line(Protocol):
    """A line of a plan that was met, as its effects need it."""

    rule: Perturbation


class Lines(Protocol):
    """The lines of a plan, as control points ask them."""

    def perturbing(self, what: Passing) -> Line | None:
        """Return the line that concerns what is sent, if one does now."""

    def passed_outside(self, what: Passing) -> None:
        """Note that a message passes: it may end holds, and begin or end freezes."""

    def keep(self, line: Any, send: Callable[[], None]) -> None:
        """Hold something until the line's end comes, or delay it."""

    def ends(self, line: Any, what: Passing) -> bool:
        """Return whether something ends a line's hold before it passes; release it afterwards, if so."""

    def release(self, line: Any) -> None:
        """Let a line's hold go."""

    def kill(self, rule: Perturbation) -> None:
        """End the process that a line names."""


class Clients:
    """The names of clients outside: the service account, with a number for further pods of it, else the user.

    A component of Kubernetes has the name of the emulated process whose place it takes.
    """

    def __init__(self, taken: Callable[[str], bool] = lambda _name: False) -> None:
        """Begin without clients. `taken` returns whether an emulated process has a name."""
        self._taken = taken
        self._pods: dict[str, dict[str, str]] = {}
        self.pods: dict[str, str] = {}
        """By client, the pod that its token was made for."""

    def name_of(self, user: User) -> str:
        """Return the name of a request's client; pods of one account are numbered in the order of their requests."""
        if "system:masters" in user.groups:
            return ADMINISTRATOR
        if not user.name.startswith(_ACCOUNT):
            emulated = _COMPONENTS.get(user.name, user.name.removeprefix(_NODE))
            return emulated if not self._taken(emulated) else self._free(user.name)
        name = self._free(user.name.rpartition(":")[2])
        pod = next((values[0] for key, values in user.extra if key == _POD and values), "")
        if not pod:
            return name
        known = self._pods.setdefault(user.name, {})
        if pod not in known:
            known[pod] = name if not known else f"{name}-{len(known) + 1}"
            self.pods[known[pod]] = pod
        return known[pod]

    def _free(self, name: str) -> str:
        return f"outside-{name}" if self._taken(name) else name


@frozen
class Seen:
    """A message of a client outside, and when it passed: the step and the virtual time (ns).

    `effective`: of a write's answer, whether it changed something.
    """

    what: Passing
    step: int
    t_ns: int
    effective: bool = False


def _acting(http: HttpRequest) -> User:
    """The user that a request acts as; whether it may is decided later."""
    impersonated = http.headers.get("impersonate-user", "")
    return User(impersonated) if impersonated else http.user


class OutsideClients:
    """The control points of clients outside, for one run."""

    def __init__(self, cluster: Cluster, lines: Lines) -> None:
        """Begin. `lines` are those of the plan."""
        self._cluster = cluster
        self._world = cluster.world
        self._lines = lines
        self._frozen: dict[int, tuple[str, str, int]] = {}
        """By line: client, resource and the revision that is shown."""
        self._streams: dict[int, _Stream] = {}
        """The gates of open watches."""
        self.clients = Clients(self._world.has_actor)
        self.on_seen: Callable[[Seen], None] | None = None
        """Is told of each message that passes; a replay has none."""
        self.on_kill: Callable[[str], None] | None = None
        """The listener that ends a client's process; a replay has none."""
        self.on_request: Callable[[str, int], None] | None = None
        """Is told by how many a client's requests under way change; a replay has none."""
        self.on_event: Callable[[str], None] | None = None
        """Is told that a client is sent events; a replay has none."""

    # ------------------------------------------------------------------ requests

    def takes(
        self,
        message: Message,
        carry: Callable[[], None],
        created: Callable[[Passing], None],
        target: Mailbox,
    ) -> bool:
        """Look at a message from outside that enters the world; return whether it stays here."""
        external: ExternalMessage = message.payload
        value = external.value
        if not isinstance(value, dict) or "m" not in value:
            return False
        http = to_request(value)
        asked = _asked(http, self.clients.name_of(_acting(http)), target.owner.name)
        if asked is None:
            return False
        asked = self._with_object(asked)
        listener = external.on_reply
        if asked.verb == "watch":
            external.gate = _Stream(self, asked, http)
            self._streams[id(external.gate)] = external.gate
        else:
            self._count(asked.actor, 1)
            self._show_frozen(value, asked)
        external.on_reply = partial(self._answered, asked, http, created, listener)
        found = self._lines.perturbing(asked)
        if found is None:
            self.passed(asked)
            return False
        rule = found.rule
        if rule.action == FAIL:
            self.passed(asked)
            self._reply(listener, asked, _error(rule.code, asked, http))
        elif rule.action == LOSE or (rule.action == KILL and rule.when != AFTER):
            if rule.action == KILL:
                self._lines.kill(rule)
            self._reply(listener, asked, CUT)
        elif rule.action == KILL:
            self.passed(asked)
            self._lines.kill(rule)
            return False
        else:
            self._hold(found, asked, carry)
        return True

    def _hold(self, line: Line, what: Passing, carry: Callable[[], None]) -> None:
        """Hold a request or an answer: its client does not wait for us, but for the line's end."""
        if what.verb != "watch":
            self._count(what.actor, -1)
        self._lines.keep(line, partial(self._send, what, carry))

    def _send(self, what: Passing, carry: Callable[[], None]) -> None:
        if what.verb != "watch":
            self._count(what.actor, 1)
        self.passed(what)
        carry()

    def _reply(self, listener: Callable[[Any], None] | None, asked: Passing, piece: Any) -> None:
        if asked.verb != "watch":
            self._count(asked.actor, -1)
        if listener is not None:
            listener(piece)

    def _count(self, client: str, change: int) -> None:
        if self.on_request is not None:
            self.on_request(client, change)

    def _answered(
        self,
        asked: Passing,
        http: HttpRequest,
        created: Callable[[Passing], None],
        listener: Callable[[Any], None] | None,
        piece: Any,
    ) -> None:
        """Look at an answer that leaves; streams pass, their events are looked at by the stream's gate."""
        if not isinstance(piece, HttpAnswer) or piece.entered is not None:
            if isinstance(piece, tuple):
                if self.on_event is not None:
                    self.on_event(asked.actor)
            elif asked.verb != "watch" and piece is not END:
                self._count(asked.actor, -1)  # a stream begins, or the server is down
            if listener is not None:
                listener(piece)
            return
        answer = _answer(asked, piece)
        if answer.verb == "create" and answer.code in (200, 201):
            created(answer)
        found = self._lines.perturbing(answer)
        if found is None:
            self.passed(answer)
            self._reply(listener, asked, piece)
            return
        rule = found.rule
        if rule.action == FAIL:
            self.passed(answer)
            self._reply(listener, asked, _error(rule.code, asked, http))
        elif rule.action in (LOSE, KILL):
            if rule.action == KILL:
                self._lines.kill(rule)
            self.passed(answer)
            self._reply(listener, asked, CUT)
        else:
            self._hold(found, answer, partial(self._reply, listener, asked, piece))

    def passed(self, what: Passing) -> None:
        """Note that a message passes."""
        if self.on_seen is not None:
            effective = what.kind == ANSWER and _changed(what)
            self.on_seen(Seen(what, self._world.steps, self._world.now, effective))
        self._lines.passed_outside(what)

    def perturbing(self, what: Passing) -> Line | None:
        """Return the line that concerns what is sent, if one does now."""
        return self._lines.perturbing(what)

    def kill(self, rule: Perturbation) -> None:
        """End the process that a line names."""
        self._lines.kill(rule)

    def end(self, client: str) -> None:
        """End the process of a client: the listener outside does."""
        if self.on_kill is not None:
            self.on_kill(client)

    # ------------------------------------------------------------------ what is stored

    def _with_object(self, asked: Passing) -> Passing:
        """Return a request with the object as it is stored now."""
        if asked.verb not in WRITES:
            return asked
        before = self._stored(asked)
        if before is None:
            return asked
        return asked.with_before(before)

    def _stored(self, asked: Passing) -> Any:
        namespace, _, name = asked.name.rpartition("/")
        if not name:
            return None
        resource = asked.resource.partition("/")[0]
        key = key_of(namespace, name)
        for prefix in self._cluster.store.prefixes():
            if prefix.strip("/").rpartition("/")[2] == resource:
                entry = self._cluster.store.keyspace(prefix).get(key)
                if entry is not None:
                    return entry.object.tree
        return None

    # ------------------------------------------------------------------ frozen resources

    def freeze(self, number: int, client: str, resource: str, revision: int) -> None:
        """Show a client a resource as it was at a revision."""
        self._frozen[number] = (client, resource, revision)

    def thaw(self, number: int) -> None:
        """Show it as it is again, and send the events that were held."""
        self._frozen.pop(number, None)
        for stream in list(self._streams.values()):
            stream.thaw()

    def ended(self, stream: _Stream) -> None:
        """Forget the gate of a watch that has ended."""
        self._streams.pop(id(stream), None)

    def shown(self, client: str, resource: str) -> int | None:
        """Return the revision at which a resource is shown to a client; None for the current one."""
        resource = resource.partition("/")[0]
        for name, what, revision in self._frozen.values():
            if name == client and what in ("*", resource):
                return revision
        return None

    def _show_frozen(self, value: dict[str, Any], asked: Passing) -> None:
        """Have a list from the cache answered as of the frozen revision."""
        if asked.verb != "list" or value["q"].get("resourceVersion") != ["0"]:
            return
        revision = self.shown(asked.actor, asked.resource)
        if revision is not None:
            value["q"] = {
                **value["q"],
                "resourceVersion": [str(revision)],
                "resourceVersionMatch": ["Exact"],
            }

    def keep(self, line: Line, send: Callable[[], None]) -> None:
        """Hold what a line concerns."""
        self._lines.keep(line, send)

    def ends(self, line: Line, what: Passing) -> bool:
        """Return whether a message ends a hold of its own stream."""
        return self._lines.ends(line, what)

    def release(self, line: Line) -> None:
        """Let a hold go."""
        self._lines.release(line)


@define(eq=False)
class _Stream:
    """The gate of one watch: events are looked at before they are sent, and held in their order."""

    _outside: OutsideClients
    _asked: Passing
    _http: HttpRequest
    _held: list[WatchEvent] = field(factory=list)
    _line: Line | None = None
    _frozen: bool = False
    _send: Callable[[list[WatchEvent]], None] | None = None
    _cut: Callable[[], None] | None = None
    _initial: bool = field(init=False, default=False)
    _states: dict[str, Any] = field(factory=dict, init=False)
    """By key, the state of each object that was sent last."""

    def __attrs_post_init__(self) -> None:
        query = self._http.query
        self._initial = query.get("sendInitialEvents") == ["true"]

    @property
    def holding(self) -> bool:
        """Return whether events wait here."""
        return bool(self._held)

    def admit(
        self,
        events: list[WatchEvent],
        send: Callable[[list[WatchEvent]], None],
        cut: Callable[[], None],
    ) -> list[WatchEvent]:
        """Return the events that are sent now. `send` sends those that were held later; `cut` breaks the watch."""
        self._send, self._cut = send, cut
        if self._line is not None or self._frozen:
            for event in events:
                self._held.append(event)
                self._look_for_end(event)
            return []
        return self._pass(events)

    def end(self) -> None:
        """The watch has ended."""
        self._held.clear()
        self._outside.ended(self)

    def _look_for_end(self, event: WatchEvent) -> None:
        """An event behind a swallowed one may end the hold."""
        line = self._line
        if line is not None and line.rule.action == SWALLOW:
            told = self._told(event)
            if told is not None and self._outside.ends(line, told):
                self._outside.release(line)

    def _pass(self, events: list[WatchEvent]) -> list[WatchEvent]:
        outside = self._outside
        out: list[WatchEvent] = []
        for number, event in enumerate(events):
            if self._is_frozen():
                self._frozen = True
                self._held = events[number:]
                break
            told = self._told(event)
            if told is None:
                out.append(event)
                continue
            found = outside.perturbing(told)
            if found is None or (found.rule.action == KILL and found.rule.when == AFTER):
                self._note(told)
                out.append(event)
                if found is not None:
                    outside.kill(found.rule)
                continue
            rule = found.rule
            if rule.action in (LOSE, KILL):
                if rule.action == KILL:
                    outside.kill(rule)
                if self._send is not None and out:
                    self._send(out)
                if self._cut is not None:
                    self._cut()
                return []
            self._line = found
            self._held = events[number:]
            outside.keep(found, partial(self._release, found, told))
            for later in events[number + 1 :]:
                self._look_for_end(later)
            break
        return out

    def _is_frozen(self) -> bool:
        if (
            self._initial
        ):  # a consistent list as a stream is current even while a resource is frozen
            return False
        return self._outside.shown(self._asked.actor, self._asked.resource) is not None

    def _told(self, event: WatchEvent) -> Passing | None:
        """Return the name of an event; None for bookmarks and errors."""
        if event.type not in CHANGES:
            notes = event.object.tree.get("metadata", {}).get("annotations") or {}
            if notes.get(_INITIAL):
                self._initial = False
            return None
        obj = event.object
        return Passing(
            EVENT,
            self._asked.actor,
            self._asked.peer,
            event.type,
            self._asked.resource,
            obj.key,
            obj.tree,
            uid=str(obj.metadata.get("uid") or ""),
            revision=event.revision,
            before=self._states.get(obj.key),
        )

    def _note(self, told: Passing) -> None:
        self._states[told.name] = told.tree
        self._outside.passed(told)

    def _release(self, line: Line, told: Passing) -> None:
        """Send what was held; the first one has been dealt with, those behind it are looked at."""
        self._line = None
        held, self._held = self._held, []
        if not held:  # the watch has ended meanwhile
            return
        if line.rule.action == SWALLOW:
            last = max(n for n, each in enumerate(held) if each.object.key == told.name)
            held = [
                each
                for n, each in enumerate(held)
                if n == last or each.object.key != told.name or each.type not in CHANGES
            ]
            out = self._pass(held)
        else:
            self._note(told)
            out = [held[0], *self._pass(held[1:])]
        if self._send is not None:
            self._send(out)

    def thaw(self) -> None:
        """Send what was held while its resource was frozen, unless it still is."""
        if not self._frozen or self._is_frozen():
            return
        self._frozen = False
        held, self._held = self._held, []
        out = self._pass(held)
        if self._send is not None:
            self._send(out)


def _asked(http: HttpRequest, client: str, peer: str) -> Passing | None:
    """Return the name of a request; None of what concerns no resource."""
    about = rbac.attributes_of(http)
    if not about.resource:
        return None
    resource = f"{about.resource}/{about.subresource}" if about.subresource else about.resource
    body = _body(http)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    name = about.name or metadata.get("name") or metadata.get("generateName") or ""
    namespace = "" if about.resource == "namespaces" else about.namespace
    return Passing(
        REQUEST,
        client,
        peer,
        about.verb,
        resource,
        key_of(namespace, str(name)) if name else (f"{namespace}/" if namespace else ""),
        body,
        uid=str(metadata.get("uid") or ""),
    )


def _body(http: HttpRequest) -> Any:
    if not http.body:
        return None
    if http.headers.get("content-type", "").startswith(protobuf.MEDIA_TYPE):
        try:
            return protobuf.decoded(http.body)
        except protobuf.Unreadable:
            return None
    try:
        return json.loads(http.body)
    except (ValueError, RecursionError):
        pass
    if "yaml" not in http.headers.get("content-type", ""):
        return None
    from controlplane.api.yaml_text import load

    try:
        return load(http.body)
    except ValueError:
        return None


def _answer(asked: Passing, piece: HttpAnswer) -> Passing:
    """Return the name of an answer to a request of a client outside."""
    single = piece.listing is None and piece.rendering is None
    tree = piece.tree if single else None
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    if piece.code >= 300:
        metadata = {}
    name = asked.name
    if asked.verb == "create" and metadata.get("name"):
        name = key_of(name.rpartition("/")[0], str(metadata["name"]))
    text = str(metadata.get("resourceVersion") or "")
    return Passing(
        ANSWER,
        asked.actor,
        asked.peer,
        asked.verb,
        asked.resource,
        name,
        tree,
        piece.code,
        str(metadata.get("uid") or ""),
        int(text) if text.isdigit() else 0,
        asked.before,
    )


def _changed(answer: Passing) -> bool:
    """Return whether a write changed something, as far as its answer shows."""
    if not answer.writes or answer.code >= 300:
        return False
    if answer.verb in ("delete", "deletecollection", "create"):
        return True
    before = answer.before
    if not isinstance(before, dict) or not answer.revision:
        return True
    return str(before.get("metadata", {}).get("resourceVersion") or "") != str(answer.revision)


def _error(code: int, asked: Passing, http: HttpRequest) -> HttpAnswer:
    text = f"{asked.verb} {asked.resource}: the plan says {code}"
    details = {"retryAfterSeconds": 1} if code in (429, 503) else None
    error = ApiError(code, REASONS[code], text, details)
    return failed(failure(error), http.headers.get("accept", ""))
