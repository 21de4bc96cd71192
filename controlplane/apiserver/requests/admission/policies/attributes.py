"""The attributes of a request that admission plugins see. Upstream: apiserver pkg/admission/attributes.go."""

from __future__ import annotations

from attrs import frozen

from controlplane.api.object import Object
from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import conversion
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["Attributes", "attributes_of", "exempt", "in_version"]

_REVIEWS = frozenset(
    (
        "tokenreviews",
        "selfsubjectreviews",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    )
)
_OWN = "admissionregistration.k8s.io"
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


@frozen(eq=False)
class Attributes:
    """One operation on one object.

    `object` is None for deletions, `old` for creations; both are in the version that is stored.
    `kind` is that of the object, as group, version and kind: a subresource may have its own.
    """

    operation: str
    info: ResourceInfo
    kind: tuple[str, str, str]
    subresource: str
    namespace: str
    name: str
    object: Tree | None
    old: Tree | None
    user: User
    dry_run: bool
    options: Tree

    @property
    def told_name(self) -> str:
        """The name that a refusal tells, which is none yet where one will be generated."""
        return self.name or status.told_name(self.object or {"metadata": {}})


def attributes_of(ctx: Context, tree: Tree | None, old: Tree | None) -> Attributes:
    """Return the attributes of a change of an object, from its new and its former state."""
    info, request = ctx.info, ctx.request
    operation = "UPDATE"
    if tree is None:
        operation = "DELETE"
    elif old is None:
        operation = "CREATE"
    namespace, name = request.namespace, request.name
    if not name and tree is not None and not request.subresource:
        given = request.body if isinstance(request.body, dict) else {}
        name = (given.get("metadata") or {}).get("name", "") or ""
    if info.resource == "namespaces" and not info.group:
        namespace = name
    sub = info.subresources.get(request.subresource)
    own = sub or info
    kind = (own.group, own.version, own.kind)
    return Attributes(
        operation,
        info,
        kind,
        request.subresource,
        namespace,
        name,
        tree,
        old,
        request.user,
        ctx.dry_run,
        _options(ctx, operation),
    )


def _options(ctx: Context, operation: str) -> Tree:
    """The request's options as upstream hands them on."""
    kind = _OPTIONS[operation]
    query = ctx.request.query
    if ctx.request.verb == "patch":
        kind = "PatchOptions" if operation == "UPDATE" else "CreateOptions"
    options: Tree = {"apiVersion": "meta.k8s.io/v1", "kind": kind}
    for key in ("fieldManager", "fieldValidation", "propagationPolicy"):
        if query.get(key):
            options[key] = query[key]
    if ctx.dry_run:
        options["dryRun"] = ["All"]
    return options


def in_version(info: ResourceInfo, tree: Tree | None) -> Tree | None:
    """A stored tree in the version of a resource, as a rule or policy for that version sees it."""
    if tree is None or tree.get("apiVersion") == info.api_version:
        return tree
    if info.custom is not None:
        shown: Tree = info.custom.external(tree)
        return shown
    return conversion.from_hub(info, Object(tree)).tree


def exempt(info: ResourceInfo) -> bool:
    """Return whether a resource is exempt from policies and webhooks.

    Upstream: generic/plugin.go and predicates/rules, IsExemptAdmissionConfigurationResource.
    """
    return info.group == _OWN or info.resource in _REVIEWS
