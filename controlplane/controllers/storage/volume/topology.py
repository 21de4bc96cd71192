"""Topology of a volume: where it may be made, and the nodes that may have it.

Upstream: external-provisioner pkg/controller/topology.go, with `--immediate-topology` and without
`--strict-topology`, as they are by default. A term is one place: the values of the topology keys. Which node's keys
count for a claim without a node is by chance upstream, and the first one's here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.api.validation import parse_int64

if TYPE_CHECKING:
    from controlplane.api.tree import Tree

Term = tuple[tuple[str, str], ...]
"""Pairs of key and value, by key."""


class TopologyError(Exception):
    """The topology of a volume cannot be determined now."""


def keys_of(csi_node: Tree, driver: str) -> tuple[str, ...]:
    """The topology keys that a driver has registered on a node."""
    for each in csi_node["spec"].get("drivers") or ():
        if each["name"] == driver:
            return tuple(each.get("topologyKeys") or ())
    return ()


def term_of(labels: Mapping[str, str], keys: Iterable[str]) -> Term | None:
    """The place of a node with these labels; None if it lacks a key."""
    wanted = sorted(keys)
    if any(key not in labels for key in wanted):
        return None
    return tuple((key, labels[key]) for key in wanted)


def flattened(allowed: Iterable[Tree]) -> list[Term]:
    """`allowedTopologies` of a class: of each selector every combination of its values."""
    found: list[Term] = []
    for selector in allowed:
        terms: list[Term] = []
        for expression in selector.get("matchLabelExpressions") or ():
            key, values = expression["key"], expression["values"]
            bases: list[Term] = terms or [()]
            terms = [(*base, (key, value)) for value in values for base in bases]
        found += terms
    return [tuple(sorted(term)) for term in found]


def requirement(
    driver: str,
    claim_name: str,
    allowed: Sequence[Tree],
    selected: str,
    csi_nodes: Mapping[str, Tree],
    labels: Mapping[str, Mapping[str, str]],
) -> dict[str, Any] | None:
    """The accessibility requirements of a CreateVolume call, if there are any. Raises TopologyError.

    `selected` is the node that the scheduler chose, "" if none; `csi_nodes` and `labels` are of all nodes by name.
    """
    here: Term | None = None
    keys: tuple[str, ...] = ()
    if selected:
        if selected not in csi_nodes:
            raise TopologyError(f'csinode.storage.k8s.io "{selected}" not found')
        keys = keys_of(csi_nodes[selected], driver)
        if not keys:
            raise TopologyError(f"no topology key found for node {selected}")
        here = term_of(labels.get(selected, {}), keys)
        if here is None:
            listed = " ".join(keys)
            raise TopologyError(
                "topology labels from selected node map[] does not match topology keys from "
                f"CSINode [{listed}]"
            )
    if allowed:
        terms = flattened(allowed)
    else:
        terms = _aggregated(driver, keys, csi_nodes, labels)
        if not terms:
            raise TopologyError("no available topology found")
    if not terms:
        return None
    terms = sorted(dict.fromkeys(terms), key=lambda term: (len(term), term))
    return {
        "requisite": _segments(terms),
        "preferred": _segments(_preferred(terms, here, selected, claim_name)),
    }


def _aggregated(
    driver: str,
    keys: tuple[str, ...],
    csi_nodes: Mapping[str, Tree],
    labels: Mapping[str, Mapping[str, str]],
) -> list[Term]:
    """The places of all nodes; by the keys of the first that has any, unless there is a node already."""
    if not keys:
        every = (keys_of(each, driver) for each in csi_nodes.values())
        keys = next((found for found in every if found), ())
        if not keys:
            return []
    places = (term_of(each, keys) for each in labels.values())
    terms = [term for term in places if term]
    if not terms:
        raise TopologyError(f"topologyKeys [{' '.join(keys)}] were not found on any nodes")
    return terms


def _preferred(terms: list[Term], here: Term | None, selected: str, claim_name: str) -> list[Term]:
    """The selected node's place first; without one a place by the claim's name, so that sets of pods spread."""
    if here is None:
        at = spread(claim_name) % len(terms)
        return terms[at:] + terms[:at]
    for at, term in enumerate(terms):
        if set(term) <= set(here):
            return terms[at:] + terms[:at]
    raise TopologyError(
        f'topology {_shown(here)} from selected node "{selected}" is not in requisite: '
        f"[{' '.join(_shown(term) for term in terms)}]"
    )


def _shown(term: Term) -> str:
    return f"[{' '.join(f'{{{key} {value}}}' for key, value in term)}]"


def spread(claim_name: str) -> int:
    """A number by the name of a claim; of a StatefulSet's claims one more for each replica."""
    base, dash, index = claim_name.rpartition("-")
    offset = 0
    number = parse_int64(index) if dash and index.isdecimal() else None
    if number is not None and number < 1 << 32:
        offset = number
        claim_name = base.rpartition("-")[2]
    value = 0x811C9DC5  # FNV-1, 32 bits
    for byte in claim_name.encode():
        value = (value * 0x01000193 & 0xFFFFFFFF) ^ byte
    return value + offset & 0xFFFFFFFF


def _segments(terms: Iterable[Term]) -> list[dict[str, Any]]:
    return [{"segments": dict(term)} for term in terms if term]


def node_affinity(places: Iterable[Mapping[str, Any]]) -> Tree | None:
    """Of a volume that these places can reach: which nodes can have it."""
    terms = []
    for place in places:
        segments: Mapping[str, str] = place.get("segments") or {}
        expressions = [
            {"key": key, "operator": "In", "values": [segments[key]]} for key in sorted(segments)
        ]
        if expressions:
            terms.append({"matchExpressions": expressions})
    return {"required": {"nodeSelectorTerms": terms}} if terms else None
