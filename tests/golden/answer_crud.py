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
from controlplane.api.times import format_micro_time, format_time
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

Json = Any

START = 1_795_348_800 * 10**9  # 2026-11-22T12:00: when the further conversations were recorded
SECOND = 10**9
FIRST_REVISION = 100_000
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
HEADERS = ("Content-Type", "Warning", "Retry-After", "Location", "Allow", "Vary", "ETag")
# The recorded servers were built without a version; everything else is as the release says.
RECORDED_BUILD = {
    **BUILD,
    "gitVersion": "v0.0.0-master+$Format:%H$",
    "gitCommit": "$Format:%H$",
    "gitTreeState": "",
}
ADMIN = User("admin", "admin-uid", ("system:masters", "system:authenticated"))

_UID = re.compile(r"aaaaaaaa-0000-4000-8000-\d{12}")
_TIME = re.compile(r"202[67]-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RV = re.compile(r"(?<![\d.:-])1\d{5}(?![\d.])")
_OLDEST = re.compile(r"(too old resource version: \S+ )\(\d+\)")  # "<anyrv>" in recordings
_SERVER_TIME = re.compile(r"<time(\+\d+s)?>")
_DIGEST = re.compile(r'"[0-9A-F]{128}"')
_PLACEHOLDER = re.compile(r"<(?:uid|rv|listrv|rand|ip|port|continue):\d+>")


class Names:
    """Placeholders by value and values by placeholder."""

    def __init__(self) -> None:
        self.by_value: dict[tuple[str, str], str] = {}
        self.values: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def fresh(self, kind: str, value: str) -> str:
        number = self.counts[kind] = self.counts.get(kind, 0) + 1
        name = f"<{kind}:{number}>"
        self.values[name] = value
        return name

    def of(self, kind: str, value: str) -> str:
        found = self.by_value.get((kind, value))
        if found is None:
            found = self.by_value[kind, value] = self.fresh(kind, value)
        return found


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
        self.names = Names()
        self.suffixes: dict[str, None] = {}
        self.uids = 0
        self.sent = ""
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
        number = len(self.suffixes) + 7
        text = ""
        for _ in range(5):
            number, digit = divmod(number * 31 + 11, 27)
            text += ALPHABET[digit]
        number = len(self.suffixes)
        text = (
            text[:2]
            + ALPHABET[number // 729 % 27]
            + ALPHABET[number // 27 % 27]
            + (ALPHABET[number % 27])
        )
        self.suffixes[text] = None
        return text

    # -- requests ------------------------------------------------------------------------------

    def actual(self, value: Json) -> Json:
        """A request's part with placeholders replaced by our values."""
        if isinstance(value, str):
            whole = _PLACEHOLDER.fullmatch(value)
            if whole and value.startswith("<port:"):
                return int(self.names.values.get(value, "0"))
            value = _PLACEHOLDER.sub(lambda m: self.names.values.get(m[0], m[0]), value)
            value = value.replace("<microtime>", format_micro_time(self.now))
            return _SERVER_TIME.sub(format_time(self.now), value)
        if isinstance(value, list):
            return [self.actual(item) for item in value]
        if isinstance(value, dict):
            return {self.actual(key): self.actual(item) for key, item in value.items()}
        return value

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
        self.sent += body.decode()
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
        order = sorted(
            (int(value), name)
            for name, value in self.names.values.items()
            if name.startswith("<rv:")
        )
        return {
            "responses": responses,
            "rvOrder": [name for _, name in order],
            "values": self.names.values,
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
                "body": self.normal(text, False),
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
            tree = watch.render(self.server, event, self.now)
            annotations = event.object.metadata.get("annotations", {})
            if event.type == "BOOKMARK" and "k8s.io/initial-events-end" not in annotations:
                continue
            shown = self.normal(tree["object"], event.type == "BOOKMARK")
            if event.type == "BOOKMARK":  # a bookmark's version is numbered per occurrence
                for row, real in zip(shown.get("rows", ()), tree["object"].get("rows", ())):
                    version = real["object"]["metadata"]["resourceVersion"]
                    row["object"]["metadata"]["resourceVersion"] = self.names.fresh("rv", version)
            out.append({"type": tree["type"], "object": shown})
        return out if count is None else out[:count]

    def response(self, result: HttpAnswer) -> Json:
        body = result.tree
        if body is None:
            body = result.text
        if result.packed is not None:
            body = {"binary": True, "length": len(result.packed), "prefix": result.packed[:4].hex()}
        headers = {name: result.headers[name] for name in HEADERS if name in result.headers}
        return {
            "status": result.code,
            "headers": {
                k: self.normal_text(v) if isinstance(v, str) else [self.normal_text(x) for x in v]
                for k, v in headers.items()
            },
            "body": self.normal(body, False),
        }

    # -- normalising ---------------------------------------------------------------------------

    def normal(self, value: Json, listing: bool) -> Json:
        if isinstance(value, dict):
            kind = value.get("kind", "")
            if isinstance(kind, str) and (
                kind.endswith("List") and isinstance(value.get("metadata"), dict) or kind == "Table"
            ):
                listing = True
            return self._map(value, listing)
        return self._any("", value, listing)

    def _map(self, value: Json, listing: bool = False) -> Json:
        out = {}
        for key in sorted(value):
            item = value[key]
            if key == "managedFields":
                if not self.case.get("managedFields"):
                    continue
                item = sorted(
                    item,
                    key=lambda e: (
                        e.get("operation", ""),
                        e.get("manager", ""),
                        e.get("subresource", ""),
                        e.get("apiVersion", ""),
                    ),
                )
            if key == "metadata" and listing and isinstance(item, dict):
                out[key] = self._list_meta(item)
                continue
            if key == "deletionTimestamp" and value.get("deletionGracePeriodSeconds"):
                out[key] = f"<time+{value['deletionGracePeriodSeconds']}s>"
                continue
            out[self.normal_text(key)] = self._any(key, item, False)
        return out

    def _list_meta(self, meta: Json) -> Json:
        out = self._map({k: v for k, v in meta.items() if k not in ("resourceVersion", "continue")})
        if meta.get("continue") == "":
            out["continue"] = ""
        elif "continue" in meta:
            out["continue"] = self.names.fresh("continue", meta["continue"])
        if "resourceVersion" in meta:
            out["resourceVersion"] = self.names.fresh("listrv", meta["resourceVersion"])
        return out

    def _any(self, key: str, value: Json, listing: bool) -> Json:
        if isinstance(value, dict):
            return self._map(value)
        if isinstance(value, list):
            return [self._any(key, item, listing) for item in value]
        if isinstance(value, int) and not isinstance(value, bool):
            if (
                key in ("nodePort", "healthCheckNodePort")
                and value >= 30000
                and (("port", str(value)) in self.names.by_value or str(value) not in self.sent)
            ):
                return self.names.of("port", str(value))
            return value
        if isinstance(value, str):
            if key == "continue":
                return self.names.fresh("continue", value)
            if (
                key in ("clusterIP", "clusterIPs", "cells")
                and value.startswith("10.0.0.")
                and (("ip", value) in self.names.by_value or f'"{value}"' not in self.sent)
            ):
                return self.names.of("ip", value)
            return self.normal_text(value, key)
        return value

    def normal_text(self, text: str, key: str = "") -> str:
        text = _UID.sub(lambda m: self.names.of("uid", m[0]), text)
        text = _TIME.sub(self._time, text)
        for suffix in self.suffixes:
            if suffix in text:
                text = text.replace(suffix, self.names.of("rand", suffix))
        if key in ("resourceVersion", "message", "") or "ersion" in key:
            text = _OLDEST.sub(r"\1(0)", text)
            text = _RV.sub(self._version, text)
        return text

    def _time(self, match: re.Match[str]) -> str:
        if match[0] < format_time(START):  # before the server began: the case sent it
            return match[0]
        return "<microtime>" if match[1] else "<time>"

    def _version(self, match: re.Match[str]) -> str:
        value = match[0]
        if FIRST_REVISION < int(value) <= self.server.store.revision and value not in self.sent:
            return self.names.of("rv", value)
        return self.names.by_value.get(("rv", value), value)


def answer(case_in: Json) -> Json:
    return Replay(case_in).run()


_AGE = r"(<invalid>|(\d+[smhdy])+)"
_LOOSE = re.compile(r"<(?:listrv|continue):\d+>")


def compare(want: Json, got: Json) -> str | None:
    """None, or where the first difference lies."""
    for index, wanted in enumerate(want["responses"]):
        problem = _differs(wanted, got["responses"][index], f"[{index}]")
        if problem:
            return problem
    wanted_order = want.get("rvOrder", [])
    if wanted_order and wanted_order != got["rvOrder"]:
        return f"rvOrder: want {wanted_order} got {got['rvOrder']}"
    for listed, least in want.get("listRv", {}).items():
        ours = got["values"].get(listed)
        floor = got["values"].get(least) if least else None
        if ours and floor and int(ours) < int(floor):
            return f"{listed} is older than {least}"
    return None


def _differs(want: Json, got: Json, path: str) -> str | None:
    if isinstance(want, dict) and isinstance(got, dict):
        if path.endswith(".headers") and "ETag" in want:
            want = {**want, "ETag": "?"}
            got = {**got, "ETag": "?"} if "ETag" in got else got
        for key in sorted({*want, *got}):
            if key not in got:
                return f"{path}.{key}: missing, want {_short(want[key])}"
            if key not in want:
                return f"{path}.{key}: unexpected {_short(got[key])}"
            problem = _differs(want[key], got[key], f"{path}.{key}")
            if problem:
                return problem
        return None
    if isinstance(want, list) and isinstance(got, list):
        if path.endswith(".resources") and want and isinstance(want[0], dict):
            want = sorted(want, key=lambda item: item.get("name", ""))
            got = sorted(got, key=lambda item: item.get("name", ""))
        for index, (a, b) in enumerate(zip(want, got)):
            problem = _differs(a, b, f"{path}[{index}]")
            if problem:
                return problem
        if len(want) != len(got):
            rest = (want if len(want) > len(got) else got)[min(len(want), len(got))]
            return f"{path}: want {len(want)} items, got {len(got)}; {_short(rest)}"
        return None
    if isinstance(want, str) and isinstance(got, str):
        loose = [_LOOSE.sub("<?>", text) for text in (want, got)]
        if "<anyrv>" in want:
            pattern = re.escape(want).replace(re.escape("<anyrv>"), r"(<rv:\d+>|\d+)")
            return None if re.fullmatch(pattern, got) else f"{path}: want {want} got {got}"
        if "?hash=" in want:  # which documents there are; their hashes are opaque like ETags
            return None if _hashless(want) == _hashless(got) else f"{path}: {_short(got)}"
        if "<time" in want and _close(want, got):
            return None
        if "<age>" in want:
            pattern = re.escape(want).replace("<age>", _AGE)
            return None if re.fullmatch(pattern, got) else f"{path}: want {want} got {got}"
        return None if loose[0] == loose[1] else f"{path}: want {want!r} got {got!r}"
    if want != got or isinstance(want, bool) is not isinstance(got, bool):
        return f"{path}: want {_short(want)} got {_short(got)}"
    return None


def _close(want: str, got: str) -> bool:
    """Times count as equal when both are server times, however long the grace."""
    plain = re.compile(r"<time\+\d+s>")
    return plain.sub("<time>", want) == plain.sub("<time>", got)


def _hashless(text: str) -> str:
    return re.sub(r"hash=[0-9A-F]+", "hash=", text)


def _short(value: Json) -> str:
    text = json.dumps(value)
    return text if len(text) < 300 else text[:300] + "..."
