"""One request as it is sent, before what only the server knows is filled in."""

from __future__ import annotations

import json
from urllib.parse import unquote, urlsplit

from attrs import frozen

PROTOBUF = "application/vnd.kubernetes.protobuf"
WORDS = (b"@rv@", b"@old@", b"@uid@", b"@continue@", b"@token@")
"""In a body or a target: the object's last and first version, its uid, the last continue token, a token."""


@frozen
class Message:
    """Method, target (path and query as sent), headers in lower case, body."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def path(self) -> str:
        """The path as a server reads it."""
        return unquote(self.target.partition("?")[0])

    @property
    def media(self) -> str:
        """The media type of the body, "" without one."""
        return self.header("content-type").partition(";")[0].strip()

    def header(self, name: str) -> str:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def place(self) -> str:
        """The path of the object that is meant, without a subresource."""
        return place_of(self.path)

    @property
    def dry(self) -> bool:
        """Whether it asks for nothing to be written."""
        if self.method == "DELETE" and self.body:
            try:  # what stands in the query does not count then
                options = json.loads(self.body)
            except ValueError:
                return b'"dryRun":["All"]' in self.body
            return isinstance(options, dict) and options.get("dryRun") == ["All"]
        return "dryRun" in urlsplit(self.target).query

    def filled(self, known: dict[bytes, bytes]) -> Message:
        """With the words replaced by what is known."""
        body, target = self.body, self.target
        for word in WORDS:
            if word in body:
                body = body.replace(word, known.get(word, b"1"))
            text = word.decode()
            if text in target:
                target = target.replace(text, known.get(word, b"1").decode())
        headers = self.headers
        if any("@token@" in value for _, value in headers):
            token = known.get(b"@token@", b"x").decode()
            headers = tuple((key, value.replace("@token@", token)) for key, value in headers)
        return Message(self.method, target, headers, body)


def parts_of(path: str) -> list[str]:
    """The parts of a path behind group and version; nothing for a path elsewhere."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"]:
        return parts[2:]
    return parts[3:] if parts[:1] == ["apis"] else []


def place_of(path: str) -> str:
    """The path of an object to which a path belongs; "" for what is none."""
    parts = [part for part in path.split("/") if part]
    rest = parts_of(path)
    start = len(parts) - len(rest)
    if len(rest) >= 4 and rest[0] == "namespaces":
        return "/" + "/".join(parts[: start + 4])
    if len(rest) >= 2 and (
        rest[0] != "namespaces" or len(rest) == 2 or rest[2] in ("status", "finalize")
    ):
        return "/" + "/".join(parts[: start + 2])
    return ""


def resource_of(path: str) -> str:
    """`group/resource` that a path names, and the subresource behind it; "" for other paths."""
    parts = [part for part in path.split("/") if part]
    rest = parts_of(path)
    if not rest:
        return ""
    group = "" if parts[0] == "api" else parts[1]
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    sub = f"/{rest[2]}" if len(rest) > 2 else ""
    return f"{group}/{rest[0]}{sub}"
