"""Whether a user may do something: asked once per request, where it enters."""

from __future__ import annotations

from controlplane.api.request import User
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.authorization.rbac import (
    Attributes,
    Verdict,
    authorize,
    decide,
    policy_of,
)

__all__ = ["Access"]


class Access:
    """The stored roles of one server. Unless `enabled`, everybody may do everything."""

    def __init__(self, lookup: Lookup, *, enabled: bool) -> None:
        self.enabled = enabled
        self.policy = policy_of(lookup)

    def check(self, user: User, asked: Attributes) -> None:
        """ApiError 403 for what the user may not do."""
        if self.enabled:
            authorize(self.policy, user, asked)

    def verdict(self, user: User, asked: Attributes) -> Verdict:
        """Whether the user may do it, and why."""
        return decide(self.policy, user, asked) if self.enabled else Verdict(True)
