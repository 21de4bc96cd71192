"""What a campaign counts, and the table it ends with."""

from __future__ import annotations

from collections import Counter

from attrs import Factory, define

from tests.chaos.fuzz.judging import Answered, Finding
from tests.chaos.fuzz.messages import Message, resource_of

SLOWEST = 10
_VERBS = {"POST": "create", "PUT": "update", "DELETE": "delete"}


def verb_of(message: Message) -> str:
    """The verb that a request stands for, roughly."""
    if message.method == "GET":
        if "watch=" in message.target:
            return "watch"
        return "get" if message.place else "list" if resource_of(message.path) else "page"
    if message.method == "PATCH":
        return "apply" if "apply" in message.media else "patch"
    if message.method == "DELETE" and not message.place:
        return "deletecollection"
    return _VERBS.get(message.method, "other")


@define
class Tally:
    """Counts; two can be added."""

    requests: int = 0
    codes: Counter[tuple[str, str, int]] = Factory(Counter)
    """By verb, media type of the body (of the answer for reads), and status code."""
    served: Counter[str] = Factory(Counter)
    """Successful requests, by resource and subresource."""
    slowest: list[tuple[float, str, int]] = Factory(list)
    """Seconds of computing, request, status code."""
    findings: list[tuple[int, int, Finding]] = Factory(list)
    """Episode, number in it (-1: its end), and what was found."""

    def count(self, message: Message, answered: Answered | None) -> None:
        """Count one request; one without an answer as 0."""
        self.requests += 1
        code = answered.code if answered is not None else 0
        media = message.media if message.body else message.header("accept").partition(";")[0]
        self.codes[verb_of(message), media[:40] or "-", code] += 1
        if answered is None:
            return
        if answered.code < 300:
            self.served[resource_of(message.path) or "pages"] += 1
        if len(self.slowest) < SLOWEST or answered.seconds > self.slowest[-1][0]:
            self.slowest.append(
                (
                    answered.seconds,
                    f"{message.method} {message.target[:90]} ({len(message.body)} bytes)",
                    code,
                )
            )
            self.slowest = sorted(self.slowest, reverse=True)[:SLOWEST]

    def add(self, other: Tally) -> None:
        """Add what another one counted."""
        self.requests += other.requests
        self.codes += other.codes
        self.served += other.served
        self.slowest = sorted([*self.slowest, *other.slowest], reverse=True)[:SLOWEST]
        self.findings += other.findings

    def table(self, resources: list[str]) -> str:
        """The table; `resources` are those that there are, with their subresources."""
        lines = [f"{'VERB':17} {'MEDIA TYPE':40} {'REQUESTS':>9}  STATUS CODES"]
        rows: dict[tuple[str, str], Counter[int]] = {}
        for (verb, media, code), number in self.codes.items():
            known = {each for each in _MEDIA if each == media}
            rows.setdefault((verb, media if known else "others"), Counter())[code] += number
        for (verb, media), codes in sorted(rows.items()):
            told = " ".join(f"{code}:{number}" for code, number in sorted(codes.items()))
            lines.append(f"{verb:17} {media:40} {codes.total():>9}  {told}")
        lines.append(f"\n{'SECONDS':>8}  SLOWEST (computing)")
        lines += [f"{seconds:8.3f}  {code} {what}" for seconds, what, code in self.slowest]
        missed = [each for each in resources if not self.served[each]]
        lines.append(
            f"\nanswered with success: {len(resources) - len(missed)} of {len(resources)} resources and"
            f" subresources{'; never: ' + ', '.join(missed) if missed else ''}"
        )
        return "\n".join(lines)


_MEDIA = (
    "-",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "*/*",
)
