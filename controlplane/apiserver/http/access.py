"""Who asks: bearer tokens to users, and what nobody in particular may see.

Upstream: apiserver pkg/authentication, plugin/pkg/auth/authorizer/rbac/bootstrappolicy (the role
system:public-info-viewer).
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from controlplane.apiserver import status
from controlplane.apiserver.request import ADMIN, User
from controlplane.apiserver.routing import parse_path

__all__ = ["ANONYMOUS", "Access"]

ANONYMOUS: Final = User("system:anonymous", "", ("system:unauthenticated",))
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
          "DELETE": "delete"}  # fmt: skip


@frozen
class Access:
    """The known tokens. Without any, everybody is the administrator."""

    tokens: dict[str, User] = field(factory=dict)

    @classmethod
    def of_token(cls, token: str) -> Access:
        """One token, the administrator's; "" lets everybody in."""
        return cls({token: ADMIN} if token else {})

    def user(self, method: str, path: str, authorization: str) -> User:
        """Who asks for this path. ApiError 401 for a wrong token, 403 for none where one is needed."""
        if not self.tokens:
            return ADMIN
        scheme, _, token = authorization.partition(" ")
        if authorization and scheme.lower() == "bearer":
            known = self.tokens.get(token.strip())
            if known is None:
                raise status.ApiError(401, "Unauthorized", "Unauthorized")
            return known
        if path.startswith(_PUBLIC) and method in ("GET", "HEAD"):
            return ANONYMOUS
        raise _forbidden(method, path)


def _forbidden(method: str, path: str) -> status.ApiError:
    """403 for the anonymous user. Upstream: handlers/responsewriters/errors.go."""
    verb = _VERBS.get(method, method.lower())
    target = parse_path(path)
    who = f'User "{ANONYMOUS.name}" cannot'
    if target is None or not target.resource:
        return status.ApiError(403, "Forbidden", f'forbidden: {who} {verb} path "{path}"', {})
    if verb == "get" and not target.name:
        verb = "list"
    resource = target.resource + (f"/{target.subresource}" if target.subresource else "")
    named = f' "{target.name}"' if target.name else ""
    qualified = f"{target.resource}.{target.group}" if target.group else target.resource
    scope = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    details = {"name": target.name, "group": target.group, "kind": target.resource}
    return status.ApiError(
        403,
        "Forbidden",
        f'{qualified}{named} is forbidden: {who} {verb} resource "{resource}" in API group '
        f'"{target.group}" {scope}',
        {key: value for key, value in details.items() if value},
    )
