"""Audit events in the form audit.k8s.io/v1, at level Metadata and stage ResponseComplete.

Upstream: k8s.io/apiserver/pkg/apis/audit/v1/types.go. A watch is phrase twice, under one audit id: when it
began (ResponseStarted) and when it ended.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from controlplane.logs.export.encoding import compact
from controlplane.logs.export.epoch import at, epoch_of, micro_time
from controlplane.logs.reading import Events, Line

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""The usual reason of a code (metav1.StatusReason), for requests of which the event log has no exact one."""
_SPACE = uuid.UUID("6a3f4b0e-6c3d-5b4e-9a55-0d6f0f6b8a11")


def lines(log: Events) -> Iterator[str]:
    """The text of the file, an event a line."""
    epoch = epoch_of(log)
    number = 0
    write: Line | None = None
    for line in log:
        if line.event == "apiserver.write":
            write = line
        elif line.event == "apiserver.audited":
            number += 1
            reason = ""
            if write is not None and (write.step, write.actor) == (line.step, line.actor):
                if write.data.get("code") == line.data["code"]:
                    reason = write.data.get("reason", "")
            yield compact(_event(line, epoch, number, reason)) + "\n"
            write = None


def _event(line: Line, epoch: int, number: int, reason: str) -> dict[str, Any]:
    data = line.data
    code = data["code"]
    watches = data["verb"] == "watch" and code < 300
    response: dict[str, Any] = {"metadata": {}, "code": code}
    if code >= 400:
        response["status"] = "Failure"
        if reason or code in REASONS:
            response["reason"] = reason or REASONS[code]
    annotations = {
        "authorization.k8s.io/decision": "forbid" if code == 403 else "allow",
        **data.get("annotations", {}),
    }
    started = watches and not data.get("ended")
    identity = f"{line.actor}/watch {data['watch']}" if "watch" in data else f"{line.step}/{number}"
    ref = {
        "resource": data["resource"],
        "namespace": data.get("namespace"),
        "name": data.get("name"),
        "uid": data.get("uid"),
        "apiGroup": data.get("group"),
        "apiVersion": data.get("version"),
        "resourceVersion": data.get("resource_version"),
        "subresource": data.get("subresource"),
    }
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": str(uuid.uuid5(_SPACE, f"{line.run}/{identity}")),
        "stage": "ResponseStarted" if started else "ResponseComplete",
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
