"""The half of the rim that lives in the world: it answers recorded HTTP requests inside the API server's actor.

A request is handled like any other; a watch is a stream of lines until its virtual time limit,
its end, or until the client hangs up, which is recorded input too.

Points: `apiserver.watch` (a bookmark or the time limit of a watch is due), `apiserver.log` (a
followed log is looked at again), `apiserver.lag` (a fault held the events of a watch back for so long).
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from attrs import evolve

from actors.log import ERROR, INFO, WARNING
from controlplane.api.attached import Attached
from controlplane.api.times import SECOND
from controlplane.apiserver.front import client_faults
from controlplane.apiserver.front.answering import HttpAnswer, answering, failed, serves_cbor
from controlplane.apiserver.front.client_faults import ClientFaults, Subject
from controlplane.apiserver.http.answer_bodies import Late, watch_line
from controlplane.apiserver.http.impersonation import acting
from controlplane.apiserver.http.message import CUT, END, StreamStart, to_request
from controlplane.apiserver.loops.defects import panic
from controlplane.apiserver.requests import request_events
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.metrics import key_of_http
from controlplane.apiserver.requests.request_events import About
from controlplane.apiserver.requests.routing import HttpRequest, Target
from controlplane.apiserver.requests.server import failure
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.cbor import reading as cbor
from controlplane.apiserver.schema.cbor import writing as cbor_writing
from controlplane.apiserver.schema.protobuf import reading as protobuf
from controlplane.apiserver.schema.protobuf.writing import AT_ONCE, Unwritable
from controlplane.shell.files import NoSpace

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context, Task
    from actors.inlet import ExternalMessage
    from controlplane.apiserver.front.answering import LogAnswer, WatchAnswer
    from controlplane.apiserver.loops.audit import Audit
    from controlplane.apiserver.loops.write_effects import WriteEffects
    from controlplane.apiserver.requests.metrics import RequestMetrics
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.transactions import Steps
    from controlplane.apiserver.storage.watch_cache import Watcher, WatchEvent

BOOKMARK_NS = 60 * SECOND
"""The interval of bookmarks for a watch that requested them. Upstream: storage/cacher, bookmarkFrequency."""
LAST_BOOKMARK_NS = 2 * SECOND
"""The last one comes so long before the time limit."""
MIN_SECONDS = 1800
"""A watch without a time limit ends after so long, or up to as long again. Upstream: --min-request-timeout."""
STEP_SECONDS = 30
"""Such time limits are multiples of this; which one is a choice, the shortest is option 0."""
LOG_NS = SECOND // 4
"""The interval at which a followed log is read."""
EXPIRED = "too old resource version: a rule of /controlplane/faults"
_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class HttpFront:
    """The handler of external requests, each in the name of the user that the HTTP boundary has authenticated."""

    def __init__(
        self,
        ctx: Context,
        core: ApiServer,
        epoch_ns: int,
        metrics: RequestMetrics,
        changes: WriteEffects,
        audit: Audit,
    ) -> None:
        self._ctx = ctx
        self._core = core
        self._epoch = epoch_ns
        self._metrics = metrics
        self._effects = changes
        self._audit = audit
        self._open: dict[int, HttpWatch] = {}
        self._logs: dict[int, tuple[Task, ExternalMessage]] = {}
        self._asked: dict[int, tuple[HttpRequest, int]] = {}
        self.faults = ClientFaults()

    def begin(
        self, message: ExternalMessage
    ) -> Callable[[], Steps[HttpAnswer | WatchAnswer]] | None:
        """The handling of a request, to be followed by `finish`; None for news of a connection."""
        value: dict[str, Any] = message.value
        if "defect" in value:
            self._ctx.log("apiserver.panic", level=ERROR, data=value["defect"])
            return None
        if "gone" in value:
            watch = self._open.pop(value["gone"], None)
            if watch is not None:
                watch.close()
            log = self._logs.pop(value["gone"], None)
            if log is not None:
                self._ctx.cancel(log[0])
            return None
        if "wrote" in value:
            self._write(*value["wrote"])
            message.reply(None)
            return None
        if "attached" in value:
            self._pass_on(*value["attached"])
            return None
        http = to_request(value)
        self._asked[value["n"]] = http, self._ctx.now
        return partial(self._answering, http)

    def _write(self, place: str, path: str, data: bytes | None, hides: bool) -> None:
        """Write a file that a client's session has written in a container."""
        machines = self._core.options.machines
        if machines is None:
            return
        try:
            machines.disks.put(place, path, data, hides=hides)
        except NoSpace:
            what = {"message": f"{place}/{path}: No space left on device"}
            self._ctx.log("apiserver.disk-full", level=WARNING, data=what)

    def _pass_on(
        self, node: str, uid: str, container: str, run: str, text: str, code: int | None
    ) -> None:
        """Tell the kubelet of a node of a client's session at the standard input of a container."""
        machines = self._core.options.machines
        kubelet = None if machines is None else machines.kubelet(node)
        if kubelet is not None:
            self._ctx.send(kubelet, Attached(uid, container, run, text, code))

    def _answering(self, http: HttpRequest) -> Steps[HttpAnswer | WatchAnswer]:
        now = self._epoch + self._ctx.now
        try:
            http.user = acting(self._core.access, self._core.lookup, http, now)
            if http.path == client_faults.PATH:
                return self._set_faults(http)
            if self.faults.rules:
                subject = _subject(http)
                refusal = self.faults.refusal(subject)
                if refusal is not None:
                    self._note_fault(f"answer {refusal.code} to", subject)
                    raise refusal
            http.cbor = serves_cbor(self._core)
            return (yield from answering(self._core, json_request(http), now))
        except status.ApiError as error:
            return failed(failure(error), http.headers.get("accept", ""), cbor=http.cbor)

    def _set_faults(self, http: HttpRequest) -> HttpAnswer:
        if rbac.MASTERS not in http.user.groups:
            text = f"{client_faults.PATH} is for {rbac.MASTERS} alone"
            raise status.ApiError(403, "Forbidden", text)
        tree = self.faults.control(http.method, http.body)
        return HttpAnswer(200, {"Content-Type": "application/json"}, tree)

    def finish(
        self, message: ExternalMessage, answered: HttpAnswer | WatchAnswer, revision: int | None
    ) -> HttpWatch | None:
        """Let the answer leave; the stream, if it opened one. `revision` is what the request wrote last."""
        number = message.value["n"]
        http, arrived = self._asked.pop(number)
        target = http.target
        if self._ctx.noting and target is not None and target.resource:
            watcher = None if isinstance(answered, HttpAnswer) else answered.watcher
            code = answered.code if isinstance(answered, HttpAnswer) else 200
            self._note_audit(http, target, arrived, code, watcher)
        if isinstance(answered, HttpAnswer):
            key = key_of_http(http, answered.code, self._core.table)
            self._metrics.answered(key, answered.code, self._ctx.now - arrived)
            if http.method in _WRITES and target is not None:
                self._log(http, target, answered, revision)
            if answered.log is not None:
                self._follow(number, answered, answered.log, message)
            else:
                message.reply(answered)
            return None
        self._metrics.watched(key_of_http(http, 200, self._core.table), answered.watcher)
        return self._stream(number, answered, message, _subject(http))

    def sweep(self) -> None:
        """Tell the clients of watches that the cache has ended, when it lists anew."""
        for watch in list(self._open.values()):
            if watch.watcher.closed:
                watch.deliver()

    def hang_up(self) -> None:
        """End every stream: the server goes down."""
        for watch in list(self._open.values()):
            watch.message.reply(END)
            if watch.message.gate is not None:
                watch.message.gate.end()
        self._open.clear()
        for _, message in self._logs.values():
            message.reply(END)
        self._logs.clear()

    def _log(
        self, http: HttpRequest, target: Target, answered: HttpAnswer, revision: int | None
    ) -> None:
        tree = answered.tree if isinstance(answered.tree, dict) else {}
        reason = str(tree.get("reason") or "") if answered.code >= 300 else ""
        about = _about(http, target)
        place, uid, data = request_events.written(
            about, self._core.resource, tree, answered.code, reason
        )
        self._ctx.log("apiserver.write", level=INFO, obj=place, uid=uid, rv=revision, data=data)
        self._effects.note(about, place, revision)

    def _note_audit(
        self,
        http: HttpRequest,
        target: Target,
        arrived: int,
        code: int,
        watcher: Watcher | None,
    ) -> None:
        """Note what an audit log keeps of a request."""
        about = evolve(_about(http, target), body=_sent(http))
        query = urlencode(http.query, doseq=True)
        uri = f"{http.path}?{query}" if query else http.path
        data = request_events.audited(about, http.user, uri, code, arrived, {})
        self._audit.note(request_events.place_of(about, self._core.resource, None), data, watcher)

    def _follow(
        self, number: int, answered: HttpAnswer, log: LogAnswer, message: ExternalMessage
    ) -> None:
        message.reply(StreamStart("text/plain"))
        if answered.text:
            message.reply((answered.text.encode(),))
        task = self._ctx.spawn(self._read_on, number, log, message, name="log")
        self._logs[number] = task, message

    async def _read_on(
        self, ctx: Context, number: int, log: LogAnswer, message: ExternalMessage
    ) -> None:
        """Send the further output of a container until it ends."""
        while True:
            await ctx.sleep(LOG_NS, idle=True, point="apiserver.log")
            text = log.more(self._core, self._epoch + ctx.now)
            if text is None:
                break
            if text:
                message.reply((text,))
        message.reply(END)
        self._logs.pop(number, None)

    def _stream(
        self, number: int, answered: WatchAnswer, message: ExternalMessage, subject: Subject
    ) -> HttpWatch:
        watch = HttpWatch(self, number, answered, message, subject)
        self._open[number] = watch
        media = answered.format.media_type
        message.reply(StreamStart(_STREAMS.get(media, f"{media};stream=watch")))
        answered.watcher.user_data = watch
        if answered.seconds <= 0:
            answered.seconds = (
                MIN_SECONDS
                + self._ctx.choose("watch time", MIN_SECONDS // STEP_SECONDS, "no timeoutSeconds")
                * STEP_SECONDS
            )
        watch.clock = self._ctx.spawn(self._attend, watch, name="watch")
        return watch

    async def _attend(self, ctx: Context, watch: HttpWatch) -> None:
        """Bookmarks and the time limit of one watch."""
        answered = watch.answered
        limit = ctx.now + answered.seconds * SECOND
        last_mark = limit - LAST_BOOKMARK_NS
        while True:
            wake = limit
            if answered.bookmarks:
                wake = min(ctx.now + BOOKMARK_NS, limit)
                if ctx.now < last_mark < wake:
                    wake = last_mark
            await ctx.sleep_until(wake, idle=True, point="apiserver.watch")
            if ctx.now >= limit:
                watch.clock = None
                answered.watcher.stop()
                watch.deliver()
                return
            self._core.send_bookmark(answered.watcher)
            watch.deliver()

    def _note_fault(self, fault: str, subject: Subject) -> None:
        data = {"fault": f"{fault} {subject.verb} {subject.resource} by", "actor": subject.agent}
        self._ctx.log("fault", level=WARNING, data=data)

    def disturbs(self, watch: HttpWatch) -> bool:
        """Let the rules act on the events that a watch is about to send; whether they stay for now or for ever."""
        if watch.lags:
            return True
        if not watch.watcher.buffer:
            return False
        rule = self.faults.of_events(watch.subject)
        if rule is None:
            return False
        self._note_fault(rule.action, watch.subject)
        if rule.action == client_faults.LAG:
            watch.lags = True
            self._ctx.spawn(self._catch_up, watch, round(rule.seconds * SECOND), name="lag")
            return True
        if rule.action == client_faults.EXPIRE:
            event = {"type": "ERROR", "object": status.expired(EXPIRED).tree}
            watch.message.reply((watch_line(event, watch.answered.format.media_type),))
        watch.message.reply(END)
        watch.close()
        return True

    async def _catch_up(self, ctx: Context, watch: HttpWatch, ns: int) -> None:
        """Send what a watch has held back."""
        await ctx.sleep(ns, point="apiserver.lag")
        watch.lags = False
        if self._open.get(watch.number) is watch:
            watch.deliver(disturbed=False)

    def render(self, watch: HttpWatch) -> tuple[bytes | WatchEvent | Late, ...]:
        """The queued events of a watch: as they are, for the rim to encode, or in the form asked for.

        The rim also makes the lines of very many.
        """
        events = watch.answered.watcher.drain()
        gate = watch.message.gate
        if gate is not None:
            events = gate.admit(events, partial(self._send_held, watch), partial(self._cut, watch))
        return self._lines(watch, events)

    def _send_held(self, watch: HttpWatch, events: list[WatchEvent]) -> None:
        """Send what a plan has held back, and the end if the watch has ended meanwhile."""
        if self._open.get(watch.number) is not watch:
            return
        lines = self._lines(watch, events)
        if lines:
            watch.message.reply(lines)
        if not watch.message.gate.holding:
            watch.deliver(disturbed=False)

    def _cut(self, watch: HttpWatch) -> None:
        """Break the connection of a watch."""
        if self._open.get(watch.number) is watch:
            watch.message.reply(CUT)
            watch.close()

    def _lines(
        self, watch: HttpWatch, events: list[WatchEvent]
    ) -> tuple[bytes | WatchEvent | Late, ...]:
        answered = watch.answered
        if answered.format.plain:
            return tuple(events)
        now = self._epoch + self._ctx.now
        if len(events) > AT_ONCE:
            return tuple(Late(partial(self._rendered, watch, event, now)) for event in events)
        lines = tuple(self._shown(watch, event, now) for event in events)
        if watch.broken:
            answered.watcher.stop()
        return lines

    def _rendered(self, watch: HttpWatch, event: WatchEvent, now: int) -> bytes:
        """Return an event in the requested form; protobuf of whole objects is encoded once for all watches."""
        if watch.broken:
            return b""
        answered = watch.answered
        media = answered.format.media_type
        whole = media == protobuf.MEDIA_TYPE and not answered.format.kind
        if whole and event.packed is not None:
            return event.packed
        try:
            line = watch_line(answered.render(self._core, event, now), media)
        except Unwritable as error:
            return self._broken(watch, f"unable to encode watch object: {error}")
        if whole:
            event.packed = line
        return line

    def _shown(self, watch: HttpWatch, event: WatchEvent, now: int) -> bytes:
        """The same in the world: a defect of ours ends this watch, and not the server."""
        try:
            return self._rendered(watch, event, now)
        except Exception as error:
            data = panic(watch.answered.request.label, error)
            self._ctx.log("apiserver.panic", level=ERROR, data=data)
            return self._broken(watch, "the event could not be shown because of a defect")

    def _broken(self, watch: HttpWatch, text: str) -> bytes:
        """The last line of a watch that cannot go on."""
        watch.broken = True
        event = {"type": "ERROR", "object": status.internal_error(text).tree}
        return watch_line(event, watch.answered.format.media_type)

    def forget(self, watch: HttpWatch) -> None:
        """The stream has ended."""
        self._open.pop(watch.number, None)
        if watch.message.gate is not None:
            watch.message.gate.end()
        if watch.clock is not None:
            self._ctx.cancel(watch.clock)
            watch.clock = None


_CBOR_BODIES: Final = {
    cbor_writing.MEDIA_TYPE: "application/json",
    cbor_writing.APPLY_PATCH: "application/apply-patch+yaml",
}
"""Media types of bodies in CBOR, and those of the same in JSON."""
_STREAMS: Final = {
    "application/json": "application/json",
    cbor_writing.MEDIA_TYPE: cbor_writing.SEQUENCE,
}
"""The media types of watches that have one of their own."""


def json_request(http: HttpRequest) -> HttpRequest:
    """The same request with a JSON body, if it has one in protobuf or CBOR that we can read."""
    media, told = http.headers.get("content-type", ""), "application/json"
    known = _CBOR_BODIES.get(media.partition(";")[0].strip()) if http.cbor else None
    if known is not None:
        told = known
        try:
            tree = cbor.decoded(http.body)
        except cbor.Unreadable as error:
            return evolve(http, unread=str(error), headers={**http.headers, "content-type": told})
    elif media != protobuf.MEDIA_TYPE:
        return http
    else:
        try:
            tree = protobuf.decoded(http.body)
        except protobuf.Unreadable:
            return http
    headers = {**http.headers, "content-type": told}
    raw = json.dumps(
        tree, separators=(",", ":")
    ).encode()  # compact, as texts within it mostly came
    return evolve(http, headers=headers, body=raw)


class HttpWatch:
    """One watch with a client outside."""

    __slots__ = ("_front", "answered", "broken", "clock", "lags", "message", "number", "subject")

    def __init__(
        self,
        front: HttpFront,
        number: int,
        answered: WatchAnswer,
        message: ExternalMessage,
        subject: Subject,
    ) -> None:
        self._front = front
        self.number = number
        self.answered = answered
        self.message = message
        self.clock: Task | None = None
        self.broken = False
        """An event could not be written: the stream ends behind that news."""
        self.subject = subject
        self.lags = False
        """Its events are held back by a fault."""

    @property
    def watcher(self) -> Watcher:
        """The watcher that it follows."""
        return self.answered.watcher

    def deliver(self, *, disturbed: bool = True) -> None:
        """Send what is queued, and the end if the watch ended; unless a fault says otherwise."""
        if self.lags or (disturbed and self._front.faults.rules and self._front.disturbs(self)):
            return
        lines = self._front.render(self)
        if lines:
            self.message.reply(lines)
        gate = self.message.gate
        if self.watcher.closed and not (gate is not None and gate.holding):
            self.message.reply(END)
            self._front.forget(self)

    def close(self) -> None:
        """The client hung up: stop following."""
        self.watcher.stop()
        self._front.forget(self)


def _sent(http: HttpRequest) -> Any:
    """Return the body of a request, if it is JSON."""
    try:
        return json.loads(http.body) if http.body else None
    except (ValueError, RecursionError):
        return None


def _subject(http: HttpRequest) -> Subject:
    """Return a request as the rules for faults see it."""
    asked = rbac.attributes_of(http)
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    agent = http.headers.get("user-agent") or "http"
    return Subject(asked.verb, resource, asked.namespace, asked.name, agent)


def _about(http: HttpRequest, target: Target) -> About:
    """Return the target of an external request."""
    asked = rbac.attributes_of(http)
    agent = http.headers.get("user-agent") or "http"
    return About(
        asked.verb,
        target.group,
        target.version,
        target.resource,
        target.namespace,
        target.name,
        target.subresource,
        agent,
    )
