"""API requests replayed against a fresh server; every answer is compared.

Values that the real server chose (uids, versions, times, addresses) stand in the recordings as
placeholders, numbered by first appearance. Ours are numbered the same way, so that a placeholder in
a later request finds the value that we gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from typing import Any

from controlplane.api.request import User
from controlplane.apiserver.front.answering import HttpAnswer, WatchAnswer
from controlplane.apiserver.front.answering import answer as serve
from controlplane.apiserver.http.impersonation import acting
from controlplane.apiserver.options import BUILD, ServerOptions
from controlplane.apiserver.requests.lookup import resource_named
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.requests.tokens import digest_of
from controlplane.apiserver.schema.status import ApiError
from controlplane.apiserver.storage.store import Store
from tests.golden.masks import FIRST_REVISION, Masks, compare

__all__ = [
    "ADMIN",
    "ALPHABET",
    "FIRST_REVISION",
    "RECORDED_BUILD",
    "START",
    "Replay",
    "answer",
    "compare",
]

Json = Any

START = 1_795_348_800 * 10**9  # 2026-11-22T12:00: when the further conversations were recorded
SECOND = 10**9
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# The recorded servers were built without a version; everything else is as the release says.
RECORDED_BUILD = {
    **BUILD,
    "gitVersion": "v0.0.0-master+$Format:%H$",
    "gitCommit": "$Format:%H$",
    "gitTreeState": "",
}
ADMIN = User("admin", "admin-uid", ("system:masters", "system:authenticated"))

_UID = re.compile(r"aaaaaaaa-0000-4000-8000-\d{12}")
_DIGEST = re.compile(r'"[0-9A-F]{128}"')


OPTIONS = ServerOptions(
    track_fields=True,
    authorize=True,
    address="<server>",
    build=RECORDED_BUILD,
    static_tokens={digest_of("admin-token"): ADMIN},
)


def _uid_of(number: int) -> str:
    return f"aaaaaaaa-0000-4000-8000-{number:012}"


@cache
def _bootstrapped() -> tuple[Store, int]:
    """What every case begins with a fork of, and how many uids it took."""
    store = Store(FIRST_REVISION)
    store.compacted = FIRST_REVISION
    numbers = count(1)
    server = ApiServer(store, uid=lambda: _uid_of(next(numbers)), suffix=str, options=OPTIONS)
    server.bootstrap(START)
    return store, next(numbers) - 1


class Replay:
    """One case: a server, a clock and the names given so far."""

    def __init__(self, case: Json, setup: Callable[[ApiServer, int], None] | None = None) -> None:
        self.case = case
        self.now = START
        self.masks = Masks(
            _UID, START, lambda: self.server.store.revision, managed=bool(case.get("managedFields"))
        )
        self.uids = 0
        store, self.uids = _bootstrapped()
        store = store.fork()
        self.server = ApiServer(store, uid=self._uid, suffix=self._suffix, options=OPTIONS)
        # Earlier policies of the recorded servers had config maps as parameters, and were deleted.
        self.server.parameters.stop(resource_named("", "configmaps"))
        if setup is not None:
            setup(self.server, self.now)
        self.revision = store.revision
        self.background: dict[str, tuple[WatchAnswer, Json]] = {}
        self.step_seconds = 0
        self.watches: list[WatchAnswer] = []
        self.tags: dict[str, str] = {}

    def _uid(self) -> str:
        self.uids += 1
        return _uid_of(self.uids)

    def _suffix(self) -> str:
        number = len(self.masks.suffixes) + 7
        text = ""
        for _ in range(5):
            number, digit = divmod(number * 31 + 11, 27)
            text += ALPHABET[digit]
        number = len(self.masks.suffixes)
        text = (
            text[:2]
            + ALPHABET[number // 729 % 27]
            + ALPHABET[number // 27 % 27]
            + (ALPHABET[number % 27])
        )
        self.masks.suffixes[text] = None
        return text

    # -- requests ------------------------------------------------------------------------------

    def actual(self, value: Json) -> Json:
        """A request's part with placeholders replaced by our values."""
        return self.masks.actual(value, self.now)

    def http(self, step: Json) -> HttpRequest:
        headers = {"user-agent": "golden/1.0", "accept": "application/json"}
        for key, value in step.get("headers", {}).items():
            value = self.actual(value)
            headers[key.lower()] = ", ".join(value) if isinstance(value, list) else value
        if _DIGEST.fullmatch(headers.get("if-none-match", "")):  # a tag that the server once gave
            headers["if-none-match"] = self.tags.get(step["path"], "")
        body = b""
        if "body" in step:
            headers.setdefault("content-type", "application/json")
            body = json.dumps(self.actual(step["body"]), sort_keys=True).encode()
        elif "bodyText" in step:
            body = self.actual(step["bodyText"]).encode()
        query = {
            key: [str(item) for item in (value if isinstance(value, list) else [value])]
            for key, value in self.actual(step.get("query", {})).items()
        }
        self.masks.sent += body.decode()
        return HttpRequest(step["method"], self.actual(step["path"]), query, headers, body, ADMIN)

    def ask(self, step: Json) -> HttpAnswer | WatchAnswer:
        http = self.http(step)
        try:
            http.user = acting(self.server.access, self.server.lookup, http, self.now)
            result = serve(self.server, http, self.now)
        except ApiError as error:
            result = HttpAnswer(error.code, {"Content-Type": "application/json"}, error.tree)
        if isinstance(result, HttpAnswer) and "ETag" in result.headers:
            self.tags[step["path"]] = str(result.headers["ETag"])
        self.server.advance()
        return result

    # -- steps ---------------------------------------------------------------------------------

    def run(self) -> Json:
        for step in self.case.get("setup", ()):
            result = self.ask(step)
            assert isinstance(result, HttpAnswer) and result.code < 300, (step, result)
        responses = [self.step(step) for step in self.case["requests"]]
        return {
            "responses": responses,
            "rvOrder": self.masks.version_order(),
            "values": self.masks.names.values,
        }

    def wait(self, seconds: int) -> None:
        self.now += int(seconds * SECOND)
        self.server.policies.refresh()

    def step(self, step: Json) -> Json:
        if "waitSeconds" in step:
            self.wait(step["waitSeconds"])
            return {}
        if step.get("storageCompaction"):
            self.server.store.compact(self.server.store.revision)
            self.wait(45)
            return {}
        if "waitEstablished" in step or "waitGone" in step:
            self.wait(5)
            self.server.settle(self.now)
            return {}
        if "collect" in step:
            watch, _ = self.background[step["collect"]]
            return {"events": self.events(watch, step["events"])}
        pause = self.case.get("secondsBeforeEachWrite", 0)
        if pause and step["method"] != "GET":
            self.wait(pause)
        result = self.ask(step)
        if isinstance(result, WatchAnswer) and not step.get("watch"):
            text = "".join(self.lines(result))  # recorded as the text that it is
            return {
                "status": 200,
                "headers": {"Content-Type": "application/json"},
                "body": self.masks.normal(text, False),
            }
        if isinstance(result, WatchAnswer):
            if step.get("background"):
                self.background[step["background"]] = (result, step)
                return {"started": step["background"]}
            answer = {
                "status": 200,
                "headers": {"Content-Type": "application/json"},
                "events": self.events(result, None),
            }
            return answer
        self.server.settle(self.now)
        return self.response(result)

    def lines(self, watch: WatchAnswer) -> Iterator[str]:
        for event in watch.watcher.drain():
            tree = watch.render(self.server, event, self.now)
            yield json.dumps(tree, separators=(",", ":"), ensure_ascii=False) + "\n"

    def events(self, watch: WatchAnswer, count: int | None) -> Json:
        out = []
        for event in watch.watcher.drain():
            shown = self.masks.event(watch.render(self.server, event, self.now))
            if shown is not None:
                out.append(shown)
        return out if count is None else out[:count]

    def response(self, result: HttpAnswer) -> Json:
        body = result.tree
        if body is None:
            body = result.text
        if result.packed is not None:
            body = {"binary": True, "length": len(result.packed), "prefix": result.packed[:4].hex()}
        return self.masks.response(result.code, result.headers, body)


def answer(case_in: Json) -> Json:
    return Replay(case_in).run()
