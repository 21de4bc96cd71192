"""Calls of the container storage interface as values. Specification: container-storage-interface spec 1.13.

Fields have the names of the protobuf messages; absent ones have their default. Times are nanoseconds since
the epoch. Codes are gRPC's, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import field, frozen

from controlplane.controllers.effects import Ask, NoAnswer, Reconcile

SECOND: Final = 1_000_000_000
OK: Final = "OK"
INVALID_ARGUMENT: Final = "InvalidArgument"
NOT_FOUND: Final = "NotFound"
ALREADY_EXISTS: Final = "AlreadyExists"
OUT_OF_RANGE: Final = "OutOfRange"
UNIMPLEMENTED: Final = "Unimplemented"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
UNAVAILABLE: Final = "Unavailable"
ABORTED: Final = "Aborted"
INTERNAL: Final = "Internal"

GROUP_METHODS: Final = frozenset(
    {
        "CreateVolumeGroupSnapshot",
        "DeleteVolumeGroupSnapshot",
        "GetVolumeGroupSnapshot",
        "GroupControllerGetCapabilities",
    }
)


@frozen
class CsiRequest:
    """One call."""

    method: str
    fields: Mapping[str, Any] = field(factory=dict)

    @property
    def label(self) -> str:
        """What the step is called."""
        return f"csi.{self.method}"


@frozen
class CsiReply:
    """What a driver answers."""

    code: str = OK
    message: str = ""
    response: Mapping[str, Any] = field(factory=dict)


class CsiError(Exception):
    """A call failed; the text is as gRPC words it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"rpc error: code = {code} desc = {message}")
        self.code = code
        self.message = message


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
