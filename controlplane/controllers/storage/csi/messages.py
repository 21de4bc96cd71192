"""Calling a driver, as a step of a reconcile; the messages are `api.csi`'s."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.csi import (
    ABORTED,
    ALREADY_EXISTS,
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INTERNAL,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    OUT_OF_RANGE,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNIMPLEMENTED,
    CsiError,
    CsiReply,
    CsiRequest,
)
from controlplane.api.times import SECOND
from controlplane.controllers.common.effects import Reconcile
from controlplane.decisions import Ask, NoAnswer

__all__ = [
    "ABORTED",
    "ALREADY_EXISTS",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "GROUP_METHODS",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OK",
    "OUT_OF_RANGE",
    "RESOURCE_EXHAUSTED",
    "SECOND",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "CsiError",
    "CsiReply",
    "CsiRequest",
    "call",
]


GROUP_METHODS: Final = frozenset(
    {
        "CreateVolumeGroupSnapshot",
        "DeleteVolumeGroupSnapshot",
        "GetVolumeGroupSnapshot",
        "GroupControllerGetCapabilities",
    }
)


def call(
    driver: str, method: str, fields: Mapping[str, Any], timeout_ns: int
) -> Reconcile[Mapping[str, Any]]:
    """Call a driver; CsiError. Whether a call that was not answered in time has an effect is not known."""
    request = CsiRequest(method, {key: value for key, value in fields.items() if value})
    try:
        reply: CsiReply = yield Ask(driver, request, timeout_ns, request.label)
    except NoAnswer as error:
        if error.late:
            raise CsiError(DEADLINE_EXCEEDED, "context deadline exceeded") from None
        raise CsiError(UNAVAILABLE, "error reading from server: EOF") from None
    if reply.code != OK:
        raise CsiError(reply.code, reply.message)
    return reply.response
