"""LimitRanger and ResourceQuota. Upstream: plugin/pkg/admission/{limitranger,resourcequota} and
pkg/quota/v1/evaluator/core.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.api.object import Object
from controlplane.api.quota import ZERO, Amounts, added, amounts, compute_usage, in_scope, usage_of
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.schema import status
from controlplane.apiserver.storage.transactions import Put, Steps, Transaction

__all__ = ["charge", "concerned", "limit_check", "limit_defaults"]

_ANNOTATION = "kubernetes.io/limit-ranger"
_ATTEMPTS = 4


def _in_namespace(ctx: Context, resource: str) -> list[Object]:
    return ctx.lookup.within("", resource, ctx.request.namespace)


def _higher(total: Amounts, other: Amounts) -> Amounts:
    out = dict(total)
    for name, amount in other.items():
        if name not in out or amount.cmp(out[name]) > 0:
            out[name] = amount
    return out


def _limits_of(limit_range: Tree, *kinds: str) -> Iterable[Tree]:
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") in kinds:
            yield limit


# -- limit ranges --------------------------------------------------------------------------------


def _ranges(ctx: Context, old: Tree | None) -> list[Object]:
    """Return the limit ranges that hold for the request, if it is a new pod, a resize, or a claim."""
    sub = ctx.request.subresource
    if ctx.info.resource == "pods":
        fits = sub == "resize" if old is not None else not sub
    else:
        fits = not sub
    if not fits or (old is not None and old["metadata"].get("deletionTimestamp")):
        return []
    return _in_namespace(ctx, "limitranges")


def limit_defaults(ctx: Context, tree: Tree, old: Tree | None) -> Tree:
    """Containers get the default requests and limits of the namespace's limit ranges, one after the other."""
    for limit_range in _ranges(ctx, old):
        tree = _with_range(tree, limit_range.tree)
    return tree


def _with_range(tree: Tree, limit_range: Tree) -> Tree:
    """Return a pod with the defaults of one limit range; its note takes the place of an earlier one."""
    requests: Tree = {}
    limits: Tree = {}
    for limit in _limits_of(limit_range, "Container"):
        requests = {**requests, **(limit.get("defaultRequest") or {})}
        limits = {**limits, **(limit.get("default") or {})}
    if not requests and not limits:
        return tree
    notes: list[str] = []
    spec = dict(tree["spec"])
    for key, noun in (("containers", "container"), ("initContainers", "init container")):
        if spec.get(key):
            spec[key] = [_with_defaults(c, requests, limits, noun, notes) for c in spec[key]]
    if not notes:
        return tree
    meta = tree["metadata"]
    annotations = {
        **meta.get("annotations", {}),
        _ANNOTATION: "LimitRanger plugin set: " + "; ".join(notes),
    }
    return {**tree, "metadata": {**meta, "annotations": annotations}, "spec": spec}


def _with_defaults(
    container: Tree, requests: Tree, limits: Tree, noun: str, notes: list[str]
) -> Tree:
    had = container.get("resources") or {}
    new = dict(had)
    for key, defaults, word in (("requests", requests, "request"), ("limits", limits, "limit")):
        given = had.get(key) or {}
        missing = {name: text for name, text in defaults.items() if name not in given}
        if missing:
            new[key] = {**given, **missing}
            notes.append(f"{', '.join(sorted(missing))} {word} for {noun} {container['name']}")
    return container if new == had else {**container, "resources": new}


def limit_check(ctx: Context, tree: Tree, old: Tree | None) -> None:
    """Requests and limits lie within the namespace's limit ranges; the first one that is broken answers."""
    for limit_range in _ranges(ctx, old):
        problems = _problems(ctx.info.resource, tree, limit_range.tree)
        if problems:
            unique = list(dict.fromkeys(problems))
            text = unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"
            raise status.forbidden(ctx.info, status.told_name(tree), text)


def _problems(resource: str, tree: Tree, limit_range: Tree) -> list[str]:
    """Return what a pod or claim asks for outside of one limit range, in the order of its limits."""
    problems: list[str] = []
    spec = tree["spec"]
    if resource == "persistentvolumeclaims":
        requests = amounts((spec.get("resources") or {}).get("requests"))
        for limit in _limits_of(limit_range, "PersistentVolumeClaim"):
            problems += _minimum(limit, requests, {})
            problems += _maximum_request(limit, requests)
        return problems
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    for limit in _limits_of(limit_range, "Container", "Pod"):
        if limit["type"] == "Pod":
            totals = _pod_total(spec, "requests"), _pod_total(spec, "limits")
            problems += _constraints(limit, *totals)
            continue
        for container in containers:
            given = container.get("resources") or {}
            problems += _constraints(
                limit, amounts(given.get("requests")), amounts(given.get("limits"))
            )
    return problems


def _pod_total(spec: Tree, key: str) -> Amounts:
    """Return the total requests of a pod: its containers together, or the largest init container."""
    total: Amounts = {}
    sidecars: Amounts = {}
    highest: Amounts = {}
    for container in spec.get("containers") or ():
        total = added(total, amounts((container.get("resources") or {}).get(key)))
    for container in spec.get("initContainers") or ():
        given = amounts((container.get("resources") or {}).get(key))
        if container.get("restartPolicy") == "Always":
            sidecars = added(sidecars, given)
            highest = _higher(highest, sidecars)
        else:
            highest = _higher(highest, added(sidecars, given))
    total = _higher(added(total, sidecars), highest)
    own = amounts((spec.get("resources") or {}).get(key))
    return {**total, **{name: own[name] for name in ("cpu", "memory") if name in own}}


def _constraints(limit: Tree, requests: Amounts, limits: Amounts) -> list[str]:
    return [
        *_minimum(limit, requests, limits),
        *_maximum(limit, requests, limits),
        *_ratio(limit, requests, limits),
    ]


def _minimum(limit: Tree, requests: Amounts, limits: Amounts) -> list[str]:
    found = []
    for name, least in sorted(amounts(limit.get("min")).items()):
        text = f"minimum {name} usage per {limit['type']} is {least}"
        if name not in requests:
            found.append(f"{text}.  No request is specified")
        elif requests[name].cmp(least) < 0:
            found.append(f"{text}, but request is {requests[name]}")
        elif name in limits and limits[name].cmp(least) < 0:
            found.append(f"{text}, but limit is {limits[name]}")
    return found


def _maximum(limit: Tree, requests: Amounts, limits: Amounts) -> list[str]:
    found = []
    for name, most in sorted(amounts(limit.get("max")).items()):
        text = f"maximum {name} usage per {limit['type']} is {most}"
        if name not in limits:
            found.append(f"{text}.  No limit is specified")
        elif limits[name].cmp(most) > 0:
            found.append(f"{text}, but limit is {limits[name]}")
        elif name in requests and requests[name].cmp(most) > 0:
            found.append(f"{text}, but request is {requests[name]}")
    return found


def _maximum_request(limit: Tree, requests: Amounts) -> list[str]:
    found = []
    for name, most in sorted(amounts(limit.get("max")).items()):
        text = f"maximum {name} usage per {limit['type']} is {most}"
        if name not in requests:
            found.append(f"{text}.  No request is specified")
        elif requests[name].cmp(most) > 0:
            found.append(f"{text}, but request is {requests[name]}")
    return found


def _ratio(limit: Tree, requests: Amounts, limits: Amounts) -> list[str]:
    found = []
    for name, most in sorted(amounts(limit.get("maxLimitRequestRatio")).items()):
        text = f"{name} max limit to request ratio per {limit['type']} is {most}"
        request, top = requests.get(name, ZERO), limits.get(name, ZERO)
        if request.is_zero():
            found.append(f"{text}, but no request is specified or request is 0")
        elif top.is_zero():
            found.append(f"{text}, but no limit is specified or limit is 0")
        else:
            ratio = top.milli_value() / request.milli_value()
            if ratio * 1000 > most.milli_value():
                found.append(f"{text}, but provided ratio is {ratio:.6f}")
    return found


# -- quotas --------------------------------------------------------------------------------------

_REQUIRED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def _missing(pod: Tree, hard: Iterable[str]) -> str:
    """Compute resources that a quota needs to be stated and that containers leave out."""
    if _has_own_resources(pod["spec"]):
        return ""
    wanted = [name for name in hard if name in _REQUIRED]
    found: dict[str, list[str]] = {}
    spec = pod["spec"]
    for container in (*(spec.get("containers") or ()), *spec.get("initContainers", ())):
        resources = container.get("resources") or {}
        stated = compute_usage(amounts(resources.get("requests")), amounts(resources.get("limits")))
        for name in wanted:
            if name not in stated:
                found.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(who))}" for name, who in sorted(found.items()))


def _has_own_resources(spec: Tree) -> bool:
    """Return whether a pod as a whole asks for compute resources; its containers need not then."""
    own = spec.get("resources") or {}
    stated = (*(own.get("requests") or ()), *(own.get("limits") or ()))
    return any(name in ("cpu", "memory") or name.startswith("hugepages-") for name in stated)


def _listed(amounts: Amounts) -> str:
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))


def concerned(ctx: Context, old: Tree | None) -> list[Object]:
    """The quotas that may count a write."""
    info = ctx.info
    if ctx.request.subresource or not info.namespaced:
        return []
    if old is not None and (
        info.group or info.resource not in ("services", "persistentvolumeclaims")
    ):
        return []
    return _in_namespace(ctx, "resourcequotas")


def charge(ctx: Context, tree: Tree, old: Tree | None, quotas: list[Object]) -> Steps[None]:
    """Check an object against the namespace's quotas, and record their usage before it is stored.

    Quotas that were written meanwhile are read and checked again. Upstream:
    apiserver pkg/admission/plugin/resourcequota/controller.go, checkQuotas.
    """
    usage = usage_of(ctx.info.group, ctx.info.resource, tree)
    if old is not None:
        before = usage_of(ctx.info.group, ctx.info.resource, old)
        usage = {name: amount.sub(before.get(name, ZERO)) for name, amount in usage.items()}
        if all(amount.sign() <= 0 for amount in usage.values()):
            return
    for _ in range(_ATTEMPTS):
        changed = [
            entry for quota in quotas if (entry := _charged(ctx, quota, tree, usage)) is not None
        ]
        if ctx.dry_run:
            return
        quotas = []
        for quota, used in changed:
            done = yield _written_up(ctx, quota, used)
            if not done.made and done.objects[0] is not None:
                quotas.append(done.objects[0])
        if not quotas:
            return
    names = ",".join(quota.name for quota in quotas)
    raise status.forbidden(
        ctx.info, status.told_name(tree), f"status of quota {names} could not be updated"
    )


def _written_up(ctx: Context, quota: Object, used: Tree) -> Transaction:
    """The write of what a quota has used."""
    prefix = ctx.lookup.info("", "resourcequotas").storage_prefix
    state = {**quota.tree["status"], "used": used}
    key = f"{quota.namespace}/{quota.name}"
    put = Put(prefix, key, {**quota.tree, "status": state}, quota)
    return Transaction(((prefix, key, quota.resource_version),), (put,))


def _charged(ctx: Context, quota: Object, tree: Tree, usage: Amounts) -> tuple[Object, Tree] | None:
    """Return a quota and its usage with the object; None if it does not cover the object."""
    name = status.told_name(tree)
    state = quota.tree.get("status") or {}
    spec = quota.tree.get("spec") or {}
    if not in_scope(ctx.info.group, ctx.info.resource, spec, tree):
        return None
    hard = amounts(state.get("hard"))
    concerned = [
        key
        for key in hard
        if key in usage or (ctx.info.resource == "pods" and not ctx.info.group and key in _REQUIRED)
    ]
    if not concerned:
        return None
    if ctx.info.resource == "pods" and not ctx.info.group:
        missing = _missing(tree, concerned)
        if missing:
            text = f"failed quota: {quota.name}: must specify {missing}"
            raise status.forbidden(ctx.info, name, text)
    used = amounts(state.get("used"))
    unknown = [key for key in concerned if key not in used]
    if unknown:
        text = f"status unknown for quota: {quota.name}, resources: {','.join(sorted(unknown))}"
        raise status.forbidden(ctx.info, name, text)
    asked = {key: usage[key] for key in concerned if key in usage}
    new = {key: used[key].add(amount) for key, amount in asked.items()}
    over = [
        key for key, amount in new.items() if amount.cmp(hard[key]) > 0 and asked[key].sign() > 0
    ]
    if over:

        def listed(amounts: Amounts) -> str:
            return _listed({key: amounts[key] for key in over})

        raise status.forbidden(
            ctx.info,
            name,
            (
                f"exceeded quota: {quota.name}, requested: {listed(asked)}, used: {listed(used)}, "
                f"limited: {listed(hard)}"
            ),
        )
    if all(amount.is_zero() for amount in asked.values()):
        return None
    texts = {**state.get("used", {}), **{key: str(amount) for key, amount in new.items()}}
    return quota, texts
