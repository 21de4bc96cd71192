"""CustomResourceDefinitions of Kueue: names, versions, columns. Follows `config/components/crd`.

Version v1beta1 is served for the kinds that look the same in it; upstream converts the others by a webhook.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.kueue.api.quota_schemas import QUOTA_SCHEMAS
from controlplane.kueue.api.shapes import STRING
from controlplane.kueue.api.workload_schema import WORKLOAD_SCHEMA
from controlplane.kueue.names import GROUP, VERSION

__all__ = ["definitions"]

OLD_VERSION: Final = "v1beta1"


class _Column(NamedTuple):
    name: str
    path: str
    type: str
    description: str
    wide: bool = False

    def tree(self) -> Tree:
        made: Tree = {"name": self.name, "jsonPath": self.path, "type": self.type}
        made["description"] = self.description
        return {**made, "priority": 1} if self.wide else made


class _Kind(NamedTuple):
    plural: str
    short: tuple[str, ...]
    namespaced: bool = False
    status: bool = True
    also_old: bool = False
    columns: tuple[_Column, ...] = ()


_PENDING: Final = _Column(
    "Pending Workloads", ".status.pendingWorkloads", "integer", "Number of pending workloads"
)
_KINDS: Final[dict[str, _Kind]] = {
    "ClusterQueue": _Kind(
        "clusterqueues",
        ("cq",),
        columns=(
            _Column(
                "Cohort", ".spec.cohortName", "string", "Cohort that this ClusterQueue belongs to"
            ),
            _Column(
                "Strategy",
                ".spec.queueingStrategy",
                "string",
                "The queueing strategy used to prioritize workloads",
                wide=True,
            ),
            _PENDING,
            _Column(
                "Admitted Workloads",
                ".status.admittedWorkloads",
                "integer",
                "Number of admitted workloads that haven't finished yet",
                wide=True,
            ),
        ),
    ),
    "LocalQueue": _Kind(
        "localqueues",
        ("queue", "queues", "lq"),
        namespaced=True,
        columns=(
            _Column("ClusterQueue", ".spec.clusterQueue", "string", "Backing ClusterQueue"),
            _PENDING,
            _Column(
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
            _Column(
                "Queue",
                ".spec.queueName",
                "string",
                "Name of the queue this workload was submitted to",
            ),
            _Column(
                "Reserved in",
                ".status.admission.clusterQueue",
                "string",
                "Name of the ClusterQueue where the workload is reserving quota",
            ),
            _Column(
                "Admitted",
                ".status.conditions[?(@.type=='Admitted')].status",
                "string",
                "Admission status",
            ),
            _Column(
                "Finished",
                ".status.conditions[?(@.type=='Finished')].status",
                "string",
                "Workload finished",
            ),
            _Column("Age", ".metadata.creationTimestamp", "date", "Time this workload was created"),
        ),
    ),
    "Cohort": _Kind("cohorts", ("co",)),
    "ResourceFlavor": _Kind(
        "resourceflavors", ("flavor", "flavors", "rf"), status=False, also_old=True
    ),
    "AdmissionCheck": _Kind("admissionchecks", ("ac",), also_old=True),
    "Topology": _Kind("topologies", ("topo",), status=False, also_old=True),
    "ProvisioningRequestConfig": _Kind("provisioningrequestconfigs", ("prc",), status=False),
    "WorkloadPriorityClass": _Kind(
        "workloadpriorityclasses",
        ("wpc",),
        status=False,
        also_old=True,
        columns=(
            _Column("Value", ".value", "integer", "Value of workloadPriorityClass's Priority"),
        ),
    ),
}


@cache
def definitions() -> tuple[Tree, ...]:
    """The CustomResourceDefinitions, by the name of their kind."""
    return tuple(_definition(kind, _KINDS[kind]) for kind in sorted(_KINDS))


def _definition(kind: str, facts: _Kind) -> Tree:
    schema = WORKLOAD_SCHEMA if kind == "Workload" else QUOTA_SCHEMAS[kind]
    versions = [_version(VERSION, kind, facts, schema, stored=True)]
    if facts.also_old:
        versions.insert(0, _version(OLD_VERSION, kind, facts, schema, stored=False))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{facts.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": facts.plural,
                "singular": kind.lower(),
                "shortNames": list(facts.short),
            },
            "scope": "Namespaced" if facts.namespaced else "Cluster",
            "versions": versions,
        },
    }


def _version(name: str, kind: str, facts: _Kind, schema: Tree, *, stored: bool) -> Tree:
    fields = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}}
    whole = {**schema, "properties": {**fields, **schema["properties"]}}
    made: Tree = {
        "name": name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": whole},
    }
    if facts.columns:
        made["additionalPrinterColumns"] = [column.tree() for column in facts.columns]
    if facts.status:
        made["subresources"] = {"status": {}}
    if kind == "Workload":
        made["selectableFields"] = [{"jsonPath": ".status.admission.clusterQueue"}]
    return made
