"""The roles and bindings that a cluster starts with, as at 1.36 with its default feature gates.

Which they are stands in `roles.txt`. Left out: the roles of controllers behind gates that are off, of which those of
`_GATED` come with their gate, and two of a default 1.36 server whose names could not be confirmed. Upstream:
plugin/pkg/auth/authorizer/rbac/bootstrappolicy; aggregation: pkg/controller/clusterroleaggregation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Final

from controlplane.api.aggregation import aggregated_rules
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Lookup
from controlplane.apiserver.requests.authorization.rbac import GROUP

__all__ = [
    "aggregated_rules",
    "default_bindings",
    "default_namespaced",
    "default_roles",
    "every_request_needs",
    "missing",
]

_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_CONTROLLER: Final = "system:controller:"
_SYSTEM: Final = "kube-system"
_WORDS: Final = {
    "READ": "get list watch",
    "WRITE": "create delete deletecollection patch update",
    "ALL": "create delete deletecollection get list patch update watch",
    "CHANGE": "patch update",
}
_EVENTS: Final = "create patch update; core events.k8s.io; events"
_AGGREGATED: Final = {"view": "edit", "edit": "admin", "admin": ""}
"""The role that each is aggregated to; in an order in which each only needs roles before it."""
_NEEDED: Final = (
    "cluster-admin",
    "system:basic-user",
    "system:discovery",
    "system:public-info-viewer",
)


def _user(name: str) -> Tree:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def _group(name: str) -> Tree:
    return {"apiGroup": GROUP, "kind": "Group", "name": name}


def _account(name: str) -> Tree:
    return {"kind": "ServiceAccount", "name": name, "namespace": _SYSTEM}


_MANAGER: Final = _user("system:kube-controller-manager")
_SCHEDULER: Final = _user("system:kube-scheduler")
_AUTHENTICATED: Final = _group("system:authenticated")
_BINDINGS: Final[dict[str, list[Tree]]] = {
    "cluster-admin": [_group("system:masters")],
    "system:basic-user": [_AUTHENTICATED],
    "system:discovery": [_AUTHENTICATED],
    "system:public-info-viewer": [_AUTHENTICATED, _group("system:unauthenticated")],
    "system:kube-controller-manager": [_MANAGER],
    "system:kube-dns": [_account("kube-dns")],
    "system:kube-scheduler": [_SCHEDULER],
    "system:monitoring": [_group("system:monitoring")],
    "system:node": [],  # nodes are let in by an authorizer of their own
    "system:node-proxier": [_user("system:kube-proxy")],
    "system:service-account-issuer-discovery": [_group("system:serviceaccounts")],
    "system:volume-scheduler": [_SCHEDULER],
}
_NAMESPACED: Final[dict[str, tuple[str, list[Tree]]]] = {
    "extension-apiserver-authentication-reader": (
        "system::extension-apiserver-authentication-reader",
        [_MANAGER, _SCHEDULER],
    ),
    "system::leader-locking-kube-controller-manager": (
        "",
        [_MANAGER, _account("kube-controller-manager"), _account("leader-election-controller")],
    ),
    "system::leader-locking-kube-scheduler": ("", [_SCHEDULER, _account("kube-scheduler")]),
}
"""The bindings of roles of a namespace: the binding's name, "" for the role's, and its subjects."""


@cache
def _read() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Of each name in the data file: what it is aggregated to ("" for nothing), and its rules as text."""
    text = resources.files(__package__).joinpath("roles.txt").read_text(encoding="ascii")
    found: dict[str, tuple[str, list[str]]] = {}
    rules: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            rules.append(_EVENTS if line == "  EVENTS" else line.strip())
        elif line and not line.startswith("#"):
            name, _, into = line.partition(" > ")
            rules = []
            found[name] = (into, rules)
    return {name: (into, tuple(rules)) for name, (into, rules) in found.items()}


def _rule(text: str) -> Tree:
    verbs, *rest = text.split("; ")
    tree: Tree = {"verbs": _WORDS.get(verbs, verbs).split()}
    if len(rest) == 1:
        return {"nonResourceURLs": rest[0].split(), **tree}
    groups, resource, *names = rest
    tree["apiGroups"] = ["" if group == "core" else group for group in groups.split()]
    tree["resources"] = resource.split()
    if names:
        tree["resourceNames"] = names[0].split()
    return tree


def _metadata(name: str, into: str = "") -> Tree:
    marks = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    if into:
        marks[f"{_AGGREGATE}{into}"] = "true"
    annotations = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
    return {"name": name, "labels": marks, "annotations": annotations}


def _binding(kind: str, role: str, subjects: list[Tree], name: str = "") -> Tree:
    return {
        "metadata": _metadata(name or role),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": subjects,
    }


_GATED: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("GenericWorkload", "system:aggregate-to-view"): (
        "READ; scheduling.k8s.io; podgroups podgroups/status workloads",
    ),
    ("GenericWorkload", "system:aggregate-to-edit"): (
        "WRITE; scheduling.k8s.io; podgroups workloads",
    ),
    ("GenericWorkload", "system:kube-scheduler"): (
        "READ; scheduling.k8s.io; podgroups",
        "CHANGE; scheduling.k8s.io; podgroups/status",
    ),
    ("GenericWorkload", f"{_CONTROLLER}podgroup-protection-controller"): (
        "get list update watch; scheduling.k8s.io; podgroups",
        "READ; core; pods",
    ),
    ("WorkloadWithJob", f"{_CONTROLLER}job-controller"): (
        "create get list watch; scheduling.k8s.io; podgroups workloads",
    ),
    ("DRAWorkloadResourceClaims", f"{_CONTROLLER}resource-claim-controller"): (
        "READ; scheduling.k8s.io; podgroups",
        "CHANGE; scheduling.k8s.io; podgroups/status",
    ),
    ("DRADeviceTaintRules", f"{_CONTROLLER}device-taint-eviction-controller"): (
        "CHANGE; resource.k8s.io; devicetaintrules/status",
        "READ; resource.k8s.io; devicetaintrules",
    ),
    ("DRADeviceTaintRules", "system:kube-scheduler"): ("READ; resource.k8s.io; devicetaintrules",),
}
"""Rules that a feature gate adds to a role; a role without others exists with the gate only."""


def _with_gated(gates: frozenset[str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the roles of the data file and those that only exist with one of these gates."""
    added = {name: ("", ()) for gate, name in _GATED if gate in gates and name not in _read()}
    return {**_read(), **added}


def _gated(role: str, gates: frozenset[str]) -> tuple[str, ...]:
    return tuple(
        rule
        for (gate, name), rules in _GATED.items()
        if name == role and gate in gates
        for rule in rules
    )


def default_roles(gates: frozenset[str] = frozenset()) -> list[Tree]:
    """Return the cluster roles, with aggregated ones filled in as their controller would.

    Args:
        gates: the feature gates that are on although they are off by default.
    """
    roles: list[Tree] = [
        {
            "metadata": _metadata(name, into),
            "rules": [_rule(rule) for rule in (*rules, *_gated(name, gates))],
        }
        for name, (into, rules) in _with_gated(gates).items()
        if "/" not in name
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


def default_bindings(gates: frozenset[str] = frozenset()) -> list[Tree]:
    """Return the cluster role bindings of these roles; each has the name of its role.

    Args:
        gates: the feature gates that are on although they are off by default.
    """
    accounts = {
        name: [_account(name.removeprefix(_CONTROLLER))]
        for name in _with_gated(gates)
        if name.startswith(_CONTROLLER)
    }
    return [
        _binding("ClusterRole", name, subjects)
        for name, subjects in {**_BINDINGS, **accounts}.items()
    ]


def default_namespaced() -> list[tuple[str, Tree, Tree]]:
    """Namespace, role and binding of the roles inside kube-system and kube-public."""
    found = []
    for key, (_, rules) in _read().items():
        namespace, _, name = key.partition("/")
        if name:
            own = [_account(name.removeprefix(_CONTROLLER))]
            called, subjects = _NAMESPACED.get(name, ("", own))
            role = {"metadata": _metadata(name), "rules": [_rule(rule) for rule in rules]}
            found.append((namespace, role, _binding("Role", name, subjects, called)))
    return found


def every_request_needs() -> list[Request]:
    """Return the requests that create the roles and bindings that every authorization check needs."""
    made = []
    for name in _NEEDED:
        rules = [_rule(rule) for rule in _read()[name][1]]
        made.append(_created("clusterroles", {"metadata": _metadata(name), "rules": rules}))
        made.append(_created("clusterrolebindings", _binding("ClusterRole", name, _BINDINGS[name])))
    return made


def _created(resource: str, tree: Tree, namespace: str = "") -> Request:
    return Request("create", GROUP, "v1", resource, namespace, body=tree)


def missing(lookup: Lookup, gates: frozenset[str]) -> list[Request]:
    """Return the requests that create the missing default roles and bindings."""
    wanted = [_created("clusterroles", tree) for tree in default_roles(gates)]
    wanted += [_created("clusterrolebindings", tree) for tree in default_bindings(gates)]
    for namespace, role, binding in default_namespaced():
        wanted.append(_created("roles", role, namespace))
        wanted.append(_created("rolebindings", binding, namespace))
    return [
        each
        for each in wanted
        if lookup.get(GROUP, each.resource, each.namespace, each.body["metadata"]["name"]) is None
    ]
