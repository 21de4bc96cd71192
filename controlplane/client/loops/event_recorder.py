"""The event recorder: what components report about objects. Upstream: client-go tools/record.

The correlator decides (a new Event, one more count of a known one, a combined one, or none at all);
the recorder's task posts, so that reporting never makes a component wait.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from attrs import define

from actors import LinkBroken
from actors.log import WARNING
from controlplane.api.identity import uid
from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree
from controlplane.api.validation import dns_subdomain_errors
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import EVENTS, Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.sharing.memory import Memory

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.view import View
    from controlplane.client.loops.connection import RestConfig

Key = tuple[Any, ...]
REMEMBERED = 4096
REMEMBERED_MESSAGES = 256
SIMILAR_MAX = 10
SIMILAR_NS = 600 * SECOND
COMBINED = "(combined from similar events): "
SPAM_BURST = 25
SPAM_INTERVAL_NS = 300 * SECOND
TRIES = 12
RETRY_NS = 10 * SECOND
JITTER_OPTIONS = 8
NORMAL = "Normal"
EVENT_WARNING = "Warning"


def reference(view: View) -> Tree:
    """The involvedObject of an event about `view`."""
    found = {
        "apiVersion": view.api_version,
        "kind": view.kind,
        "name": view.name,
        "namespace": view.namespace,
        "resourceVersion": view.resource_version,
        "uid": view.uid,
    }
    return {key: value for key, value in found.items() if value}


class Write(NamedTuple):
    """The way to post a report: create `tree`, or if `known` names an Event first try to patch that one."""

    tree: Tree
    known: str = ""
    patch: Tree | None = None


@define(weakref_slot=False)
class _Posted:
    """An Event: the number that its name ends with (`_name_of`), when it was first reported, and how often.

    Of one that was reported once, at the time that its name ends with, the number alone is kept: most are.
    """

    number: int
    first_ns: int
    count: int


@define(weakref_slot=False)
class _Spent:
    """The used-up part of an object's tokens. Its name is shared by all keys that begin with it."""

    subject: Key
    until_ns: int


def _known(posted: _Posted | int) -> tuple[int, int, int]:
    """Number, time of the first report (ns) and count of an Event."""
    if isinstance(posted, int):
        return posted, posted, 1
    return posted.number, posted.first_ns, posted.count


def _name_of(about: str, number: int) -> str:
    """The name of an Event about an object. Where that is no name (the object has none, say), a uid stands in."""
    name = f"{about}.{number:x}"
    return uid(number) if dns_subdomain_errors(name) else name


_whats: Memory[tuple[str, ...], tuple[str, ...]] = Memory("reports", REMEMBERED_MESSAGES)


def _shared(what: tuple[str, ...]) -> tuple[str, ...]:
    """An equal one that was reported lately: most pods of a node say the same, and it is kept for each."""
    return _whats.shared(what, what)


class EventCorrelator:
    """Turns reports into writes.

    Equal reports become one Event whose count grows. From the tenth message on, reports of one
    object and reason within ten minutes become one combined Event. Each object may be written about
    25 times, and once more every five minutes.
    """

    __slots__ = ("_component", "_first", "_host", "_last_number", "_posted", "_similar", "_spent")

    def __init__(self, component: str, host: str = "") -> None:
        self._component = component
        self._host = host
        self._posted: dict[Key, _Posted | int] = {}
        self._first: dict[tuple[str, str], tuple[str, ...]] = {}
        """The first of each kind and reason that was reported: most are like it, and it names the others' group."""
        self._similar: dict[Key, tuple[Any, ...] | int] = {}
        """The time of the last of the reports that differ in their message only, and the messages; with a single
        message only the time.
        """
        self._spent: dict[Key, _Spent] = {}
        self._last_number: dict[str, int] = {}

    def report(self, about: Tree, kind: str, reason: str, message: str, now: int) -> Write | None:
        """The write for one report about an object given by reference; None if it is one too many."""
        subject = tuple(
            about.get(part, "") for part in ("kind", "namespace", "name", "uid", "apiVersion")
        )
        spent = self._spent.get(subject)
        if spent is not None:
            subject = spent.subject
        what = (about.get("fieldPath", ""), kind, reason, message)
        first = self._first.setdefault((kind, reason), what)
        key: Key = (subject, first if what == first else _shared(what))
        group = key if key[1] is first else (subject, first)
        if self._is_one_of_many(group, key[1][-1], now):
            key = (subject, (kind, reason))
            message = COMBINED + message
        write = self._observe(key, about, kind, reason, message, now)
        return write if self._may_write(subject, now) else None

    def _is_one_of_many(self, key: Key, message: str, now: int) -> bool:
        usual = key[1][-1]
        known = self._similar.get(key)
        last, *messages = (known, usual) if isinstance(known, int) else known or (now,)
        if now - last > SIMILAR_NS:
            messages = []
        if message not in messages:
            messages.append(message)
        many = len(messages) >= SIMILAR_MAX
        if many:
            del messages[0]
        _remember(self._similar, key, now if messages == [usual] else (now, *messages))
        return many

    def _observe(
        self, key: Key, about: Tree, kind: str, reason: str, message: str, now: int
    ) -> Write:
        stamp = format_time(now)
        posted = self._posted.get(key)
        if posted is None:
            first, count = now, 1
            number = self._number(about["name"], now)
        else:
            number, first, count = _known(posted)
            count += 1
        _remember(
            self._posted,
            key,
            number if number == first and count == 1 else _Posted(number, first, count),
        )
        source = {"component": self._component}
        if self._host:
            source["host"] = self._host
        name = _name_of(about["name"], number)
        namespace = about.get("namespace") or "default"
        tree = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "reason": reason,
            "message": message,
            "type": kind,
            "source": source,
            "reportingComponent": self._component,
            "reportingInstance": self._host,
            "firstTimestamp": format_time(first),
            "lastTimestamp": stamp,
            "count": count,
        }
        if count == 1:
            return Write(tree)
        patch = {"count": count, "lastTimestamp": stamp, "message": message}
        return Write(tree, name, patch)

    def renamed(self, write: Write) -> Write:
        """A first write under another name: another process reported in the same virtual instant.

        Real clocks do not read the same nanosecond in two processes.
        """
        metadata = write.tree["metadata"]
        taken = metadata["name"]
        about = write.tree["involvedObject"]["name"]
        number = self._number(about, 0)
        for (subject, what), posted in self._posted.items():
            if subject[2] == about:
                old, first, count = _known(posted)
                if _name_of(about, old) == taken:
                    self._posted[subject, what] = _Posted(number, first, count)
        name = _name_of(about, number)
        return Write({**write.tree, "metadata": {**metadata, "name": name}})

    def _number(self, about: str, now: int) -> int:
        """Return the suffix of an Event's name: the time, plus one for each report of the same instant."""
        number = max(now, self._last_number.get(about, 0) + 1)
        _remember(self._last_number, about, number)
        return number

    def _may_write(self, subject: Key, now: int) -> bool:
        """A token bucket per object."""
        full = now - SPAM_BURST * SPAM_INTERVAL_NS
        known = self._spent.get(subject)
        spent = max(full if known is None else known.until_ns, full) + SPAM_INTERVAL_NS
        if spent > now:
            return False
        _remember(self._spent, subject, _Spent(subject, spent))
        return True


def _remember(memory: dict[Any, Any], key: Any, value: Any) -> None:
    """Keep the most recently used entries."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]


class EventRecorder:
    """Takes reports at once, posts them from a task of its own (points `events.post`, `events.retry`).

    An event that the API server refuses is dropped with a line in the log; while the server cannot
    be reached it is tried twelve times.
    """

    def __init__(
        self,
        ctx: Context,
        component: str,
        epoch_ns: int,
        *,
        host: str = "",
        server: RestConfig = IN_CLUSTER,
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._last = 0
        self._server = server
        self._correlator = EventCorrelator(component, host)
        self._pending: deque[tuple[Tree, str, str, str, int]] = deque()
        self._work = ctx.condition()
        ctx.spawn(self._post, name="events")

    def event(self, view: View, kind: str, reason: str, message: str) -> None:
        """Report something about an object: `kind` is Normal or Warning."""
        self.about(reference(view), kind, reason, message)

    def about(self, reference: Tree, kind: str, reason: str, message: str) -> None:
        """Report about an object that is given by reference."""
        self._ctx.touches("events")
        now = self._epoch + self._ctx.now
        if now != self._last:  # many keep the number: one object for each instant
            self._last = now
        self._pending.append((reference, kind, reason, message, self._last))
        self._work.notify_all()

    async def _post(self, ctx: Context) -> None:
        client = Client(ctx, self._server)
        while True:
            ctx.writes("events")
            while not self._pending:
                await self._work.wait(idle=True, point="events.post")
                ctx.writes("events")
            write = self._correlator.report(*self._pending.popleft())
            if write is not None:
                await self._write(ctx, client, write)

    async def _write(self, ctx: Context, client: Client, write: Write) -> None:
        for attempt in range(1, TRIES + 1):
            try:
                await self._send(client, write)
            except ApiError as error:
                if is_already_exists(error) and not write.known and attempt < TRIES:
                    write = self._correlator.renamed(write)
                    continue
                self._dropped(ctx, write, error)
                return
            except LinkBroken as error:
                if attempt == TRIES:
                    self._dropped(ctx, write, error)
                    return
                wait = RETRY_NS
                if attempt == 1:
                    share = ctx.choose("jitter", JITTER_OPTIONS, "events retry")
                    wait = RETRY_NS * share // JITTER_OPTIONS
                await ctx.sleep(wait, point="events.retry")
                ctx.reads()
            else:
                return

    async def _send(self, client: Client, write: Write) -> None:
        namespace = write.tree["metadata"]["namespace"]
        if write.known:
            try:
                await client.patch(EVENTS, namespace, write.known, write.patch)
            except ApiError as error:
                self._ctx.reads()
                if not is_not_found(error):
                    raise
            else:
                return
        await client.create(EVENTS, write.tree, namespace)

    def _dropped(self, ctx: Context, write: Write, error: Exception) -> None:
        data = {"reason": write.tree["reason"], "message": str(error)}
        ctx.log("events.dropped", level=WARNING, data=data)
