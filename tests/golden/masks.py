"""Placeholders for what a server chooses, and the comparison of masked answers.

Values that a server chose (uids, versions, times, addresses) become placeholders, numbered by first
appearance, so that a placeholder in a later request finds the value that this server gave.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from controlplane.api.times import format_micro_time, format_time

Json = Any

FIRST_REVISION = 100_000
HEADERS = ("Content-Type", "Warning", "Retry-After", "Location", "Allow", "Vary", "ETag")

_TIME = re.compile(r"202[67]-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_RV = re.compile(r"(?<![\d.:-])[1-9]\d{5}(?![\d.])")
_OLDEST = re.compile(r"(too old resource version: \S+ )\(\d+\)")  # "<anyrv>" in recordings
_SERVER_TIME = re.compile(r"<time(\+\d+s)?>")
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


class Masks:
    """The masking of one conversation with one server.

    Args:
        uids: matches uids that the server makes.
        start: the time (ns) from which on a time counts as the server's.
        latest: returns the server's newest revision.
        managed: entries of `managedFields` are compared, not dropped.
    """

    def __init__(
        self, uids: re.Pattern[str], start: int, latest: Callable[[], int], *, managed: bool
    ) -> None:
        self.names = Names()
        self.suffixes: dict[str, None] = {}
        """Generated endings of names."""
        self.sent = ""
        """All bodies that were sent: values in them are the client's."""
        self._uids = uids
        self._since = format_time(start)
        self._latest = latest
        self._managed = managed

    def actual(self, value: Json, now: int) -> Json:
        """A request's part with placeholders replaced by this server's values."""
        if isinstance(value, str):
            whole = _PLACEHOLDER.fullmatch(value)
            if whole and value.startswith("<port:"):
                return int(self.names.values.get(value, "0"))
            value = _PLACEHOLDER.sub(lambda m: self.names.values.get(m[0], m[0]), value)
            value = value.replace("<microtime>", format_micro_time(now))
            return _SERVER_TIME.sub(format_time(now), value)
        if isinstance(value, list):
            return [self.actual(item, now) for item in value]
        if isinstance(value, dict):
            return {self.actual(key, now): self.actual(item, now) for key, item in value.items()}
        return value

    def version_order(self) -> list[str]:
        """The placeholders of objects' versions, oldest first."""
        order = sorted(
            (int(value), name)
            for name, value in self.names.values.items()
            if name.startswith("<rv:")
        )
        return [name for _, name in order]

    def event(self, tree: Json) -> Json | None:
        """An event of a watch; None for a plain bookmark."""
        bookmark = tree["type"] == "BOOKMARK"
        annotations = _annotations(tree["object"])
        if bookmark and "k8s.io/initial-events-end" not in annotations:
            return None
        shown = self.normal(tree["object"], bookmark)
        if bookmark:  # a bookmark's version is numbered per occurrence
            for row, real in zip(shown.get("rows", ()), tree["object"].get("rows", ())):
                version = real["object"]["metadata"]["resourceVersion"]
                row["object"]["metadata"]["resourceVersion"] = self.names.fresh("rv", version)
        return {"type": tree["type"], "object": shown}

    def response(self, status: int, headers: Json, body: Json) -> Json:
        """An answer: those headers that are compared, and the body."""
        kept = {name: headers[name] for name in HEADERS if name in headers}
        return {
            "status": status,
            "headers": {
                k: self.normal_text(v) if isinstance(v, str) else [self.normal_text(x) for x in v]
                for k, v in kept.items()
            },
            "body": self.normal(body, False),
        }

    def normal(self, value: Json, listing: bool) -> Json:
        """A body with placeholders; `listing`: its metadata are those of a list."""
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
                if not self._managed:
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
        """A text with placeholders; `key` is the field in which it stands."""
        text = self._uids.sub(self._uid, text)
        text = _TIME.sub(self._time, text)
        for suffix in self.suffixes:
            if suffix in text:
                text = text.replace(suffix, self.names.of("rand", suffix))
        if key in ("resourceVersion", "message", "") or "ersion" in key:
            text = _OLDEST.sub(r"\1(0)", text)
            text = _RV.sub(self._version, text)
        return text

    def _uid(self, match: re.Match[str]) -> str:
        known = self.names.by_value.get(("uid", match[0]))
        if known is None and match[0] in self.sent:  # the case sent it
            return match[0]
        return known or self.names.of("uid", match[0])

    def _time(self, match: re.Match[str]) -> str:
        if match[0] < self._since:  # before the server began: the case sent it
            return match[0]
        return "<microtime>" if match[1] else "<time>"

    def _version(self, match: re.Match[str]) -> str:
        value = match[0]
        if FIRST_REVISION < int(value) <= self._latest() and value not in self.sent:
            return self.names.of("rv", value)
        return self.names.by_value.get(("rv", value), value)


def _annotations(tree: Json) -> Json:
    """The annotations that say what a bookmark is: a Table has them in its row."""
    for row in tree.get("rows") or ():
        return _annotations(row.get("object") or {})
    return (tree.get("metadata") or {}).get("annotations") or {}


_AGE = r"(<invalid>|(\d+[smhdy])+)"
_LOOSE = re.compile(r"<(?:listrv|continue):\d+>")


def compare(want: Json, got: Json) -> str | None:
    """None, or where the first difference lies."""
    for index, wanted in enumerate(want["responses"]):
        problem = differs(wanted, got["responses"][index], f"[{index}]")
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


def differs(want: Json, got: Json, path: str) -> str | None:
    """None, or where two masked answers first differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        if path.endswith(".headers") and "ETag" in want:
            want = {**want, "ETag": "?"}
            got = {**got, "ETag": "?"} if "ETag" in got else got
        for key in sorted({*want, *got}):
            if key not in got:
                return f"{path}.{key}: missing, want {_short(want[key])}"
            if key not in want:
                return f"{path}.{key}: unexpected {_short(got[key])}"
            problem = differs(want[key], got[key], f"{path}.{key}")
            if problem:
                return problem
        return None
    if isinstance(want, list) and isinstance(got, list):
        if path.endswith(".resources") and want and isinstance(want[0], dict):
            want = sorted(want, key=lambda item: item.get("name", ""))
            got = sorted(got, key=lambda item: item.get("name", ""))
        if path.endswith(".causes") and any("conflict with" in str(each) for each in want):
            want, got = (
                sorted(want, key=_short),
                sorted(got, key=_short),
            )  # upstream's order is random
        for index, (a, b) in enumerate(zip(want, got)):
            problem = differs(a, b, f"{path}[{index}]")
            if problem:
                return problem
        if len(want) != len(got):
            rest = (want if len(want) > len(got) else got)[min(len(want), len(got))]
            return f"{path}: want {len(want)} items, got {len(got)}; {_short(rest)}"
        return None
    if isinstance(want, str) and isinstance(got, str):
        if want == got:
            return None
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
