"""The cluster roles and bindings that a cluster starts with, beyond those that every request needs.

Only roles whose rules did not depend on a release or feature gate are here. Left out: the roles of
scheduler, nodes, node proxies, monitoring, kubelet API and issuer discovery, those of single
controllers (`system:controller:...`), and the roles inside kube-system and kube-public.
Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy; aggregation: pkg/controller/
clusterroleaggregation.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.aggregation import aggregated_rules
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.authorization.rbac import GROUP

__all__ = ["aggregated_rules", "default_bindings", "default_roles", "missing"]

READ: Final = "get list watch"
WRITE: Final = "create delete deletecollection patch update"
READ_WRITE: Final = "create delete deletecollection get list patch update watch"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_SIGNER: Final = "kubernetes.io/"

# A rule is (verbs, groups, resources) or (verbs, groups, resources, names), each a text of words;
# the core group is "core".
Rule = tuple[str, str, str] | tuple[str, str, str, str]

_VIEW: Final[tuple[Rule, ...]] = (
    (READ, "core", "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods "
     "replicationcontrollers replicationcontrollers/scale serviceaccounts services "
     "services/status"),
    (READ, "core", "bindings events limitranges namespaces/status pods/log pods/status "
     "replicationcontrollers/status resourcequotas resourcequotas/status"),
    (READ, "core", "namespaces"),
    (READ, "discovery.k8s.io", "endpointslices"),
    (READ, "apps", "controllerrevisions daemonsets daemonsets/status deployments deployments/scale "
     "deployments/status replicasets replicasets/scale replicasets/status statefulsets "
     "statefulsets/scale statefulsets/status"),
    (READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    (READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    (READ, "extensions", "daemonsets daemonsets/status deployments deployments/scale "
     "deployments/status ingresses ingresses/status networkpolicies replicasets replicasets/scale "
     "replicasets/status replicationcontrollers/scale"),
    (READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    (READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    (READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
)  # fmt: skip
_EDIT: Final[tuple[Rule, ...]] = (
    (READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    ("impersonate", "core", "serviceaccounts"),
    (WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    ("create", "core", "pods/eviction"),
    (WRITE, "core", "configmaps events persistentvolumeclaims replicationcontrollers "
     "replicationcontrollers/scale secrets serviceaccounts services services/proxy"),
    ("create", "core", "serviceaccounts/token"),
    (WRITE, "apps", "daemonsets deployments deployments/rollback deployments/scale replicasets "
     "replicasets/scale statefulsets statefulsets/scale"),
    (WRITE, "autoscaling", "horizontalpodautoscalers"),
    (WRITE, "batch", "cronjobs jobs"),
    (WRITE, "extensions", "daemonsets deployments deployments/rollback deployments/scale ingresses "
     "networkpolicies replicasets replicasets/scale replicationcontrollers/scale"),
    (WRITE, "policy", "poddisruptionbudgets"),
    (WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    (READ_WRITE, "coordination.k8s.io", "leases"),
    (WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
)  # fmt: skip
_ADMIN: Final[tuple[Rule, ...]] = (
    ("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    (READ_WRITE, GROUP, "rolebindings roles"),
)
_DELEGATED: Final[tuple[Rule, ...]] = (
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
)
_EVENTS: Final[Rule] = ("create patch update", "core events.k8s.io", "events")
_MANAGER: Final = "system:kube-controller-manager"
_CERTIFICATES: Final = "system:certificates.k8s.io:"
_CSR: Final = "certificatesigningrequests"

# name: (rules, the role it is aggregated to)
_PLAIN: Final[dict[str, tuple[tuple[Rule, ...], str]]] = {
    "system:aggregate-to-view": (_VIEW, "view"),
    "system:aggregate-to-edit": (_EDIT, "edit"),
    "system:aggregate-to-admin": (_ADMIN, "admin"),
    "system:auth-delegator": (_DELEGATED, ""),
    "system:kube-aggregator": (((READ, "core", "endpoints services"),), ""),
    "system:kube-dns": ((("list watch", "core", "endpoints services"),), ""),
    "system:node-bootstrapper": (
        (("create get list watch", "certificates.k8s.io", _CSR),), "",
    ),
    "system:node-problem-detector": (
        (("get", "core", "nodes"), ("patch", "core", "nodes/status"), _EVENTS), "",
    ),
    "system:persistent-volume-provisioner": ((
        ("create delete get list watch", "core", "persistentvolumes"),
        ("get list update watch", "core", "persistentvolumeclaims"),
        (READ, "storage.k8s.io", "storageclasses"),
        ("watch", "core", "events"),
        _EVENTS,
    ), ""),
    "system:volume-scheduler": ((
        ("get list patch update watch", "core", "persistentvolumes"),
        (READ, "storage.k8s.io", "storageclasses"),
        ("get list patch update watch", "core", "persistentvolumeclaims"),
    ), ""),
    _MANAGER: ((
        _EVENTS,
        ("create", "coordination.k8s.io", "leases"),
        ("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
        ("create", "core", "secrets serviceaccounts"),
        ("delete", "core", "secrets"),
        ("get", "core", "configmaps namespaces secrets serviceaccounts"),
        ("update", "core", "secrets serviceaccounts"),
        *_DELEGATED,
        ("list watch", "*", "*"),
        ("create", "core", "serviceaccounts/token"),
    ), ""),
    **{
        f"{_CERTIFICATES}{_CSR}:{kind}": (
            (("create", "certificates.k8s.io", f"{_CSR}/{kind}"),), "",
        )
        for kind in ("nodeclient", "selfnodeclient")
    },
    **{
        f"{_CERTIFICATES}{kind}-approver": (
            (("approve", "certificates.k8s.io", "signers", f"{_SIGNER}{kind}"),), "",
        )
        for kind in ("kube-apiserver-client", "kube-apiserver-client-kubelet", "kubelet-serving",
                     "legacy-unknown")
    },
}  # fmt: skip
# name: the role it is aggregated to; in an order in which each only needs roles before it
_AGGREGATED: Final = {"view": "edit", "edit": "admin", "admin": ""}
_BINDINGS: Final[dict[str, Tree]] = {
    _MANAGER: {"apiGroup": GROUP, "kind": "User", "name": _MANAGER},
    "system:kube-dns": {"kind": "ServiceAccount", "name": "kube-dns", "namespace": "kube-system"},
    "system:volume-scheduler": {"apiGroup": GROUP, "kind": "User", "name": "system:kube-scheduler"},
}


def _rule(rule: Rule) -> Tree:
    verbs, groups, resources, *names = rule
    tree: Tree = {
        "verbs": verbs.split(),
        "apiGroups": ["" if group == "core" else group for group in groups.split()],
        "resources": resources.split(),
    }
    if names:
        tree["resourceNames"] = names[0].split()
    return tree


def _metadata(name: str, into: str = "") -> Tree:
    marks = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if into:
        marks[f"{_AGGREGATE}{into}"] = "true"
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"name": name, "labels": marks, "annotations": annotations}


def default_roles() -> list[Tree]:
    """The cluster roles, with aggregated ones filled in as their controller would."""
    roles: list[Tree] = [
        {"metadata": _metadata(name, into), "rules": [_rule(rule) for rule in rules]}
        for name, (rules, into) in _PLAIN.items()
    ]
    for name, into in _AGGREGATED.items():
        selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        role: Tree = {
            "metadata": _metadata(name, into),
            "aggregationRule": {"clusterRoleSelectors": selectors},
        }
        role["rules"] = aggregated_rules(role, roles)
        roles.append(role)
    return roles


def default_bindings() -> list[Tree]:
    """The cluster role bindings of these roles; each has the name of its role."""
    return [
        {
            "metadata": _metadata(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        }
        for name, subject in _BINDINGS.items()
    ]


def missing(lookup: Lookup) -> list[Request]:
    """What creates the default roles and bindings that are not there."""
    return [
        Request("create", GROUP, "v1", resource, body=tree)
        for resource, trees in (
            ("clusterroles", default_roles()),
            ("clusterrolebindings", default_bindings()),
        )
        for tree in trees
        if lookup.get(GROUP, resource, "", tree["metadata"]["name"]) is None
    ]
