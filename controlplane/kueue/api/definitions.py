"""CustomResourceDefinitions of Kueue: names, versions, columns. Follows `config/components/crd`.

Version v1beta1 is served, too, and deprecated; the webhook server converts the kinds that look different in it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from controlplane.api.custom_schemas import column, definition, version
from controlplane.api.tree import Tree
from controlplane.kueue.api.conversion import CONVERTED, OLD_VERSION
from controlplane.kueue.api.old_schemas import OLD_SCHEMAS
from controlplane.kueue.api.quota_schemas import QUOTA_SCHEMAS
from controlplane.kueue.api.webhook_configurations import NAMESPACE, SERVICE
from controlplane.kueue.api.workload_schema import WORKLOAD_SCHEMA
from controlplane.kueue.names import GROUP, VERSION

__all__ = ["definitions"]

DEPRECATED: Final = "This version is deprecated. Use v1beta2 instead."


CONVERSION: Final[Tree] = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {"service": {"name": SERVICE, "namespace": NAMESPACE, "path": "/convert"}},
        "conversionReviewVersions": ["v1"],
    },
}


class _Kind(NamedTuple):
    plural: str
    short: tuple[str, ...]
    namespaced: bool = False
    status: bool = True
    also_old: bool = True
    columns: tuple[Tree, ...] = ()


_PENDING: Final = column(
    "Pending Workloads", ".status.pendingWorkloads", "integer", "Number of pending workloads"
)
_KINDS: Final[dict[str, _Kind]] = {
    "ClusterQueue": _Kind(
        "clusterqueues",
        ("cq",),
        columns=(
            column(
                "Cohort", ".spec.cohortName", "string", "Cohort that this ClusterQueue belongs to"
            ),
            column(
                "Strategy",
                ".spec.queueingStrategy",
                "string",
                "The queueing strategy used to prioritize workloads",
                priority=1,
            ),
            _PENDING,
            column(
                "Admitted Workloads",
                ".status.admittedWorkloads",
                "integer",
                "Number of admitted workloads that haven't finished yet",
                priority=1,
            ),
        ),
    ),
    "LocalQueue": _Kind(
        "localqueues",
        ("queue", "queues", "lq"),
        namespaced=True,
        columns=(
            column("ClusterQueue", ".spec.clusterQueue", "string", "Backing ClusterQueue"),
            _PENDING,
            column(
                "Admitted Workloads",
                ".status.admittedWorkloads",
                "integer",
                "Number of admitted workloads that haven't finished yet.",
            ),
        ),
    ),
    "Workload": _Kind(
        "workloads",
        ("kwl", "kueueworkload", "kueueworkloads"),
        namespaced=True,
        columns=(
            column(
                "Queue",
                ".spec.queueName",
                "string",
                "Name of the queue this workload was submitted to",
            ),
            column(
                "Reserved in",
                ".status.admission.clusterQueue",
                "string",
                "Name of the ClusterQueue where the workload is reserving quota",
            ),
            column(
                "Admitted",
                ".status.conditions[?(@.type=='Admitted')].status",
                "string",
                "Admission status",
            ),
            column(
                "Finished",
                ".status.conditions[?(@.type=='Finished')].status",
                "string",
                "Workload finished",
            ),
            column("Age", ".metadata.creationTimestamp", "date", "Time this workload was created"),
        ),
    ),
    "Cohort": _Kind("cohorts", ("co",)),
    "ResourceFlavor": _Kind("resourceflavors", ("flavor", "flavors", "rf"), status=False),
    "AdmissionCheck": _Kind("admissionchecks", ("ac",)),
    "Topology": _Kind("topologies", ("topo",), status=False),
    "ProvisioningRequestConfig": _Kind(
        "provisioningrequestconfigs", ("prc",), status=False, also_old=False
    ),
    "WorkloadPriorityClass": _Kind(
        "workloadpriorityclasses",
        ("wpc",),
        status=False,
        columns=(
            column("Value", ".value", "integer", "Value of workloadPriorityClass's Priority"),
        ),
    ),
}


@cache
def definitions(*, converted: bool = True) -> tuple[Tree, ...]:
    """The CustomResourceDefinitions, by the name of their kind; `converted`: with versions that a webhook converts."""
    kinds = {
        kind: facts if converted or kind not in CONVERTED else facts._replace(also_old=False)
        for kind, facts in _KINDS.items()
    }
    return tuple(_definition(kind, kinds[kind]) for kind in sorted(kinds))


def _definition(kind: str, facts: _Kind) -> Tree:
    schema = WORKLOAD_SCHEMA if kind == "Workload" else QUOTA_SCHEMAS[kind]
    versions = [_version(VERSION, kind, facts, schema, stored=True)]
    if facts.also_old:
        old = _version(OLD_VERSION, kind, facts, OLD_SCHEMAS.get(kind, schema), stored=False)
        versions.insert(0, old if kind not in CONVERTED else _deprecated(kind, old))
    made = definition(kind, facts.plural, GROUP, versions, facts.short, namespaced=facts.namespaced)
    if kind in CONVERTED and facts.also_old:
        made["spec"]["conversion"] = CONVERSION
    return made


def _deprecated(kind: str, old: Tree) -> Tree:
    """An old version with its warning; the columns of ClusterQueues show the field of that version."""
    made = {**old, "deprecated": True, "deprecationWarning": DEPRECATED}
    if kind == "ClusterQueue":
        made["additionalPrinterColumns"] = [
            {**each, "jsonPath": each["jsonPath"].replace(".spec.cohortName", ".spec.cohort")}
            for each in old["additionalPrinterColumns"]
        ]
    return made


def _version(name: str, kind: str, facts: _Kind, schema: Tree, *, stored: bool) -> Tree:
    made = version(name, schema, facts.columns, stored=stored, status=facts.status)
    if kind == "Workload":
        made["selectableFields"] = [{"jsonPath": ".status.admission.clusterQueue"}]
    return made
