"""Audit events in the form audit.k8s.io/v1, at level Metadata and stage ResponseComplete.

Upstream: k8s.io/apiserver/pkg/apis/audit/v1/types.go. A watch is told when it began (ResponseStarted).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from controlplane.logs.export.epoch import at, epoch_of, micro_time
from controlplane.logs.reading import Events, Line

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_SPACE = uuid.UUID("6a3f4b0e-6c3d-5b4e-9a55-0d6f0f6b8a11")


def lines(log: Events) -> Iterator[str]:
    """The text of the file, an event a line."""
    epoch = epoch_of(log)
    number = 0
    for line in log:
        if line.event == "apiserver.audited":
            number += 1
            yield _encode(_event(line, epoch, number)) + "\n"


def _event(line: Line, epoch: int, number: int) -> dict[str, Any]:
    data = line.data
    code = data["code"]
    watches = data["verb"] == "watch" and code < 300
    response: dict[str, Any] = {"metadata": {}, "code": code}
    if code >= 400:
        response["status"] = "Failure"
        response["reason"] = _reason(code)
    annotations = {
        "authorization.k8s.io/decision": "forbid" if code == 403 else "allow",
        **data.get("annotations", {}),
    }
    ref = {
        "resource": data["resource"],
        "namespace": data.get("namespace"),
        "name": data.get("name"),
        "apiGroup": data.get("group"),
        "apiVersion": data.get("version"),
        "subresource": data.get("subresource"),
    }
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": str(uuid.uuid5(_SPACE, f"{line.run}/{line.step}/{number}")),
        "stage": "ResponseStarted" if watches else "ResponseComplete",
        "requestURI": data["uri"],
        "verb": data["verb"],
        "user": {"username": data["user"], "groups": data["groups"]},
        "sourceIPs": ["127.0.0.1"],
        "userAgent": data["agent"],
        "objectRef": {key: value for key, value in ref.items() if value},
        "responseStatus": response,
        "requestReceivedTimestamp": micro_time(epoch, data["began_ns"] / 1e9),
        "stageTimestamp": micro_time(epoch, (at(epoch, line.t) - epoch) / 1e9),
        "annotations": annotations,
    }


def _reason(code: int) -> str:
    """The usual reason of a code; the event log keeps the exact one with the write."""
    try:
        return HTTPStatus(code).phrase.replace(" ", "")
    except ValueError:
        return ""
