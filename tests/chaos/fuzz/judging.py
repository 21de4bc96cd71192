"""What an answer may be: which failures upstream has as well, and how a Status looks."""

from __future__ import annotations

import json
import traceback
from typing import Any

from attrs import define, frozen

Json = Any
SECONDS = 1.0
"""No request may compute longer."""
UPSTREAMS = (
    (500, "target.name: ", "a binding without a target fails inside of the storage"),
    (500, "target.kind: ", "a binding without a target fails inside of the storage"),
    (
        500,
        "failed to create typed patch object",
        "apply of a body that is not typed: a plain error",
    ),
    (500, "resourceVersion: ", "a malformed version fails inside of the storage"),
    (500, "unknown patch type", "a subresource that knows no such patch"),
    (500, "map: ", "strategic merge patch of something that is no map"),
    (500, "list element types are not identical", "strategic merge patch of mixed lists"),
    (500, "resource name may not be empty", "a path without a name"),
    (504, "Too large resource version", "a version of the future is waited for"),
    (500, "strconv.ParseUint: parsing", "a malformed version fails inside of the storage"),
    (500, "failed to convert new object", "apply in another version: a plain error"),
    (503, "no endpoints available", "a service without endpoints"),
    (
        504,
        "request did not complete within requested timeout",
        "what takes too long is interrupted",
    ),
    (
        504,
        "request did not complete within the allotted timeout",
        "what takes too long is interrupted",
    ),
    (
        500,
        "resourceVersion should not be set on objects to be created",
        "said by the storage alone",
    ),
    (
        500,
        "cannot merge lists without merge key for struct",
        "strategic merge patch of plain lists",
    ),
    (500, "is not a map.", "strategic merge patch whose order of a list names no items"),
    (500, "expected a map[string]interface {}, but received a", "strategic merge patch of no map"),
    (500, "expected a []interface {}, but received a", "strategic merge patch of no list"),
    (500, "The order in patch list:", "strategic merge patch with another order"),
    (500, "merging an object in json but data type is not", "strategic merge patch of opaque data"),
    (500, "unable to find api field in struct", "strategic merge patch of a field that is none"),
    (500, "This pod has more than one PodDisruptionBudget", "said with this code by the eviction"),
    (
        500,
        "merging lists cannot yet be specified",
        "strategic merge patch with a directive in a list",
    ),
    (
        500,
        "failed to allocate a serviceIP: range is full",
        "more services than the range has addresses",
    ),
    (500, "content is not a list", "one object is wanted as a list"),
    (500, "replicas field", "a custom resource without the field that its scale stands in"),
    (500, "unable to upgrade connection: container not found", "a container that does not run"),
    (500, "failed calling webhook", "a webhook that fails, and whose failure policy is to fail"),
)
"""Failures of a server's own that are upstream's: code, a part of the message, and why."""


@frozen
class Finding:
    """Something that must not be. `kind` and `text` name it; `detail` is what else there is to read."""

    kind: str
    text: str
    detail: str = ""


@define
class Answered:
    """An answer: its code, headers in lower case, body, its tree (None: no JSON), and seconds of computing."""

    code: int
    headers: dict[str, str]
    body: bytes
    tree: Json
    seconds: float = 0.0
    stream: bool = False


def judged(answered: Answered) -> list[Finding]:
    """What is wrong with an answer by itself."""
    found = []
    message = _message_of(answered)
    if answered.code >= 500 and answered.code != 501:
        if not any(answered.code == code and part in message for code, part, _ in UPSTREAMS):
            found.append(Finding("5xx", f"{answered.code} {message[:120]}", message))
    if answered.seconds > SECONDS:
        found.append(
            Finding("stall", "more than a second of computing", f"{answered.seconds:.1f} s")
        )
    media = answered.headers.get("content-type", "").partition(";")[0]
    if media == "application/json" and answered.body and not answered.stream:
        found += _json_findings(answered)
    if media == "application/vnd.kubernetes.protobuf" and answered.body and not answered.stream:
        if not answered.body.startswith(b"k8s\x00"):
            found.append(Finding("answer", "protobuf without its prefix", repr(answered.body[:80])))
    return found


def _json_findings(answered: Answered) -> list[Finding]:
    try:
        tree = json.loads(answered.body.decode(), parse_constant=_no_constant)
    except ValueError as error:
        return [Finding("answer", f"not JSON: {str(error)[:60]}", repr(answered.body[:2000]))]
    if answered.code < 400 or not isinstance(tree, dict) or tree.get("kind") != "Status":
        if answered.code >= 400:
            return [Finding("answer", "an error that is no Status", repr(answered.body[:2000]))]
        return []
    right = (
        tree.get("apiVersion") == "v1"
        and tree.get("status") == "Failure"
        and tree.get("code") == answered.code
        and isinstance(tree.get("message"), str)
        and isinstance(tree.get("reason", ""), str)
        and isinstance(tree.get("details", {}), dict)
    )
    return [] if right else [Finding("answer", "a malformed Status", repr(tree))]


def _no_constant(text: str) -> Json:
    raise ValueError(f"{text} is no JSON")


def _message_of(answered: Answered) -> str:
    if isinstance(answered.tree, dict) and isinstance(answered.tree.get("message"), str):
        return str(answered.tree["message"])
    return answered.body[:2000].decode("utf-8", "replace")


def thrown(error: BaseException) -> Finding:
    """The finding that an exception is: where it was raised names it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [each for each in frames if "controlplane" in each.filename] or frames
    last = ours[-1]
    place = f"{last.filename.rpartition('controlplane/')[2]}:{last.name}"
    text = f"{type(error).__name__} in {place}"
    return Finding("exception", text, "".join(traceback.format_exception(error))[-4000:])
