"""Role-based access control: what is asked, the rules that apply to the asker, the verdict.

Pure: a `Policy` is where roles and bindings are read. Upstream: plugin/pkg/auth/authorizer/rbac,
pkg/registry/rbac/validation, apiserver pkg/endpoints/{filters/authorization,request/requestinfo}.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attrs import frozen

from controlplane.api import fields
from controlplane.api.flags import flag
from controlplane.api.labels import SelectorError
from controlplane.api.request import Request, User
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate, quote
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema import status

__all__ = [
    "GROUP",
    "Attributes",
    "Policy",
    "Verdict",
    "attributes_of",
    "authorize",
    "decide",
    "forbidden",
    "path_fits",
    "policy_of",
    "requested",
    "rule_covers",
    "rules_of_role",
    "rules_of_user",
    "subject_is",
]

GROUP: Final = "rbac.authorization.k8s.io"
LOOKED_UP = ("clusterrolebindings", "clusterroles", "rolebindings", "roles")
"""The resources on which every decision depends."""
MASTERS: Final = "system:masters"
"""The group whose members may do everything; no rule is checked."""
SERVICE_ACCOUNT: Final = "system:serviceaccount:"
SERVICE_ACCOUNT_KIND: Final = "ServiceAccount"
_VERBS: Final = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


@frozen
class Attributes:
    """The attributes of an authorization check: a verb on a resource, or on a non-resource `path`.

    An empty name means all objects; an empty namespace means the cluster, or all namespaces.
    """

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


@frozen
class Policy:
    """The sources of roles and bindings. A missing role is None."""

    cluster_role: Callable[[str], Tree | None]
    role: Callable[[str, str], Tree | None]
    """By namespace and name."""
    cluster_bindings: Callable[[], Iterable[Tree]]
    bindings: Callable[[str], Iterable[Tree]]
    """Of one namespace."""


@frozen
class Verdict:
    """The outcome of a check; `reason` names the binding that allows it, or the errors in the rules."""

    allowed: bool
    reason: str = ""


# -- what is asked -------------------------------------------------------------------------------


def attributes_of(http: HttpRequest) -> Attributes:
    """Return the attributes of an HTTP request, whether its path is served or not."""
    target = http.target
    if target is None or not (target.resource or target.name or target.subresource):
        return Attributes(http.method.lower(), path=http.path)
    verb = "watch" if target.watch else _VERBS.get(http.method, "")
    if target.proxied:
        verb = "proxy"
    name = target.name
    if not name and verb == "get":
        verb, name = _of_collection(http)
    elif not name and verb == "delete":
        verb = "deletecollection"
    namespace = target.namespace
    if target.resource == "namespaces":
        namespace = target.name
    return Attributes(verb, target.group, target.resource, target.subresource, namespace, name)


def _of_collection(http: HttpRequest) -> tuple[str, str]:
    """The verb of reading a collection, and the one name that a field selector may narrow it to."""
    verb = "watch" if flag(next(iter(http.query.get("watch") or ()), None)) else "list"
    return verb, _selected_name((http.query.get("fieldSelector") or ("",))[0])


def _selected_name(text: str) -> str:
    try:
        name = fields.parse(text).exact("metadata.name") or ""
    except SelectorError:
        return ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def requested(request: Request) -> Attributes:
    """Return the attributes of a component's request."""
    name = request.name
    if not name and request.verb in ("list", "watch"):
        name = _selected_name(request.query.get("fieldSelector", ""))
    namespace = request.namespace
    if request.resource == "namespaces" and not request.group:
        namespace = request.name
    return Attributes(
        request.verb, request.group, request.resource, request.subresource, namespace, name
    )


# -- the verdict ---------------------------------------------------------------------------------


def authorize(policy: Policy, user: User, asked: Attributes) -> None:
    """Raises ApiError 403 for what the user may not do."""
    verdict = decide(policy, user, asked)
    if not verdict.allowed:
        raise forbidden(user, asked, verdict.reason)


def decide(policy: Policy, user: User, asked: Attributes) -> Verdict:
    """Return the verdict: whether some rule that applies to the user covers the attributes."""
    if MASTERS in user.groups:
        return Verdict(True)
    problems: list[str] = []
    for rule, grant in _granted(policy, user, asked.namespace, problems):
        if rule_covers(rule, asked):
            return Verdict(True, f"RBAC: allowed by {grant.text}")
    return Verdict(False, f"RBAC: {aggregate(problems)}" if problems else "")


def rules_of_user(
    policy: Policy, user: User, namespace: str, problems: list[str]
) -> Iterator[Tree]:
    """The rules that bindings give the user, cluster-wide and then in the namespace."""
    for rule, _ in _granted(policy, user, namespace, problems):
        yield rule


@frozen
class _Grant:
    """A binding, and which of its subjects the user is."""

    binding: Tree
    subject: Tree
    namespace: str

    @property
    def text(self) -> str:
        """As upstream names the source of a verdict. Upstream: registry/rbac/validation/rule.go."""
        role, subject, name = (
            self.binding["roleRef"],
            self.subject,
            self.binding["metadata"]["name"],
        )
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        who = subject.get("name", "")
        if subject.get("kind") == SERVICE_ACCOUNT_KIND:
            who = f"{who}/{subject.get('namespace') or self.namespace}"
        if self.namespace:
            name = f"{name}/{self.namespace}"
        return (
            f"{kind} {quote(name)} of {role.get('kind', '')} {quote(role.get('name', ''))}"
            f" to {subject.get('kind', '')} {quote(who)}"
        )


def _granted(
    policy: Policy, user: User, namespace: str, problems: list[str]
) -> Iterator[tuple[Tree, _Grant]]:
    for scope in ("", namespace) if namespace else ("",):
        for binding in policy.bindings(scope) if scope else policy.cluster_bindings():
            subject = _subject_of(binding, user, scope)
            if subject is not None:
                grant = _Grant(binding, subject, scope)
                for rule in rules_of_role(policy, binding["roleRef"], scope, problems):
                    yield rule, grant


def rules_of_role(
    policy: Policy, reference: Tree, namespace: str, problems: list[str]
) -> Iterable[Tree]:
    """The rules of a role; that it does not exist is a problem, but gives nothing."""
    name = reference.get("name", "")
    if reference.get("kind") == "ClusterRole":
        kind, found = "clusterrole", policy.cluster_role(name)
    else:
        kind, found = "role", policy.role(namespace, name)
    if found is None:
        problems.append(f"{kind}.{GROUP} {quote(name)} not found")
        return ()
    return found.get("rules") or ()


def _subject_of(binding: Tree, user: User, namespace: str) -> Tree | None:
    for subject in binding.get("subjects") or ():
        if subject_is(subject, user, namespace):
            found: Tree = subject
            return found
    return None


def subject_is(subject: Tree, user: User, namespace: str) -> bool:
    """Return whether a subject of a binding in `namespace` ("" for a cluster role binding) is the user."""
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "User":
        return bool(name == user.name)
    if kind == "Group":
        return name in user.groups
    if kind == SERVICE_ACCOUNT_KIND:
        where = subject.get("namespace") or namespace
        return bool(where) and user.name == f"{SERVICE_ACCOUNT}{where}:{name}"
    return False


def rule_covers(rule: Tree, asked: Attributes) -> bool:
    """Return whether one rule allows the attributes."""
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(path_fits(known, asked.path) for known in rule.get("nonResourceURLs") or ())
    if not _has(rule.get("apiGroups"), asked.group):
        return False
    resources = rule.get("resources") or ()
    if not (
        "*" in resources
        or asked.full_resource in resources
        or (asked.subresource and f"*/{asked.subresource}" in resources)
    ):
        return False
    names = rule.get("resourceNames")
    return not names or asked.name in names


def _has(values: list[str] | None, wanted: str) -> bool:
    return values is not None and ("*" in values or wanted in values)


def path_fits(known: str, path: str) -> bool:
    """Return whether a path of a rule, which may end in a star, covers this one."""
    if known in ("*", path):
        return True
    return known.endswith("*") and path.startswith(known.rstrip("*"))


def forbidden(user: User, asked: Attributes, reason: str = "") -> status.ApiError:
    """403 as upstream words it. Upstream: handlers/responsewriters/errors.go."""
    text = f"User {quote(user.name)} cannot {asked.verb} "
    tail = f": {reason}" if reason else ""
    if asked.path:
        text += f"path {quote(asked.path)}"
        return status.ApiError(403, "Forbidden", f"forbidden: {text}{tail}", {})
    scope = (
        f"in the namespace {quote(asked.namespace)}"
        if asked.namespace
        else ("at the cluster scope")
    )
    text += f"resource {quote(asked.full_resource)} in API group {quote(asked.group)} {scope}"
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f" {quote(asked.name)}" if asked.name and qualified else ""
    subject = f"{qualified}{named} is forbidden" if qualified else "forbidden"
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return status.ApiError(
        403,
        "Forbidden",
        f"{subject}: {text}{tail}",
        {key: value for key, value in details.items() if value},
    )


# -- the stored rules ----------------------------------------------------------------------------


def policy_of(lookup: Lookup) -> Policy:
    """The roles and bindings as a server knows them at each question."""

    def found(resource: str, namespace: str, name: str) -> Tree | None:
        obj = lookup.get(GROUP, resource, namespace, name)
        return obj.tree if obj is not None else None

    return Policy(
        cluster_role=lambda name: found("clusterroles", "", name),
        role=lambda namespace, name: found("roles", namespace, name),
        cluster_bindings=lambda: [
            obj.tree for obj in lookup.within(GROUP, "clusterrolebindings", "")
        ],
        bindings=lambda namespace: [
            obj.tree for obj in lookup.within(GROUP, "rolebindings", namespace)
        ],
    )
