"""Namespaces, pods and what makes pods, held to the standards. Upstream: pod-security-admission/admission."""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.pod_security.checks import failures, shown
from controlplane.apiserver.requests.admission.pod_security.levels import (
    NOTHING,
    Level,
    Standards,
    standards_of,
)
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError

__all__ = ["RESOURCES", "check"]

_PREFIX: Final = "pod-security.kubernetes.io/"
_TEMPLATES: Final = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
RESOURCES: Final = frozenset(("namespaces", "pods", *(resource for _, resource in _TEMPLATES)))
_SECCOMP: Final = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
)


def check(ctx: Context, tree: Tree, old: Tree | None, *, newest: int) -> None:
    """Raise if a pod fails what its namespace enforces, or a namespace's labels are wrong.

    `newest` is the minor version that counts as the latest.
    """
    info, sub = ctx.info, ctx.request.subresource
    if info.resource == "pods" and not info.group:
        if sub in ("", "ephemeralcontainers") and (old is None or _matters(tree, old)):
            _pod(ctx, tree.get("metadata") or {}, tree.get("spec") or {}, newest, enforce=True)
    elif sub:
        return
    elif info.resource == "namespaces" and not info.group:
        _namespace(ctx, tree, old, newest)
    else:
        template: Tree | None = tree
        for step in _TEMPLATES.get((info.group, info.resource), ("none",)):
            template = (template or {}).get(step)
        if template is not None:
            meta, spec = template.get("metadata") or {}, template.get("spec") or {}
            _pod(ctx, meta, spec, newest, enforce=False)


def _standards(ctx: Context) -> tuple[Standards, list[FieldError]]:
    found = ctx.find("", "namespaces", "", ctx.request.namespace)
    labels = {} if found is None else found.metadata.get("labels") or {}
    return standards_of(labels)


def _pod(ctx: Context, meta: Tree, spec: Tree, newest: int, *, enforce: bool) -> None:
    standards, errors = _standards(ctx)
    if standards is NOTHING or (standards.ask_nothing and not errors):
        return
    if not enforce and not errors and not (standards.audit.strictness or standards.warn.strictness):
        return
    if errors:
        ctx.annotate(
            f"{_PREFIX}error", f"Failed to parse policy: {aggregate(list(map(str, errors)))}"
        )

    def violations(level: Level) -> str:
        found = shown(failures(level, meta, spec, newest))
        return f'PodSecurity "{level}": {found}' if found else ""

    refusal = ""
    if enforce:
        ctx.annotate(f"{_PREFIX}enforce-policy", str(standards.enforce))
        refusal = violations(standards.enforce)
    noted = violations(standards.audit)
    if noted:
        ctx.annotate(f"{_PREFIX}audit-violations", f"would violate {noted}")
    if refusal:
        name = meta.get("name") or meta.get("generateName") or "Unknown"
        raise status.forbidden(ctx.info, name, f"violates {refusal}")
    warned = violations(standards.warn)
    if warned:
        ctx.warn(f"would violate {warned}")


def _matters(new: Tree, old: Tree) -> bool:
    """Return whether an update of a pod changes what the standards check: images, containers, annotations."""
    for part in ("containers", "initContainers", "ephemeralContainers"):
        now, was = ((tree.get("spec") or {}).get(part) or () for tree in (new, old))
        if [(c["name"], c.get("image")) for c in now] != [(c["name"], c.get("image")) for c in was]:
            return True
    notes = [(tree.get("metadata") or {}).get("annotations") or {} for tree in (new, old)]
    seccomp = [{k: v for k, v in each.items() if k.startswith(_SECCOMP)} for each in notes]
    return seccomp[0] != seccomp[1]


def _namespace(ctx: Context, tree: Tree, old: Tree | None, newest: int) -> None:
    labels = tree["metadata"].get("labels") or {}
    standards, errors = standards_of(labels)
    if old is None:
        before, past_errors = standards, list[FieldError]()
    else:
        before, past_errors = standards_of(old["metadata"].get("labels") or {})
    if errors and errors != past_errors:
        raise status.invalid(ctx.info, tree["metadata"].get("name", ""), errors)
    new, was = standards.enforce, before.enforce
    if old is None or new == was or not new.strictness:
        return
    if new.minor == was.minor and new.strictness <= was.strictness:
        return
    _warn_of_pods(ctx, tree["metadata"]["name"], new, newest)


def _warn_of_pods(ctx: Context, namespace: str, level: Level, newest: int) -> None:
    """Pods that are there already and fail the new level, by what they fail."""
    found: dict[str, list[str]] = {}
    for pod in ctx.lookup.within("", "pods", namespace):
        failed = failures(level, pod.metadata, pod.tree.get("spec") or {}, newest)
        if failed:
            found.setdefault(", ".join(each.reason for each in failed), []).append(pod.name)
    if not found:
        return
    ctx.warn(
        f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level '
        f'"{level}"'
    )
    texts = []
    for reasons, names in found.items():
        others = len(names) - 1
        more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
        texts.append(f"{min(names)}{more}: {reasons}")
    for text in sorted(texts):
        ctx.warn(text)
