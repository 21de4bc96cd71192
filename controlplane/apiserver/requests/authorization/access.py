"""Authorization of users: checked once per request, where it enters."""

from __future__ import annotations

from controlplane.api.request import Request, User
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.authorization.rbac import (
    Attributes,
    Verdict,
    authorize,
    decide,
    policy_of,
)
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["Access"]


class Access:
    """The stored roles of one server. Unless `enabled`, every user may do everything."""

    def __init__(self, lookup: Lookup, *, enabled: bool) -> None:
        self.enabled = enabled
        self.policy = policy_of(lookup)

    def check(self, user: User, asked: Attributes) -> None:
        """ApiError 403 for what the user may not do."""
        if self.enabled:
            authorize(self.policy, user, asked)

    def check_create(self, info: ResourceInfo, request: Request) -> None:
        """ApiError 403 where a PUT or an apply makes an object whose user may not create any.

        Upstream: endpoints/handlers/update.go, withAuthorization.
        """
        asked = Attributes(
            "create",
            info.group,
            info.resource,
            request.subresource,
            request.namespace,
            request.name,
        )
        verdict = self.verdict(request.user, asked)
        if not verdict.allowed:
            raise status.forbidden(info, request.name, verdict.reason)

    def verdict(self, user: User, asked: Attributes) -> Verdict:
        """Return whether the request is allowed, and why."""
        return decide(self.policy, user, asked) if self.enabled else Verdict(True)
