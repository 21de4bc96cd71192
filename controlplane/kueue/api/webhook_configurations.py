"""Webhook configurations of Kueue. Follows `config/components/webhook`.

Upstream's name every kind that it could integrate, and the webhooks of those that are not enabled say yes; here
these are left out, which spares a request for every pod of a world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.kueue.jobs.generic import GenericJob, framework_of
from controlplane.kueue.names import GROUP, VERSION

__all__ = ["HOST", "NAMESPACE", "SERVICE", "webhook_configurations"]

NAMESPACE: Final = "kueue-system"
SERVICE: Final = "kueue-webhook-service"
HOST: Final = f"{SERVICE}.{NAMESPACE}.svc"
_LEFT_ALONE: Final = ("kube-system", NAMESPACE)
"""Namespaces whose jobs and pods no webhook is asked about."""


class _Hook(NamedTuple):
    group: str
    version: str
    resource: str
    kind: str
    mutates_on: tuple[str, ...]
    framework: str = ""
    """The integration that needs it; empty for Kueue's own kinds."""


_ALWAYS: Final = ("CREATE", "UPDATE")
_HOOKS: Final = (
    _Hook(GROUP, VERSION, "clusterqueues", "clusterqueue", ("CREATE",)),
    _Hook(GROUP, VERSION, "cohorts", "cohort", ()),
    _Hook(GROUP, VERSION, "resourceflavors", "resourceflavor", ("CREATE",)),
    _Hook(GROUP, VERSION, "workloads", "workload", ("CREATE",)),
    _Hook("batch", "v1", "jobs", "job", ("CREATE",), "batch/job"),
    _Hook("", "v1", "pods", "pod", ("CREATE",), "pod"),
    _Hook("apps", "v1", "deployments", "deployment", _ALWAYS, "deployment"),
    _Hook("apps", "v1", "statefulsets", "statefulset", _ALWAYS, "statefulset"),
)


def webhook_configurations(
    frameworks: Sequence[str], custom: Sequence[type[GenericJob]] = ()
) -> list[Tree]:
    """The two configurations.

    Args:
        frameworks: The enabled integrations of jobs.
        custom: Kinds of jobs of a user.
    """
    hooks = [hook for hook in _HOOKS if not hook.framework or hook.framework in frameworks]
    hooks += [_custom_hook(each) for each in custom]
    return [
        _configuration("Mutating", [hook for hook in hooks if hook.mutates_on]),
        _configuration("Validating", hooks),
    ]


def _custom_hook(cls: type[GenericJob]) -> _Hook:
    group, version, kind = cls.kind
    return _Hook(group, version, cls.plural, kind.lower(), ("CREATE",), framework_of(cls.kind))


def _configuration(what: str, hooks: Sequence[_Hook]) -> Tree:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{what}WebhookConfiguration",
        "metadata": {"name": f"kueue-{what.lower()}-webhook-configuration"},
        "webhooks": [_webhook(what, hook) for hook in hooks],
    }


def _webhook(what: str, hook: _Hook) -> Tree:
    verb = "mutate" if what == "Mutating" else "validate"
    group = hook.group.replace(".", "-")
    resources = [hook.resource]
    if hook.kind == "workload" and verb == "validate":
        resources.append("workloads/status")
    made: Tree = {
        "name": f"{verb[0]}{hook.kind}.kb.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "name": SERVICE,
                "namespace": NAMESPACE,
                "path": f"/{verb}-{group}-{hook.version}-{hook.kind}",
            }
        },
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [
            {
                "apiGroups": [hook.group],
                "apiVersions": [hook.version],
                "operations": list(hook.mutates_on if verb == "mutate" else _ALWAYS),
                "resources": resources,
            }
        ],
    }
    if hook.framework:
        expression = {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": list(_LEFT_ALONE),
        }
        made["namespaceSelector"] = {"matchExpressions": [expression]}
    return made
