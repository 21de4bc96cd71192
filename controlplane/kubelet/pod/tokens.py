"""Tokens of service accounts in the files of a pod: which ones it mounts, what is asked for, and when they are renewed.

Upstream: pkg/kubelet/token/token_manager.go and the projected volume plugin. A token is renewed when less than a fifth
of its life is left, or when it is a day old; a token that cannot be renewed stays until it expires.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from attrs import define, field, frozen

from controlplane.api.pod import Pod
from controlplane.api.times import MILLISECOND, SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.container_runtime import is_described
from controlplane.kubelet.pod.references import volumes_of

__all__ = [
    "FIRST_DELAY",
    "LARGEST_DELAY",
    "PodTokens",
    "Source",
    "Token",
    "Tokens",
    "body_of",
    "runs_programs",
    "sources_of",
]

MAXIMUM_AGE: Final = 24 * 3600 * SECOND
FIRST_DELAY: Final = 500 * MILLISECOND
LARGEST_DELAY: Final = 122 * SECOND


class Tokens(Protocol):
    """The tokens of the pods of a node."""

    def look(self, pod: Pod, volume: str) -> str | None:
        """Return whether a volume has its tokens: "" if so, why not if that is known, None if they are on their way."""


@frozen
class Source:
    """A token that a volume of a pod is to hold."""

    volume: str
    path: str
    audience: str
    seconds: int


@frozen
class Token:
    """A token with the time of its expiry, in nanoseconds since 1970, and the seconds that it lives."""

    text: str = field(repr=False)
    expires: int
    seconds: int

    @staticmethod
    def of(answer: Tree) -> Token:
        """Return the token of an answered TokenRequest."""
        status = answer["status"]
        expires = parse_time(status["expirationTimestamp"])
        return Token(status["token"], expires, answer["spec"]["expirationSeconds"])

    def renewed_at(self, jitter: int) -> int:
        """Return the time from which on it is renewed; `jitter` is how much earlier than it has to be."""
        issued = self.expires - self.seconds * SECOND
        fifth = self.seconds * 20 // 100 * SECOND
        return min(issued + MAXIMUM_AGE, self.expires - fifth) - jitter

    def expired(self, now: int) -> bool:
        """Return whether it is of no use any more."""
        return now > self.expires


@define
class PodTokens:
    """The tokens of one pod, and why the last request for one failed."""

    pod: Pod
    sources: tuple[Source, ...]
    tokens: dict[Source, Token] = field(factory=dict)
    errors: dict[Source, str] = field(factory=dict)
    delay: int = 0
    _passing: dict[Source, None] = field(factory=dict)
    """Requests that failed for a reason that goes by itself."""

    @property
    def promising(self) -> bool:
        """Return whether the next request may be answered although nothing else changes."""
        return bool(self._passing)

    def look(self, volume: str) -> str | None:
        """As `Tokens.look`."""
        wanted = [each for each in self.sources if each.volume == volume]
        missing = [each for each in wanted if each not in self.tokens]
        if not missing:
            return ""
        return next((self.errors[each] for each in missing if each in self.errors), None)

    def due(self, now: int, jitter: int) -> list[Source]:
        """Return the tokens to ask for: those that are not there, and those to be renewed."""
        return [
            each
            for each in self.sources
            if each not in self.tokens or self.tokens[each].renewed_at(jitter) <= now
        ]

    def took(self, source: Source, token: Token) -> None:
        """A request was answered."""
        self.tokens[source] = token
        self.errors.pop(source, None)
        self._passing.pop(source, None)

    def failed(self, source: Source, error: str, now: int, *, promising: bool = False) -> str:
        """A request failed; return what is to be said of it. A token that is still good stays."""
        self.errors[source] = f"failed to fetch token: {error}"
        self._passing.pop(source, None)
        if promising:
            self._passing[source] = None
        held = self.tokens.get(source)
        if held is None:
            return self.errors[source]
        if held.expired(now):
            return f"token of {self.pod.key} expired and refresh failed: {error}"
        return f"couldn't update token of {self.pod.key}: {error}"

    def next_request(self, now: int, jitter: int) -> int:
        """Return the time of the next request: after a failure sooner than a token has to be renewed."""
        if self.errors:
            self.delay = min(2 * self.delay, LARGEST_DELAY) if self.delay else FIRST_DELAY
            return now + self.delay
        self.delay = 0
        return min(each.renewed_at(jitter) for each in self.tokens.values())


def sources_of(pod: Pod) -> tuple[Source, ...]:
    """Return the tokens in the volumes that a pod's containers mount."""
    return tuple(_sources(pod))


def _sources(pod: Pod) -> Iterator[Source]:
    for volume in volumes_of(pod):
        for each in (volume.get("projected") or {}).get("sources") or ():
            wanted = each.get("serviceAccountToken")
            if wanted is not None:
                yield Source(
                    volume["name"],
                    wanted["path"],
                    wanted.get("audience") or "",
                    wanted.get("expirationSeconds") or 3600,
                )


def body_of(pod: Pod, source: Source) -> Tree:
    """Return the TokenRequest for a token: it is bound to the pod and ends with it."""
    spec: Tree = {
        "expirationSeconds": source.seconds,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
    }
    if source.audience:
        spec["audiences"] = [source.audience]
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}


def runs_programs(pod: Pod) -> bool:
    """Return whether the emulated shell runs a program of one of the pod's containers."""
    spec = pod.tree["spec"]
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for each in spec.get(part) or ():
            words = (*(each.get("command") or ()), *(each.get("args") or ()))
            if (words or each.get("stdin")) and not is_described(pod, each["name"]):
                from controlplane.shell.running import knows  # the shell is loaded when needed

                if knows(words, stdin=bool(each.get("stdin")), tty=bool(each.get("tty"))):
                    return True
    return False
