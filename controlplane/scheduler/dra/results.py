"""Results of a search as a claim's status has them.

Upstream: Allocate and createNodeSelector in structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen

from controlplane.api.quantity import Quantity
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.features import STABLE, Features, channel
from controlplane.scheduler.dra.requests import (
    Candidate,
    Request,
    RequestData,
    RequestKey,
    requests_of,
)

__all__ = ["Chosen", "ResultError", "allocation"]


class ResultError(Exception):
    """A result that cannot be written down. The text is upstream's."""


@frozen(eq=False)
class Chosen:
    """A device that was chosen for a request. `share` names a share of a device, "" for a whole one."""

    request: Request
    candidate: Candidate
    share: str = ""
    consumed: Mapping[str, Quantity] = field(factory=dict)


def allocation(
    number: int,
    claim: Tree,
    chosen: Sequence[Chosen],
    data: Mapping[RequestKey, RequestData],
    node: str,
    features: Features,
) -> Tree:
    """Return the allocation of a claim.

    Args:
        number: the place of the claim among those that were allocated together.
        claim: the claim.
        chosen: the devices.
        data: what is known of the requests.
        node: the name of the node.
        features: the features of the allocator.

    Raises:
        ResultError: a slice has a node selector of several terms.
    """
    devices: Tree = {}
    if chosen:
        devices["results"] = [_result(each, features) for each in chosen]
    configs = _class_configs(number, claim, data) + _claim_configs(number, claim, data)
    if configs:
        devices["config"] = configs
    found: Tree = {"devices": devices}
    try:
        selector = _node_selector(chosen, node, is_stable=channel(features) == STABLE)
    except ResultError as error:
        name = (claim.get("metadata") or {}).get("name", "")
        raise ResultError(f"create NodeSelector for claim {name}: {error}") from None
    if selector is not None:
        found["nodeSelector"] = selector
    return found


def _result(chosen: Chosen, features: Features) -> Tree:
    name, device = chosen.candidate.id, chosen.candidate.device
    found: Tree = {
        "request": chosen.request.full_name,
        "driver": name.driver,
        "pool": name.pool,
        "device": name.device,
    }
    if chosen.request.admin_access:
        found["adminAccess"] = True
    if chosen.request.tolerations:
        found["tolerations"] = list(chosen.request.tolerations)
    if features.device_binding_and_status:
        for key in ("bindingConditions", "bindingFailureConditions"):
            if device.get(key):
                found[key] = list(device[key])
    if chosen.share:
        found["shareID"] = chosen.share
    if chosen.consumed:
        found["consumedCapacity"] = {key: str(value) for key, value in chosen.consumed.items()}
    return found


def _taken(key: RequestKey, data: Mapping[RequestKey, RequestData]) -> RequestData:
    """Return the data of a request, or of the alternative that was taken."""
    found = data[key]
    return found if found.request.parent is None else data[key._replace(sub=found.selected)]


def _class_configs(number: int, claim: Tree, data: Mapping[RequestKey, RequestData]) -> list[Tree]:
    """Return the configuration of the classes; one that several requests use names them all."""
    configs: list[Tree] = []
    of_class: dict[str, list[Tree]] = {}
    for index in range(len(requests_of(claim))):
        taken = _taken(RequestKey(number, index), data)
        name = (taken.device_class.get("metadata") or {}).get("name", "")
        if name in of_class:
            for config in of_class[name]:
                config["requests"].append(taken.request.full_name)
            continue
        of_class[name] = [
            {**config, "source": "FromClass", "requests": [taken.request.full_name]}
            for config in (taken.device_class.get("spec") or {}).get("config") or ()
        ]
        configs += of_class[name]
    return configs


def _claim_configs(number: int, claim: Tree, data: Mapping[RequestKey, RequestData]) -> list[Tree]:
    """Return the configuration of the claim: one copy for every request that it names."""
    configs: list[Tree] = []
    for config in claim["spec"]["devices"].get("config") or ():
        wanted = config.get("requests") or ()
        shown = {key: value for key, value in config.items() if key != "requests"}
        shown["source"] = "FromClaim"
        if not wanted:
            configs.append(shown)
            continue
        for index, request in enumerate(requests_of(claim)):
            taken = _taken(RequestKey(number, index), data).request
            if request.get("name", "") in wanted or (
                taken.parent is not None and taken.full_name in wanted
            ):
                configs.append({**shown, "requests": list(wanted)})
    return configs


def _node_selector(chosen: Sequence[Chosen], node: str, *, is_stable: bool) -> Tree | None:
    """Return the nodes on which the devices can be used; None for all nodes."""
    fields: list[Tree] = []
    expressions: list[Tree] = []
    for each in chosen:
        device, spec = each.candidate.device, each.candidate.slice.spec
        owner = device if spec.get("perDeviceNodeSelection") else spec
        if owner.get("nodeName") is not None or (not is_stable and device.get("bindsToNode")):
            only: Tree = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = (owner.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise ResultError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _join(fields, term.get("matchFields") or ())
            _join(expressions, term.get("matchExpressions") or ())
    term = {
        key: value
        for key, value in (("matchFields", fields), ("matchExpressions", expressions))
        if value
    }
    return {"nodeSelectorTerms": [term]} if term else None


def _join(known: list[Tree], more: Sequence[Tree]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in known):
            known.append(requirement)


def _same(a: Tree, b: Tree) -> bool:
    return (a.get("key"), a.get("operator"), frozenset(a.get("values") or ())) == (
        b.get("key"),
        b.get("operator"),
        frozenset(b.get("values") or ()),
    )
