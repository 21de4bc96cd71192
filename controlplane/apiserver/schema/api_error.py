"""The exception of a failed request, which becomes the response body. Upstream: apimachinery pkg/api/errors."""

from __future__ import annotations

from controlplane.api.tree import Tree

__all__ = ["ApiError"]


class ApiError(Exception):
    """A request failed; `tree` is the Status to answer, `code` its HTTP status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Tree | None = None,
        list_meta: Tree | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_meta = list_meta or {}

    @property
    def tree(self) -> Tree:
        """The Status object."""
        tree: Tree = {
            "apiVersion": "v1",
            "code": self.code,
            "kind": "Status",
            "message": self.message,
            "metadata": self.list_meta,
            "status": "Failure",
        }
        if self.reason:
            tree["reason"] = self.reason
        if self.details is not None:
            tree["details"] = self.details
        return tree

    @property
    def retry_after(self) -> int:
        """Seconds for the Retry-After header, or 0."""
        return int((self.details or {}).get("retryAfterSeconds", 0))
