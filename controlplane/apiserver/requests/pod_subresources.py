"""Subresources of pods: binding, eviction, resize, ephemeral containers, logs.

Upstream: pkg/registry/core/pod/storage.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from controlplane.api.container_inside import front_of, inside_of, services_at_start
from controlplane.api.container_output import state_of
from controlplane.api.flags import flag
from controlplane.api.host_access import Reached, Refusal
from controlplane.api.object import Object
from controlplane.api.request import FollowedLog, Request, Response
from controlplane.api.times import format_time
from controlplane.api.tree import Tree, is_fake_node, is_ready
from controlplane.api.validation import aggregate
from controlplane.apiserver.kinds.core.pods.kind import bound
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.selectors import selector_of
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.options import Debugging
from controlplane.apiserver.requests.deleting import check_meant
from controlplane.apiserver.requests.options import (
    check_connection,
    check_write_options,
    delete_options,
    parse_int64,
)
from controlplane.apiserver.requests.parts import Parts, seen_as
from controlplane.apiserver.requests.pod_logs import (
    check_has_log,
    first_shown,
    log_options,
    shown,
)
from controlplane.apiserver.requests.registry import Registry
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)
from controlplane.apiserver.storage.transactions import Steps

__all__ = ["binding", "connect", "ephemeral_containers", "eviction", "log", "resize"]

_SUCCESS: Tree = {
    "apiVersion": "v1",
    "kind": "Status",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


def _created(ctx: Context) -> Response:
    return Response(201, _SUCCESS, warnings=ctx.warnings or [])


# -- binding -------------------------------------------------------------------------------------


def binding(parts: Parts, ctx: Context) -> Steps[Response]:
    """Put a pod on a node, once."""
    request = ctx.request
    if request.body is None:
        raise status.bad_request("no binding in the body")
    ctx.dry_run = check_write_options(request)
    body = parts.bodies.posted(ctx, "", "io.k8s.api.core.v1.Binding")
    meta = body.get("metadata") or {}
    name = meta.get("name", "")
    if request.name and name != request.name:
        raise status.bad_request("name in URL does not match name in Binding object")
    target = body.get("target") or {}
    node = target.get("name", "")
    errors = []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(
            not_supported(
                "target.kind", target["kind"], ("Node", "<empty>"), sort=False, typed=False
            )
        )
    if not node:
        errors.append(required("target.name", ""))
    if errors:
        raise status.plain_error(aggregate(str(each) for each in errors))
    registry = parts.registries.named("", "pods")

    def assigned(tree: Tree) -> Tree:
        _check_bindable(registry, request.namespace, name, tree, meta)
        return bound(ctx, tree, node, meta.get("annotations") or {}, meta.get("labels") or {})

    yield from registry.change(ctx, request.namespace, name, assigned)
    return _created(ctx)


def _check_bindable(
    registry: Registry, namespace: str, name: str, tree: Tree, wanted: Tree
) -> None:
    """ApiError 409 for a pod that is not the one meant, or cannot be put on a node (any more)."""
    info = registry.info
    for key, text in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        asked, current = wanted.get(key), tree["metadata"][key]
        if asked and asked != current:
            path = info.storage_prefix + registry.key(namespace, name)
            raise status.conflict(
                info,
                name,
                (
                    f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
                    f"AdditionalErrorMsg: Precondition failed: {text} in precondition: {asked}, "
                    f"{text} in object meta: {current}"
                ),
            )
    reason = ""
    if "deletionTimestamp" in tree["metadata"]:
        reason = f"pod {name} is being deleted, cannot be assigned to a host"
    elif tree["spec"].get("nodeName"):
        reason = f'pod {name} is already assigned to node "{tree["spec"]["nodeName"]}"'
    elif tree["spec"].get("schedulingGates"):
        reason = f"pod {name} has non-empty .spec.schedulingGates"
    if reason:
        raise status.conflict(info, name, reason, shown="pods/binding")


# -- eviction ------------------------------------------------------------------------------------

_EVICTION = "io.k8s.api.policy.v1.Eviction"
_MAX_DISRUPTED = 2000
_WOULD_VIOLATE = "Cannot evict pod as it would violate the pod's disruption budget."


def eviction(parts: Parts, ctx: Context) -> Steps[Response]:
    """Delete a pod unless a disruption budget forbids it."""
    request = ctx.request
    ctx.dry_run = check_write_options(request)
    body = parts.bodies.posted(ctx, "policy", _EVICTION, ("policy/v1beta1",))
    meta = body.get("metadata") or {}
    if meta.get("name", "") != request.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    given = body.get("deleteOptions") or {}
    _check_dry_runs(request, given.get("dryRun") or [])
    registry = parts.registries.named("", "pods")
    found = yield from registry.get(request.namespace, request.name)
    options = delete_options(Request("delete", resource="pods", body=given))
    options.dry_run = ctx.dry_run = ctx.dry_run or options.dry_run
    if _ignores_budgets(found):
        if options.version is None and _may_change(found):
            options.version = found.metadata["resourceVersion"]
    else:
        budget = _budget_of(ctx, found)
        if budget is not None:
            if not is_ready(found.tree) and _unhealthy_allowed(budget.tree):
                if options.version is None:
                    options.version = found.metadata["resourceVersion"]
            else:
                yield from _decrement(parts, ctx, budget, request.name)
    if not ctx.dry_run:
        seen = seen_as(ctx, registry)
        marked = yield from registry.change(
            seen,
            request.namespace,
            request.name,
            lambda tree: _disrupted(seen, tree, options),
            sub="status",
        )
        if options.version is not None:
            options.version = marked.metadata["resourceVersion"]
    yield from registry.delete(ctx, request.namespace, request.name, options)
    return _created(ctx)


def _check_dry_runs(request: Request, given: list[str]) -> None:
    """Refuse an eviction whose query and body do not agree about a dry run. ApiError 500, as upstream."""
    asked = request.query["dryRun"].split("\n") if "dryRun" in request.query else []
    if given and asked and given != asked:
        raise status.plain_error(
            f"Non-matching dry-run options in request and content: [{' '.join(asked)}] and [{' '.join(given)}]"
        )


def _may_change(pod: Object) -> bool:
    """Return whether a pod without budget may come under one: the deletion is then of this version alone."""
    phase = pod.tree["status"].get("phase")
    return phase not in ("Succeeded", "Failed") and "deletionTimestamp" not in pod.metadata


def _ignores_budgets(pod: Object) -> bool:
    phase = pod.tree["status"].get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod.metadata


def _budget_of(ctx: Context, pod: Object) -> Object | None:
    """The budget that covers the pod; several are an error."""
    labels = pod.metadata.get("labels") or {}
    covering = []
    for budget in ctx.lookup.within("policy", "poddisruptionbudgets", pod.namespace):
        selector = selector_of((budget.tree.get("spec") or {}).get("selector"))
        if selector is not None and selector.matches(labels):
            covering.append(budget)
    if len(covering) > 1:
        text = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
        raise status.plain_error(text)
    return covering[0] if covering else None


def _unhealthy_allowed(budget: Tree) -> bool:
    """Return whether an unready pod may be evicted without counting against the budget."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    state = budget.get("status") or {}
    healthy, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    return bool(healthy >= desired > 0)


def _decrement(parts: Parts, ctx: Context, budget: Object, name: str) -> Steps[None]:
    """Take one disruption from the budget. ApiError 403, 429."""
    registry = parts.registries.named("policy", "poddisruptionbudgets")
    yield from registry.change(
        seen_as(ctx, registry),
        budget.namespace,
        budget.name,
        lambda tree: _with_disruption(ctx, registry, budget.name, name, tree),
    )


def _with_disruption(ctx: Context, registry: Registry, shown: str, name: str, tree: Tree) -> Tree:
    """The budget less one disruption. ApiError 403, 429."""
    state = tree.get("status") or {}
    if state.get("observedGeneration", 0) < tree["metadata"].get("generation", 0):
        raise status.too_many_requests(
            _WOULD_VIOLATE,
            10,
            [
                {
                    "reason": "DisruptionBudget",
                    "message": f"The disruption budget {shown} is still being processed by the server.",
                }
            ],
        )
    allowed = state.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise status.forbidden(registry.info, shown, "pdb disruptions allowed is negative")
    if len(state.get("disruptedPods") or {}) > _MAX_DISRUPTED:
        raise status.forbidden(
            registry.info,
            shown,
            ("DisruptedPods map too big - too many evictions not confirmed by PDB controller"),
        )
    if not allowed:
        raise status.too_many_requests(
            _WOULD_VIOLATE,
            0,
            [
                {
                    "reason": "DisruptionBudget",
                    "message": _why(shown, state),
                }
            ],
        )
    pods = {**(state.get("disruptedPods") or {}), name: format_time(ctx.now)}
    state = {**state, "disruptionsAllowed": allowed - 1, "disruptedPods": pods}
    if allowed == 1:
        state["conditions"] = _insufficient(ctx, tree, state.get("conditions") or [])
    return {**tree, "status": state}


def _insufficient(ctx: Context, tree: Tree, conditions: list[Tree]) -> list[Tree]:
    """The condition that tells that no more disruptions are allowed."""
    condition: Tree = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "lastTransitionTime": format_time(ctx.now),
    }
    generation = tree["metadata"].get("generation", 0)
    if generation:
        condition["observedGeneration"] = generation
    for index, existing in enumerate(conditions):
        if existing["type"] == "DisruptionAllowed":
            if existing.get("status") == "False":
                condition["lastTransitionTime"] = existing.get("lastTransitionTime")
            return [*conditions[:index], condition, *conditions[index + 1 :]]
    return [*conditions, condition]


def _why(name: str, state: Tree) -> str:
    for condition in state.get("conditions") or ():
        if condition["type"] == "DisruptionAllowed" and condition.get("reason") == "SyncFailed":
            text = condition.get("message", "")
            return (
                f"The disruption budget {name} does not allow evicting pods currently because "
                f"it failed sync: {text}"
            )
    if state.get("currentHealthy", 0) > state.get("desiredHealthy", 0):
        return f"The disruption budget {name} does not allow evicting pods currently"
    return (
        f"The disruption budget {name} needs {state.get('desiredHealthy', 0)} healthy pods and has "
        f"{state.get('currentHealthy', 0)} currently"
    )


def _disrupted(ctx: Context, tree: Tree, options: DeleteOptions) -> Tree:
    """The pod with the condition of an eviction. ApiError 409 if it is not the one that is meant."""
    check_meant(ctx.info, tree["metadata"], options)
    state = tree["status"]
    condition: Tree = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(ctx.now),
    }
    kept = [c for c in state.get("conditions") or () if c["type"] != "DisruptionTarget"]
    return {**tree, "status": {**state, "conditions": [*kept, condition]}}


# -- resize and ephemeral containers -------------------------------------------------------------


def _changed(parts: Parts, ctx: Context, sub: str) -> Steps[Response]:
    request, writer = ctx.request, parts.writer
    if request.verb == "get":
        obj = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
        return Response(200, obj.tree, obj)
    apply = request.content_type.startswith("application/apply-patch")
    ctx.dry_run = check_write_options(request, apply=apply)
    change = writer.update_object if request.verb == "update" else writer.patch_object
    obj, _ = yield from change(ctx, sub=sub)
    return Response(200, obj.tree, obj, warnings=ctx.warnings or [])


def resize(parts: Parts, ctx: Context) -> Steps[Response]:
    """Change the resources of a pod's containers."""
    return _changed(parts, ctx, "resize")


def ephemeral_containers(parts: Parts, ctx: Context) -> Steps[Response]:
    """Add ephemeral containers to a pod."""
    return _changed(parts, ctx, "ephemeralcontainers")


# -- logs and streams ----------------------------------------------------------------------------


_LOG_NUMBERS = {
    "tailLines": (0, "must be greater than or equal to 0"),
    "sinceSeconds": (1, "must be greater than 0"),
    "limitBytes": (1, "must be greater than 0"),
}


def _check_log_options(ctx: Context, numbers: dict[str, int]) -> None:
    query = ctx.request.query
    errors: list[FieldError] = []
    for key, value in numbers.items():
        least, rule = _LOG_NUMBERS[key]
        if value < least:
            errors.append(invalid(key, value, rule))
    if query.get("sinceSeconds") and query.get("sinceTime"):
        text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        errors.append(forbidden("[]", text))
    if "stream" in query:
        errors.append(forbidden("stream", "may not be specified"))
    if errors:
        raise status.invalid_kind("", "PodLogOptions", ctx.request.name, errors)


def log(parts: Parts, ctx: Context) -> Steps[Response]:
    """The log of a container. There is no kubelet to ask here: pods not scheduled have none."""
    request = ctx.request
    given = request.query
    numbers = {key: parse_int64(given[key]) for key in _LOG_NUMBERS if given.get(key)}
    _check_log_options(ctx, numbers)
    pod = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
    container = _log_container(pod, request.query.get("container", ""))
    if not pod.tree["spec"].get("nodeName"):
        return Response(200, {}, content=b"", content_type="text/plain")
    if (debugging := _debugging(parts, ctx, pod)) is not None:
        previous = flag(request.query.get("previous"))
        options = log_options(request.query, ctx.now)
        entered = debugging.log(pod.namespace, pod.name, container, options, previous=previous)
        if isinstance(entered, Refusal):
            raise status.bad_request(entered.text)
        if entered is not None:
            return Response(200, {}, entered=entered)
    if parts.options.container_log is not None:
        previous = flag(request.query.get("previous"))
        check_has_log(pod.tree, container, previous=previous)
        written = parts.options.container_log(pod.tree, container, ctx.now, previous)
        first = first_shown(written, request.query, ctx.now)
        text = shown(written, request.query, first)
        followed = None
        if flag(request.query.get("follow")) and not written.ended:
            followed = FollowedLog(request, pod.uid, container, written.count)
        return Response(200, {}, content=text, content_type="text/plain", followed=followed)
    node = pod.tree["spec"]["nodeName"]
    if ctx.find("", "nodes", "", node) is None:
        raise status.not_found(ctx.info, node)
    raise status.plain_error(
        f'Get "https://{node}:10250/containerLogs/{pod.namespace}/{pod.name}/{container}": '
        f"dial tcp: lookup {node}: no such host"
    )


def _log_container(pod: Object, wanted: str) -> str:
    spec = pod.tree["spec"]
    regular = [c["name"] for c in spec.get("containers") or ()]
    initial = [c["name"] for c in spec.get("initContainers") or ()]
    ephemeral = [c["name"] for c in spec.get("ephemeralContainers") or ()]
    default = pod.metadata.get("annotations", {}).get("kubectl.kubernetes.io/default-container")
    if wanted:
        if wanted not in (*regular, *initial, *ephemeral):
            raise status.bad_request(f"container {wanted} is not valid for pod {pod.name}")
        return wanted
    if default in regular:
        return str(default)
    if len(regular) == 1:
        return str(regular[0])
    text = (
        f"a container name must be specified for pod {pod.name}, choose one of: "
        f"[{' '.join((*initial, *regular, *ephemeral))}]"
    )
    raise status.bad_request(text)


def _debugging(parts: Parts, ctx: Context, pod: Object) -> Debugging | None:
    """Return the debugging rules for a pod on a fake node; None for a pod on any other node."""
    found = parts.options.debugging
    node = None if found is None else ctx.find("", "nodes", "", pod.tree["spec"]["nodeName"])
    if found is None or node is None or not is_fake_node(node.tree):
        return None

    def stored(group: str, version: str, resource: str) -> Iterable[Object]:
        info = parts.registries.table.get(group, version, resource)
        return () if info is None else ctx.lookup.read_within(info, "")

    return found.at(stored)


def _reached(parts: Parts, ctx: Context, pod: Object, container: str) -> Reached | None:
    """Return the target on the serving machine for a pod on a fake node; None for any other pod."""
    debugging = _debugging(parts, ctx, pod)
    if debugging is None:
        return None
    if ctx.request.subresource == "portforward":
        return debugging.ports(pod.namespace, pod.name)
    if ctx.request.subresource == "exec":
        return debugging.exec(pod.namespace, pod.name, container)
    return debugging.attach(pod.namespace, pod.name, container)


def connect(parts: Parts, ctx: Context) -> Steps[Response]:
    """Exec, attach and port forwarding: all that is checked before a connection is upgraded.

    An emulated shell answers exec, the log attach, and a small HTTP server forwarded ports, over WebSocket and SPDY.
    """
    request = ctx.request
    check_connection(request)
    pod = yield from parts.registries.of(ctx.info).get(request.namespace, request.name)
    container = ""
    if request.subresource != "portforward":
        container = _log_container(pod, request.query.get("container", ""))
    if not pod.tree["spec"].get("nodeName"):
        raise status.bad_request(f"pod {pod.name} does not have a host assigned")
    node = pod.tree["spec"]["nodeName"]
    if ctx.find("", "nodes", "", node) is None:
        raise status.not_found(ctx.info, node)
    if not request.upgrade:
        raise status.bad_request("Upgrade request required")
    if (entered := _reached(parts, ctx, pod, container)) is not None:
        _check_upgrade(request.upgrade)
        return Response(101, {}, entered=entered)
    if parts.options.container_log is not None and request.subresource == "portforward":
        _check_upgrade(request.upgrade)
        return Response(101, {}, entered=front_of(pod.tree))
    if parts.options.container_log is not None and request.subresource in ("exec", "attach"):
        if "running" not in (state_of(pod.tree, container).get("state") or {}):
            text = f'unable to upgrade connection: container not found ("{container}")'
            raise status.internal_error(text)
        _check_upgrade(request.upgrade)

        def find(resource: str, namespace: str, name: str) -> Tree | None:
            found = ctx.find("", resource, namespace, name)
            return None if found is None else found.tree

        known = parts.registries.named("", "services").info
        every = (each.tree for each in ctx.lookup.read_within(known, ""))
        services = services_at_start(pod.tree, container, every)
        inside = inside_of(pod.tree, container, find, now=ctx.now, services=services)
        machines = parts.options.machines
        if machines is not None and machines.waits(pod.tree, container):
            inside = evolve(inside, waits=True)
        return Response(101, {}, entered=inside)
    raise status.ApiError(
        405,
        "MethodNotAllowed",
        (
            f"containers are emulated and nothing runs in them: no {request.subresource} into pod "
            f"{pod.name}"
        ),
    )


def _check_upgrade(protocol: str) -> None:
    if protocol.lower() not in ("websocket", "spdy/3.1"):
        text = f"only WebSocket and SPDY/3.1 lead into emulated pods, not {protocol}"
        raise status.ApiError(405, "MethodNotAllowed", text)
