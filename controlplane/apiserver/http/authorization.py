"""Who may do what: role-based access control over the stored roles and bindings, and impersonation.

Evaluated inside the world at every request from outside. Components inside are not asked; upstream
they carry certificates of the cluster. Upstream: plugin/pkg/auth/authorizer/rbac,
apiserver pkg/endpoints/filters/{authorization,impersonation}.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from controlplane.api.request import User
from controlplane.apiserver import status
from controlplane.apiserver.routing import HttpRequest, parse_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.apiserver.server import ApiServer

__all__ = ["Attributes", "allowed", "attributes_of", "authorize", "impersonated", "reviewed"]

Tree = dict[str, Any]

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
ANONYMOUS: Final = "system:anonymous"
_GROUP = "rbac.authorization.k8s.io"
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch",
          "DELETE": "delete"}  # fmt: skip
_YES = ("true", "1", "")
_ACCOUNT = "system:serviceaccount:"


@frozen
class Attributes:
    """What is asked for: a verb on a resource, or on a `path` that is none."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(http: HttpRequest) -> Attributes:
    """What an HTTP request asks for."""
    verb = _VERBS.get(http.method, http.method.lower())
    target = parse_path(http.path)
    if target is None or not target.resource:
        return Attributes(verb, path=http.path)
    if verb == "get" and not (target.name and not target.watch):
        watch = target.watch or (http.query.get("watch") or ["no"])[0] in _YES
        verb = "watch" if watch else "list"
    elif verb == "delete" and not target.name:
        verb = "deletecollection"
    namespace, name = target.namespace, target.name
    if target.resource == "namespaces" and name:
        namespace = name
    return Attributes(verb, target.group, target.resource, target.subresource, namespace, name)


def authorize(server: ApiServer, user: User, asked: Attributes) -> None:
    """Raises ApiError 403 for what the user may not do."""
    if not allowed(server, user, asked):
        raise _forbidden(user, asked)


def allowed(server: ApiServer, user: User, asked: Attributes) -> bool:
    """Whether some rule that applies to the user covers it."""
    if MASTERS in user.groups:
        return True
    return any(_covers(rule, asked) for rule in _rules(server, user, asked.namespace))


def impersonated(server: ApiServer, http: HttpRequest) -> User:
    """The user a request acts as. ApiError 403 when the asker may not act as that one; 500 for half a wish."""
    headers, asker = http.headers, http.user
    name = headers.get("impersonate-user", "")
    groups = tuple(
        each.strip() for each in headers.get("impersonate-group", "").split(",") if each.strip()
    )
    uid = headers.get("impersonate-uid", "")
    if not name:
        if groups or uid:
            raise status.internal_error("requested impersonation without impersonating a user")
        return asker
    account = _account(name)
    if account is not None:
        wish = Attributes("impersonate", "", "serviceaccounts", "", *account)
    else:
        wish = Attributes("impersonate", "", "users", name=name)
    authorize(server, asker, wish)
    for each in groups:
        authorize(server, asker, Attributes("impersonate", "", "groups", name=each))
    if uid:
        kind = Attributes("impersonate", "authentication.k8s.io", "uids", name=uid)
        authorize(server, asker, kind)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    given = "system:unauthenticated" if name == ANONYMOUS else AUTHENTICATED
    if given not in groups:
        groups = (*groups, given)
    return evolve(asker, name=name, uid=uid, groups=groups)


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    if not name.startswith(_ACCOUNT):
        return None
    namespace, _, rest = name.removeprefix(_ACCOUNT).partition(":")
    return (namespace, rest) if namespace and rest and ":" not in rest else None


_REVIEWS = ("selfsubjectaccessreviews", "subjectaccessreviews", "localsubjectaccessreviews")


def reviewed(server: ApiServer, http: HttpRequest, tree: Tree) -> Tree:
    """The answer to an access review, with the verdict of the rules; any other answer as it is."""
    target = parse_path(http.path)
    if target is None or target.resource not in _REVIEWS or http.method != "POST":
        return tree
    spec = _map(tree.get("spec"))
    user = http.user
    if target.resource != "selfsubjectaccessreviews":
        groups = spec.get("groups")
        user = User(spec.get("user", ""), "", tuple(groups) if isinstance(groups, list) else ())
    path, wish = _map(spec.get("nonResourceAttributes")), _map(spec.get("resourceAttributes"))
    if path:
        asked = Attributes(path.get("verb", ""), path=path.get("path", "/"))
    else:
        asked = Attributes(
            wish.get("verb", ""),
            wish.get("group", ""),
            wish.get("resource", ""),
            wish.get("subresource", ""),
            wish.get("namespace", ""),
            wish.get("name", ""),
        )
    return {**tree, "status": {"allowed": allowed(server, user, asked)}}


def _map(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}


# -- rules ---------------------------------------------------------------------------------------


def _rules(server: ApiServer, user: User, namespace: str) -> Iterator[Tree]:
    """The rules of all roles that bindings give the user, cluster-wide and in the namespace."""
    for _, binding in _stored(server, "clusterrolebindings", ""):
        if _binds(binding, user, ""):
            yield from _of_role(server, binding["roleRef"], "")
    if namespace:
        for _, binding in _stored(server, "rolebindings", f"{namespace}/"):
            if _binds(binding, user, namespace):
                yield from _of_role(server, binding["roleRef"], namespace)


def _stored(server: ApiServer, resource: str, prefix: str) -> Iterator[tuple[str, Tree]]:
    for key, obj in server.registry_of(_GROUP, resource).space.items(prefix):
        yield key, obj.tree


def _of_role(server: ApiServer, reference: Tree, namespace: str) -> list[Tree]:
    """The rules of a role; none when it does not exist."""
    if reference.get("kind") == "ClusterRole":
        found = server.registry_of(_GROUP, "clusterroles").find("", reference.get("name", ""))
    else:
        found = server.registry_of(_GROUP, "roles").find(namespace, reference.get("name", ""))
    return (found.tree.get("rules") or []) if found is not None else []


def _binds(binding: Tree, user: User, namespace: str) -> bool:
    for subject in binding.get("subjects") or ():
        kind, name = subject.get("kind"), subject.get("name", "")
        if kind == "User" and name == user.name:
            return True
        if kind == "Group" and name in user.groups:
            return True
        if kind == "ServiceAccount":
            where = subject.get("namespace") or namespace
            if user.name == f"{_ACCOUNT}{where}:{name}":
                return True
    return False


def _covers(rule: Tree, asked: Attributes) -> bool:
    verbs = rule.get("verbs") or ()
    if "*" not in verbs and asked.verb not in verbs:
        return False
    if asked.path:
        return any(_path_fits(known, asked.path) for known in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if "*" not in groups and asked.group not in groups:
        return False
    resources = rule.get("resources") or ()
    fits = (
        "*" in resources
        or asked.full_resource in resources
        or (bool(asked.subresource) and f"*/{asked.subresource}" in resources)
    )
    if not fits:
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names


def _path_fits(known: str, path: str) -> bool:
    if known in ("*", path):
        return True
    return known.endswith("*") and path.startswith(known.rstrip("*"))


def _forbidden(user: User, asked: Attributes) -> status.ApiError:
    """403 as upstream words it. Upstream: handlers/responsewriters/errors.go."""
    who = f'User "{user.name}" cannot {asked.verb}'
    if asked.path:
        return status.ApiError(403, "Forbidden", f'forbidden: {who} path "{asked.path}"', {})
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    named = f' "{asked.name}"' if asked.name else ""
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return status.ApiError(
        403,
        "Forbidden",
        f'{qualified}{named} is forbidden: {who} resource "{asked.full_resource}" in API group '
        f'"{asked.group}" {scope}',
        {key: value for key, value in details.items() if value},
    )
