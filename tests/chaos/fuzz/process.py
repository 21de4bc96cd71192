"""A server in this process: requests pass everything but the socket, and each is looked at afterwards."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

from attrs import define

from controlplane.api.container_output import Output, output_of
from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, WatchAnswer, answering, failed
from controlplane.apiserver.http import answer_bodies
from controlplane.apiserver.http.impersonation import acting
from controlplane.apiserver.http.message import packed, to_request
from controlplane.apiserver.loops.http_asked import Refused, unquoted
from controlplane.apiserver.loops.http_server import json_request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer, failure
from controlplane.apiserver.schema.protobuf.writing import Unwritable
from controlplane.apiserver.schema.status import ApiError
from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store import Event, Store
from tests.chaos.fuzz.judging import Answered, Finding, judged, thrown
from tests.chaos.fuzz.messages import Message
from tests.chaos.fuzz.register import Register
from tests.chaos.hostile import SPEC, definition

Json = Any
MILLISECOND = 10**6
START = 1_924_992_000 * 10**9
WATCHES = 8
_NO_BODY = (204, 304)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CORE = "/api/v1/namespaces/default"


def _definition() -> Json:
    """A definition with rules, lists of all types, defaults and both subresources."""
    spec = {**SPEC, "size": {"type": "integer", "minimum": 0, "default": 1}}
    found = definition(spec)
    version = found["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = {
        "type": "object",
        "properties": {"size": {"type": "integer"}},
    }
    version["subresources"] = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
    }
    version["additionalPrinterColumns"] = [
        {"name": "S", "type": "integer", "jsonPath": ".spec.size"}
    ]
    return found


SETUP: tuple[tuple[str, Json], ...] = (
    ("/api/v1/nodes", {"metadata": {"name": "n"}}),
    (f"{_CORE}/serviceaccounts", {"metadata": {"name": "default"}}),
    (_CRDS, _definition()),
    (
        "/apis/x.io/v1/namespaces/default/things",
        {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "o"}, "spec": {"size": 1}},
    ),
    (
        f"{_CORE}/pods",
        {
            "metadata": {"name": "a"},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        },
    ),
    (f"{_CORE}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}),
)


def _written(pod: Json, container: str, now: int, previous: bool) -> Output:
    return output_of(pod, container, now, previous=previous)


@define
class _Watch:
    """An open watch, the store's revision when it was opened, and the last one it told of."""

    answered: WatchAnswer
    last: int
    whole: bool
    """Whether it sees everything of its resource, or of a namespace."""


class Process:
    """A server over a store in memory, or in a file; what it finds wrong is in `findings`."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.store = Store() if path is None else DurableStore.open(path, grouped=True)
        self._uids, self._suffixes = count(1), count(1)
        options = ServerOptions(track_fields=True, authorize=True, container_log=_written)
        self.server = ApiServer(
            self.store,
            uid=lambda: f"00000000-0000-4000-8000-{next(self._uids):012}",
            suffix=lambda: f"x{next(self._suffixes):04}",
            options=options,
        )
        self.now = START
        self.server.bootstrap(self.now)
        self.findings: list[Finding] = []
        self.sent = 0
        self._watches: list[_Watch] = []
        for where, body in SETUP:
            raw = json.dumps(body).encode()
            found = self._answer(
                Message("POST", where, (("content-type", "application/json"),), raw)
            )
            assert found.code == 201, found.body
            self.server.advance()
        self.register = Register(self.store)

    # -- sending ---------------------------------------------------------------------------------

    def send(self, message: Message) -> Answered | None:
        """Send one request and look at what came of it; None when it ended with an exception."""
        self.sent += 1
        self.now += 37 * MILLISECOND
        if self.sent % 50 == 0:
            self.now += 2000 * MILLISECOND
            self.server.policies.refresh()
            self.store.expire(self.now)
            self.server.advance()
            self.register.follow(self.store)
        if self.sent % 211 == 0:
            self.store.compact(max(1, self.store.revision - 60))
        message = message.filled(self.register.known(message.place))
        before = self.store.revision
        answered = None
        began = time.process_time()
        try:
            answered = self._answer(message)
            self.server.advance()
            answered.seconds = time.process_time() - began
            self.findings += judged(answered)
            events = events_since(self.store, before)
            self.findings += self.register.answered(message, answered, events, self.store, self.get)
            self._look_at_watches(events)
        except Exception as error:  # whatever it is, it is what is looked for
            self.findings.append(thrown(error))
            self.server.advance()
            self.register.follow(self.store)
        return answered

    def get(self, path: str) -> Answered:
        """What is served at a path, to the administrator."""
        return self._answer(Message("GET", quote(path), (("accept", "application/json"),)))

    def _answer(self, message: Message) -> Answered:
        raw_path, _, raw_query = message.target.partition("?")
        try:
            path = unquoted(raw_path)
            query = parse_qs(raw_query, keep_blank_values=True)
        except (Refused, ValueError):
            return Answered(400, {}, b"", None)
        asked = packed(0, message.method, path, query, message.headers, message.body, ADMIN)
        http = to_request(asked)
        server, at_hand = self.server, self.server.at_hand
        found: HttpAnswer | WatchAnswer
        try:
            http.user = acting(server.access, server.lookup, http, self.now)
            steps = answering(server, json_request(http), self.now)
            found = at_hand.run(steps)
        except ApiError as error:
            found = failed(failure(error), http.headers.get("accept", ""))
        if isinstance(found, WatchAnswer):
            return self._opened(found)
        headers = {
            key.lower(): each if isinstance(each, str) else each[0]
            for key, each in found.headers.items()
        }
        if message.method == "HEAD" or found.code in _NO_BODY:
            return Answered(found.code, headers, b"", found.tree)
        pretty = answer_bodies.pretty_wanted(query, http.headers.get("user-agent", ""))
        body = b"".join(answer_bodies.encoded(found, pretty=pretty))
        return Answered(found.code, headers, body, found.tree)

    # -- watches ---------------------------------------------------------------------------------

    def _opened(self, found: WatchAnswer) -> Answered:
        self._read(_Watch(found, 0, whole=False))
        query = found.request.query
        whole = not ({"labelSelector", "fieldSelector", "shardSelector"} & set(query))
        last = self.store.revision
        since = query.get("resourceVersion") or "0"
        whole = whole and (not since.isdecimal() or int(since) <= last)  # else it begins later
        if not found.watcher.closed:
            self._watches.append(_Watch(found, last, whole and not found.request.name))
        if len(self._watches) > WATCHES:
            self._watches.pop(0).answered.watcher.stop()
        return Answered(200, {"content-type": found.format.media_type}, b"", None, stream=True)

    def _look_at_watches(self, events: list[tuple[str, Event]]) -> None:
        for watch in list(self._watches):
            info, request = watch.answered.watcher.info, watch.answered.request
            seen = self._read(watch)
            if watch.answered.watcher.closed:
                self._watches.remove(watch)
                continue
            if seen != sorted(set(seen)) or (seen and seen[0] <= watch.last):
                told = f"{request.label}: {seen} after {watch.last}"
                self.findings.append(Finding("watch", "events out of order", told))
            expected = [
                event.revision
                for prefix, event in events
                if prefix == info.storage_prefix
                and event.revision > watch.last
                and event.key.startswith(f"{request.namespace}/" if request.namespace else "")
            ]
            if watch.whole and seen != expected:
                told = f"{request.label}: {seen} instead of {expected}"
                self.findings.append(Finding("watch", "events are missing", told))
            watch.last = max([watch.last, *seen])

    def _read(self, watch: _Watch) -> list[int]:
        """Take what a watch has to tell, as bytes; the versions of what it told of."""
        answered, seen = watch.answered, []
        for event in answered.watcher.drain():
            try:
                if answered.format.plain:
                    b"".join(bytes(part) for part in answer_bodies.event_parts(event))
                else:
                    tree = answered.render(self.server, event, self.now)
                    answer_bodies.watch_line(tree, answered.format.media_type)
            except Unwritable:
                answered.watcher.stop()
                return []
            if event.type not in ("BOOKMARK", "ERROR"):
                seen.append(event.object.resource_version)
        return seen

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> list[Finding]:
        """Everything that was acknowledged is there; a file says so as well when it is opened again."""
        found = self.register.compared(self.store, self.get)
        if self.path is not None:
            self.store.commit()
            here = contents(self.store)
            self.store.close()
            again = DurableStore.open(self.path)
            if contents(again) != here:
                found.append(Finding("store", "another content after opening the file again"))
            again.close()
        return found


def events_since(store: Store, revision: int) -> list[tuple[str, Event]]:
    """What was written after a revision, with prefixes, in order."""
    if store.revision == revision:
        return []
    since = max(revision, store.compacted)
    found = [
        (prefix, event)
        for prefix, space in store.keyspaces.items()
        if space.latest > since
        for event in space.events_after(since)
    ]
    found.sort(key=lambda each: each[1].revision)
    return found


def contents(store: Store) -> Json:
    """All objects of a store with their versions, as JSON."""
    return {
        prefix: [
            (key, obj.resource_version, json.dumps(obj.tree))
            for key, obj in store.keyspace(prefix).items()
        ]
        for prefix in store.prefixes()
        if store.keyspace(prefix).entries
    }


@cache
def _prepared() -> Process:
    return Process()


def prepared_tree(path: str) -> Json:
    """What a server in the state in which episodes begin answers."""
    return _prepared().get(path).tree


def run(messages: Iterable[Message], *, durable: bool = False) -> tuple[Process, list[Finding]]:
    """Send an episode to a server of its own, and look at its end."""
    with tempfile.TemporaryDirectory() as folder:
        process = Process(Path(folder, "store.db") if durable else None)
        for message in messages:
            process.send(message)
        process.findings += process.end()
    return process, process.findings


def replay(
    requests: Sequence[tuple[str, str, dict[str, str], bytes]], *, durable: bool = False
) -> list[Finding]:
    """What a conversation as `shrinking` prints it finds wrong; `durable`: with a store in a file."""
    made = (
        Message(method, target, tuple(headers.items()), body)
        for method, target, headers, body in requests
    )
    return run(made, durable=durable)[1]


__all__ = ["Process", "contents", "events_since", "prepared_tree", "replay", "run"]
