"""The API server's answers to requests that it does not carry out."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """A Status with `status: Failure`. `code` is the HTTP status, `reason` one of metav1's reasons."""

    def __init__(self, code: int, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", f"status {code}"))
        self.code = code
        self.status = status
        self.reason: str = status.get("reason", "")

    @property
    def message(self) -> str:
        """The message for people."""
        return str(self)


class ConnectionLost(Exception):
    """The connection was reset or refused: it is unknown whether the request was carried out."""


RequestFailed = (ApiError, ConnectionLost)
"""The failures of a request; for `except`."""


def is_not_found(error: ApiError) -> bool:
    """Return whether the object does not exist."""
    return error.code == 404


def is_conflict(error: ApiError) -> bool:
    """Return whether a precondition (uid, resource version) failed."""
    return error.code == 409 and error.reason == "Conflict"


def is_invalid(error: ApiError) -> bool:
    """Return whether the object would be invalid; a patch that names a uid is told so when another object has the
    name.
    """
    return error.code == 422


def is_unsupported_media_type(error: ApiError) -> bool:
    """Return whether the resource does not take a body of that kind."""
    return error.code == 415


def is_already_exists(error: ApiError | ConnectionLost) -> bool:
    """Return whether the name is taken."""
    return isinstance(error, ApiError) and error.code == 409 and error.reason == "AlreadyExists"


def is_expired(error: ApiError) -> bool:
    """Return whether the resource version asked for is no longer to be had."""
    return error.code == 410 or error.reason in {"Expired", "Gone"}


def is_too_large(error: ApiError) -> bool:
    """Return whether the resource version asked for lies ahead of what the server has reached."""
    causes = (error.status.get("details") or {}).get("causes") or []
    return error.code == 504 and any(
        cause.get("reason") == "ResourceVersionTooLarge" for cause in causes
    )
