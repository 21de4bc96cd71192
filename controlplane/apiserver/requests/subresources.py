"""Subresources: status, scale, binding, eviction and the rest.

Upstream: the REST storages under pkg/registry (core/pod/storage, apps/*/storage, core/namespace).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import evolve

from controlplane.api import labels as label_rules
from controlplane.api.object import Object
from controlplane.api.request import Response
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds.selectors import selector_of
from controlplane.apiserver.kinds.strategy import Context, with_status, without
from controlplane.apiserver.requests import aggregated as aggregation
from controlplane.apiserver.requests import pod_subresources, proxying, tokens, usage
from controlplane.apiserver.requests.authorization import reviews
from controlplane.apiserver.requests.bodies import identified
from controlplane.apiserver.requests.managed.applying import applied_scale
from controlplane.apiserver.requests.managed.scaling import SCALE, track_scale, with_managers
from controlplane.apiserver.requests.options import check_write_options
from controlplane.apiserver.requests.parts import Parts
from controlplane.apiserver.requests.patching.apply_patch import (
    APPLY_PATCH,
    patched_as,
)
from controlplane.apiserver.requests.token_keys import token_key
from controlplane.apiserver.requests.tokens import ISSUER
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import decode
from controlplane.apiserver.schema.field_errors import invalid
from controlplane.apiserver.schema.json_values import plain_texts
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.transactions import Steps

__all__ = ["handle", "has_table", "is_virtual"]

Handler = Callable[[Parts, Context], Steps[Response]]

_VIRTUAL = frozenset(
    (
        "bindings",
        "componentstatuses",
        "tokenreviews",
        "subjectaccessreviews",
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "selfsubjectreviews",
    )
)


_NO_TABLE = frozenset(
    ("approval", "binding", "ephemeralcontainers", "eviction", "finalize", "resize", "token")
)
"""Subresources whose storage knows no table."""
_NO_TABLE_OF_STATUS = frozenset(
    (
        "apiservices",
        "customresourcedefinitions",
        "devicetaintrules",
        "podgroups",
        "resourceclaims",
        "resourcepoolstatusrequests",
    )
)
"""Built-in resources whose status has a storage that knows no table."""


def is_virtual(info: ResourceInfo) -> bool:
    """Return whether a resource only answers and stores nothing."""
    return info.resource in _VIRTUAL or info.group == usage.GROUP


def has_table(info: ResourceInfo, subresource: str) -> bool:
    """Return whether what is answered there can be shown as a Table, which no review or token can."""
    if subresource == "status":
        return info.custom is not None or info.resource not in _NO_TABLE_OF_STATUS
    if subresource:
        return subresource not in _NO_TABLE
    return info.resource not in _VIRTUAL or info.resource == "componentstatuses"


def handle(parts: Parts, ctx: Context) -> Steps[Response]:
    """The steps to the answer of a request for a subresource or a virtual resource."""
    request, info = ctx.request, ctx.info
    aggregated = parts.options.aggregated.get(info.group)
    if request.subresource:
        sub = info.subresources.get(request.subresource)
        if sub is None:
            if info.custom is not None:
                raise status.not_found(info, request.name)
            raise status.ApiError(
                404, "NotFound", "the server could not find the requested resource", {}
            )
        if request.verb not in sub.verbs:
            raise status.method_not_supported(info, request.verb)
        handler = _HANDLERS.get((info.resource, request.subresource)) or _HANDLERS.get(
            ("", request.subresource)
        )
    else:
        handler = _HANDLERS.get((info.qualified, "")) or _HANDLERS.get((info.resource, ""))
    if request.subresource == "proxy":
        handler = proxying.proxy
    if aggregated is not None:
        if not request.subresource and request.verb not in info.verbs:
            raise status.method_not_supported(info, request.verb)
        return aggregation.pass_on(aggregated, ctx)
    if handler is None:
        raise status.method_not_supported(info, request.verb)
    parts.admission.check_endpoint(ctx)
    return handler(parts, ctx)


def _write_options(ctx: Context) -> None:
    apply = ctx.request.content_type.startswith("application/apply-patch")
    ctx.dry_run = check_write_options(ctx.request, apply=apply)


def _answer(ctx: Context, obj: Object, code: int = 200) -> Response:
    return Response(code, obj.tree, obj, warnings=ctx.warnings or [])


def _status(parts: Parts, ctx: Context) -> Steps[Response]:
    request, writer = ctx.request, parts.writer
    if request.verb == "get":
        obj = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
        return _answer(ctx, parts.bodies.external(ctx.info, obj))
    _write_options(ctx)
    change = writer.update_object if request.verb == "update" else writer.patch_object
    obj, _ = yield from change(ctx, sub="status")
    return _answer(ctx, obj)


# -- scale ---------------------------------------------------------------------------------------


def _scale_of(ctx: Context, tree: Tree, *, lenient: bool = False) -> Tree:
    """The Scale of an object."""
    if ctx.info.custom is not None:
        scale: Tree = ctx.info.custom.scale_of(tree, lenient=lenient)
        return scale
    meta = tree["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    spec, state = tree.get("spec") or {}, tree.get("status") or {}
    selector = spec.get("selector")
    if ctx.info.resource == "replicationcontrollers":
        text = str(label_rules.from_set(selector or {}))
    else:
        chosen = selector_of(selector)
        text = "" if chosen is None else str(chosen)
    replicas = spec.get("replicas", 0)
    scale = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {"replicas": state.get("replicas", 0)},
    }
    if text:
        scale["status"]["selector"] = text
    return scale


def _scaled(ctx: Context, tree: Tree, replicas: int) -> Tree:
    if ctx.info.custom is not None:
        changed: Tree = ctx.info.custom.scaled(tree, replicas)
        return changed
    return {**tree, "spec": {**tree["spec"], "replicas": replicas}}


def _replicas_path(ctx: Context) -> tuple[str, ...]:
    """The place of the replicas in an object, as an element of field sets."""
    if ctx.info.custom is None:
        return ("f:spec", "f:replicas")
    from controlplane.apiserver.kinds.custom.resources import steps

    return tuple(f"f:{step}" for step in steps(ctx.info.custom.scale["specReplicasPath"]))


def _scale(parts: Parts, ctx: Context) -> Steps[Response]:
    request, info = ctx.request, ctx.info
    registry = parts.registries.of(info)
    if request.verb == "get":
        found = yield from registry.get(request.namespace, request.name)
        return Response(200, _scale_of(ctx, found.tree))
    _write_options(ctx)
    ctx.admitted_as = partial(_scale_of, ctx, lenient=True)
    applies = request.verb == "patch" and request.content_type.startswith(APPLY_PATCH)
    sent: Tree = {}
    if request.verb == "update":
        sent = identified(ctx, parts.bodies.typed(ctx, "autoscaling", SCALE, request.body))

    def transform(current: Tree) -> Tree:
        scale = _scale_of(ctx, current, lenient=True)
        if request.verb == "update":
            new = sent
        elif applies:
            document, current = applied_scale(ctx, current, scale, _replicas_path(ctx))
            new = identified(ctx, decode(SCALE, plain_texts(document)))
        else:
            seen = with_managers(ctx, scale, current, _replicas_path(ctx))
            new = identified(ctx, patched_as(parts.bodies, ctx, seen, "autoscaling", SCALE))
            new = {**new, "metadata": without(new["metadata"], "managedFields")}
        replicas = (new.get("spec") or {}).get("replicas", 0)
        if replicas < 0:
            raise status.invalid_kind(
                "autoscaling",
                "Scale",
                request.name,
                [invalid("spec.replicas", replicas, "must be greater than or equal to 0")],
            )
        meta = new.get("metadata") or {}
        version, uid = meta.get("resourceVersion", ""), meta.get("uid", "")
        was = current["metadata"].get("uid", "")
        if uid and uid != was:
            raise status.conflict(
                info,
                request.name,
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {was}",
                shown=f"{info.resource}/scale" + (f".{info.group}" if info.group else ""),
                kind=f"{info.resource}/scale",
            )
        changed = _scaled(ctx, current, replicas)
        if version:
            changed = {**changed, "metadata": {**changed["metadata"], "resourceVersion": version}}
        if not applies:
            changed = track_scale(ctx, changed, _replicas_path(ctx), scale, new)
        if info.custom is not None:
            # The managers of the Scale own the field, though the schema may lack it.
            pruned: Tree = info.custom.known(changed)
            return pruned
        return changed

    obj, _ = yield from registry.update(ctx, request.namespace, request.name, transform)
    shown = _scale_of(ctx, obj.tree, lenient=True)
    return Response(200, shown, warnings=ctx.warnings or [])


# -- namespaces, tokens, approval, reviews -------------------------------------------------------


def _finalize(parts: Parts, ctx: Context) -> Steps[Response]:
    """Replace a namespace's spec.finalizers; the last one gone, the namespace goes."""
    request = ctx.request
    ctx.dry_run = check_write_options(request)
    registry = parts.registries.of(ctx.info)
    body = parts.bodies.read(ctx, request.body)

    def transform(current: Tree) -> Tree:
        spec = with_status(current.get("spec") or {}, body.get("spec") or {}, "finalizers")
        meta = {**current["metadata"]}
        version = body["metadata"].get("resourceVersion", "")
        if version:
            meta["resourceVersion"] = version
        return {**current, "metadata": meta, "spec": spec}

    obj, _ = yield from registry.update(
        ctx,
        request.namespace,
        request.name,
        transform,
        sub="finalize",
        uid=body["metadata"].get("uid", ""),
    )
    return _answer(ctx, obj)


EXTENDED = 3607
"""The seconds that admission asks for in the volume of each pod: such a token lives on for clients that never read it
again (`--service-account-extend-token-expiration`).
"""
EXTENSION = 365 * 24 * 3600


def _token(parts: Parts, ctx: Context) -> Steps[Response]:
    """A token for a service account: a JSON web token that the server's key signs."""
    request = ctx.request
    ctx.dry_run = check_write_options(request)
    body = parts.bodies.posted(
        ctx, "authentication.k8s.io", "io.k8s.api.authentication.v1.TokenRequest"
    )
    _check_named(body.get("metadata") or {}, request.name)
    account = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
    spec = {key: value for key, value in body["spec"].items() if value is not None}
    seconds = spec.get("expirationSeconds", 3600)
    if seconds > 1 << 32:
        raise status.invalid_kind(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            [
                invalid(
                    "spec.expirationSeconds",
                    seconds,
                    "may not specify a duration larger than 2^32 seconds",
                )
            ],
        )
    if seconds < 600:
        raise status.invalid_kind(
            "authentication.k8s.io",
            "TokenRequest",
            "",
            [
                invalid(
                    "spec.expirationSeconds",
                    seconds,
                    "may not specify a duration less than 10 minutes",
                )
            ],
        )
    bound: Tree = {}
    if spec.get("boundObjectRef") is not None:
        bound = yield from _bound(parts, ctx, spec["boundObjectRef"])
    spec["expirationSeconds"] = seconds
    spec.setdefault("audiences", [ISSUER])
    spec.setdefault("boundObjectRef", None)
    ends = format_time(ctx.now + seconds * SECOND)
    begun, expires = ctx.now // SECOND, parse_time(ends) // SECOND
    if "pod" in bound and seconds == EXTENDED and set(spec["audiences"]) <= {ISSUER}:
        bound["warnafter"], expires = expires, begun + EXTENSION
    claims: Tree = {
        "aud": spec["audiences"],
        "exp": expires,
        "iat": begun,
        "iss": ISSUER,
        "jti": parts.uid(),
        "kubernetes.io": {
            "namespace": request.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
            **bound,
        },
        "nbf": begun,
        "sub": f"system:serviceaccount:{request.namespace}:{request.name}",
    }
    tree = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "metadata": {
            "name": account.name,
            "namespace": account.namespace,
            "creationTimestamp": format_time(ctx.now),
        },
        "spec": spec,
        "status": {
            "token": token_key(parts.options.token_key).signed(claims),
            "expirationTimestamp": ends,
        },
    }
    return Response(201, tree)


def _check_named(meta: Tree, account: str) -> None:
    """Refuse a request that names another account. ApiError 422."""
    name = meta.get("name", "")
    if name and name != account:
        text = "must match the service account name if specified"
        errors = [invalid("metadata.name", name, text)]
        raise status.invalid_kind("authentication.k8s.io", "TokenRequest", account, errors)


_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def _bound(parts: Parts, ctx: Context, reference: Tree) -> Steps[Tree]:
    """The claims about what a token is bound to, which must be there. ApiError 400, 404, 409."""
    version, kind = reference.get("apiVersion", ""), reference.get("kind", "")
    group, _, short = version.rpartition("/")
    resource = None if group else _BINDABLE.get(kind)
    if resource is None:
        raise status.bad_request(
            f"cannot bind token to object of type {group}/{short}, Kind={kind}"
        )
    registry = parts.registries.named("", resource)
    namespace = "" if resource == "nodes" else ctx.request.namespace
    found = yield from registry.find(namespace, reference.get("name", ""))
    if found is None:
        raise status.not_found(registry.info, reference.get("name", ""))
    spec = found.tree.get("spec") or {}
    if resource == "pods" and spec.get("serviceAccountName") != ctx.request.name:
        raise status.bad_request(
            f"cannot bind token for serviceaccount {quote(ctx.request.name)} to pod running "
            "with different serviceaccount name."
        )
    uid = reference.get("uid", "")
    if uid and uid != found.uid:
        raise status.conflict(
            registry.info,
            found.name,
            shown=kind,
            text=(
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            ),
        )
    claims: Tree = {kind.lower(): {"name": found.name, "uid": found.uid}}
    if resource == "pods" and spec.get("nodeName"):
        nodes = parts.registries.named("", "nodes")
        node = yield from nodes.find("", spec["nodeName"])
        claims["node"] = {"name": spec["nodeName"]}
        if node is not None:
            claims["node"]["uid"] = node.uid
    return claims


def _approval(parts: Parts, ctx: Context) -> Steps[Response]:
    """Approve or deny a certificate signing request: only conditions change."""
    request, writer = ctx.request, parts.writer
    if request.verb == "get":
        obj = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
        return _answer(ctx, obj)
    _write_options(ctx)
    change = writer.update_object if request.verb == "update" else writer.patch_object
    obj, _ = yield from change(ctx, sub="status")
    return _answer(ctx, obj)


def _review(parts: Parts, ctx: Context) -> Steps[Response]:
    """Reviews are answered on the spot."""
    yield from ()
    request, info = ctx.request, ctx.info
    body = parts.bodies.new_object(ctx, request.body)
    tree: Tree = {
        "apiVersion": info.api_version,
        "kind": info.kind,
        "metadata": body["metadata"],
        "spec": body.get("spec") or {},
    }
    user = request.user
    if info.resource == "selfsubjectreviews":
        del tree["spec"]
        tree["metadata"] = {"creationTimestamp": format_time(ctx.now)}
        tree["status"] = {"userInfo": tokens.shown(user)}
    elif info.resource == "tokenreviews":
        tree["status"] = tokens.review(ctx, tree["spec"], parts.options)
    else:
        tree["status"] = reviews.answer(parts.access, ctx, tree["metadata"], tree["spec"])
        if info.resource == "selfsubjectrulesreviews":  # upstream answers a review of its own
            tree["metadata"], tree["spec"] = {}, {}
    if "managedFields" in tree["metadata"]:
        tree["metadata"] = without(tree["metadata"], "managedFields")
    return Response(201, tree)


_STATUS_DEPRECATED = "v1 ComponentStatus is deprecated in v1.19+"


def _component_statuses(parts: Parts, ctx: Context) -> Steps[Response]:
    """Answer with the health checks of the control plane's other parts. Upstream: componentstatus."""
    yield from ()
    components = parts.options.components
    name = ctx.request.name
    if ctx.request.verb == "get":
        if name not in components:
            ctx.warn(_STATUS_DEPRECATED)
            raise status.not_found(evolve(ctx.info, resource="componentstatus"), name)
        obj = Object(_component_status(name, components[name]))
        return Response(200, obj.tree, obj, warnings=[_STATUS_DEPRECATED])
    items = [Object(_component_status(each, problem)) for each, problem in components.items()]
    tree: Tree = {
        "kind": "ComponentStatusList",
        "apiVersion": "v1",
        "metadata": {},
        "items": [item.tree for item in items],
    }
    return Response(200, tree, items=items, warnings=[_STATUS_DEPRECATED])


def _component_status(name: str, problem: str) -> Tree:
    condition = {
        "type": "Healthy",
        "status": "False" if problem else "True",
        "message": problem or "ok",
    }
    return {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": name, "creationTimestamp": None},
        "conditions": [condition],
    }


def _usage(parts: Parts, ctx: Context) -> Steps[Response]:
    """Answer with the usage of nodes or pods."""
    yield from ()
    answer = usage.pod_metrics if ctx.info.namespaced else usage.node_metrics
    return answer(ctx, parts.options.usage, parts.registries.table)


_HANDLERS: dict[tuple[str, str], Handler] = {
    ("", "status"): _status,
    ("", "scale"): _scale,
    ("pods", "binding"): pod_subresources.binding,
    ("bindings", ""): pod_subresources.binding,
    ("pods", "eviction"): pod_subresources.eviction,
    ("pods", "resize"): pod_subresources.resize,
    ("pods", "ephemeralcontainers"): pod_subresources.ephemeral_containers,
    ("pods", "log"): pod_subresources.log,
    ("pods", "exec"): pod_subresources.connect,
    ("pods", "attach"): pod_subresources.connect,
    ("pods", "portforward"): pod_subresources.connect,
    ("namespaces", "finalize"): _finalize,
    ("serviceaccounts", "token"): _token,
    ("certificatesigningrequests", "approval"): _approval,
    ("componentstatuses", ""): _component_statuses,
    ("nodes.metrics.k8s.io", ""): _usage,
    ("pods.metrics.k8s.io", ""): _usage,
    ("tokenreviews", ""): _review,
    ("subjectaccessreviews", ""): _review,
    ("localsubjectaccessreviews", ""): _review,
    ("selfsubjectaccessreviews", ""): _review,
    ("selfsubjectrulesreviews", ""): _review,
    ("selfsubjectreviews", ""): _review,
}
