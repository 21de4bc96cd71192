"""Faults for clients outside: requests refused, watches ended, expired or late, by rules that a client sets.

`GET /controlplane/faults` tells the rules, `POST` adds one, `DELETE` takes all away; each needs the group
system:masters. The rules enter the world as requests do, so a recorded session repeats the faults, too.

A rule is `{"action": ACTION, "code": 409, "seconds": 5, "verb": "update", "resource": "pods/status", "namespace": "*",
"name": "*", "agent": "kubectl*", "after": 0, "times": 1}`. Everything but the action may be left out; patterns are
those of file names. ACTION is `fail` (answer `code`), `cut` (end the watch before the event), `expire` (410 in the
watch: the client has to list anew), or `lag` (hold the events of the watch back for `seconds`). A rule lets the
first `after` that it matches pass and concerns the `times` that follow; 0 stands for all of them.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, define, field

from controlplane.apiserver.schema.api_error import ApiError
from controlplane.apiserver.schema.status import bad_request

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PATH", "ClientFaults", "Rule", "Subject"]

PATH: Final = "/controlplane/faults"
FAIL, CUT, EXPIRE, LAG = "fail", "cut", "expire", "lag"
ACTIONS: Final = (FAIL, CUT, EXPIRE, LAG)
MOST: Final = 1_000
"""The number of rules that may be in force."""
LONGEST_S: Final = 86_400.0
REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
RETRY_AFTER_S: Final = 1
"""The value of Retry-After in answers 429 and 503."""
_PATTERNS: Final = ("verb", "resource", "namespace", "name", "agent")


@define
class Subject:
    """A request, or the watch of an event, as rules see it."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    agent: str = ""


@define
class Rule:
    """One rule, and the number of times that it has matched."""

    action: str
    code: int = 0
    seconds: float = 0.0
    verb: str = "*"
    resource: str = "*"
    namespace: str = "*"
    name: str = "*"
    agent: str = "*"
    after: int = 0
    times: int = 1
    matched: int = field(default=0, init=False)

    def meets(self, subject: Subject) -> bool:
        """Count a match; return whether the rule concerns it."""
        if not all(fnmatchcase(getattr(subject, each), getattr(self, each)) for each in _PATTERNS):
            return False
        self.matched += 1
        past = self.matched - self.after
        return past > 0 and (not self.times or past <= self.times)


class ClientFaults:
    """The rules in force, in the order in which they came."""

    def __init__(self) -> None:
        self.rules: list[Rule] = []

    def control(self, method: str, body: bytes) -> dict[str, Any]:
        """Answer a request to `PATH`. ApiError 400, 405."""
        if method == "DELETE":
            self.rules.clear()
        elif method == "POST":
            if len(self.rules) >= MOST:
                raise bad_request(f"more than {MOST:,} rules")
            self.rules.append(rule_of(body))
        elif method != "GET":
            raise ApiError(
                405, "MethodNotAllowed", f"{PATH} knows GET, POST and DELETE, not {method}"
            )
        return {"rules": [asdict(each) for each in self.rules]}

    def refusal(self, subject: Subject) -> ApiError | None:
        """Return the error that a request is answered with; None to let it pass."""
        for rule in self.rules:
            if rule.action == FAIL and rule.meets(subject):
                return _error(rule.code, subject)
        return None

    def of_events(self, subject: Subject) -> Rule | None:
        """Return the rule that concerns the events which a watch is about to send, if one does."""
        for rule in self.rules:
            if rule.action != FAIL and rule.meets(subject):
                return rule
        return None


def _error(code: int, subject: Subject) -> ApiError:
    name = f' "{subject.name}"' if subject.name else ""
    details = {"retryAfterSeconds": RETRY_AFTER_S} if code in (429, 503) else None
    text = f"{subject.verb} {subject.resource}{name}: refused by a rule of {PATH}"
    return ApiError(code, REASONS[code], text, details)


def rule_of(body: bytes) -> Rule:
    """Read a rule. ApiError 400 that names the field and what was expected."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None
    if not isinstance(told, dict):
        raise bad_request("the body is no JSON object")
    known = ("action", "code", "seconds", "after", "times", *_PATTERNS)
    for key in told:
        if key not in known:
            raise bad_request(f"{str(key)[:40]!r}: expected one of {', '.join(known)}")
    action = told.get("action")
    if action not in ACTIONS:
        raise bad_request(f"action {str(action)[:40]!r}: expected {', '.join(ACTIONS)}")
    made: dict[str, Any] = {"action": action}
    if action == FAIL:
        made["code"] = _code(told)
    if action == LAG:
        made["seconds"] = _seconds(told)
    for key in ("after", "times"):
        if key in told:
            made[key] = _count(key, told[key])
    for key in _PATTERNS:
        if key in told:
            made[key] = _pattern(key, told[key])
    return Rule(**made)


def _code(told: Mapping[str, Any]) -> int:
    code = told.get("code")
    if isinstance(code, bool) or not isinstance(code, int) or code not in REASONS:
        raise bad_request(f"code {str(code)[:40]}: expected one of {', '.join(map(str, REASONS))}")
    return code


def _seconds(told: Mapping[str, Any]) -> float:
    found = told.get("seconds")
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 < found <= LONGEST_S:
        raise bad_request(
            f"seconds {str(found)[:40]}: expected a number above 0, {LONGEST_S:g} at most"
        )
    return float(found)


def _count(key: str, found: object) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < 1 << 31:
        raise bad_request(f"{key} {str(found)[:40]}: expected a whole number from 0")
    return found


def _pattern(key: str, found: object) -> str:
    if not isinstance(found, str) or not found or len(found) > 253:
        raise bad_request(f"{key}: expected a pattern of 1 to 253 characters")
    return found
