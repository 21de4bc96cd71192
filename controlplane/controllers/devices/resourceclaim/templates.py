"""The claim that a template asks for. Upstream: handleClaim of pkg/controller/resourceclaim/controller.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from controlplane.api.resource_claims import CLAIM_ANNOTATION
from controlplane.api.tree import Tree
from controlplane.client.resources import POD_GROUPS

__all__ = [
    "ADMIN_ACCESS",
    "GENERIC_WORKLOAD",
    "PRIORITIZED_LIST",
    "WORKLOAD_CLAIMS",
    "Features",
    "claim_of",
    "groups_have_claims",
    "refusal",
]

ADMIN_ACCESS: Final = "DRAAdminAccess"
PRIORITIZED_LIST: Final = "DRAPrioritizedList"
WORKLOAD_CLAIMS: Final = "DRAWorkloadResourceClaims"
GENERIC_WORKLOAD: Final = "GenericWorkload"
LONGEST_BASE: Final = 57
"""The longest generateName; the server appends five characters, and a name has 63 at most."""


@frozen
class Features:
    """The feature gates of the claim controller."""

    admin_access: bool = True
    prioritized_list: bool = True
    workload_claims: bool = False


def groups_have_claims(gates: Mapping[str, bool]) -> bool:
    """Return whether pod groups may have claims: by their gate, where pod groups are served at all."""
    return gates.get(WORKLOAD_CLAIMS, False) and gates.get(GENERIC_WORKLOAD, False)


def refusal(template: Tree, features: Features) -> str:
    """Return the reason for which a template is not used under these gates, "" for none."""
    devices = ((template.get("spec") or {}).get("spec") or {}).get("devices") or {}
    requests = devices.get("requests") or ()
    if not features.admin_access and any(
        (request.get("exactly") or {}).get("adminAccess") for request in requests
    ):
        return "admin access is requested, but the feature is disabled"
    if not features.prioritized_list and any(request.get("firstAvailable") for request in requests):
        return "template includes a prioritized list of subrequests, but the feature is disabled"
    return ""


def _generate_name(owner: str, entry: str) -> str:
    """Both names with hyphens; of a text that is too long each loses its share, and the last hyphen goes, too."""
    whole = f"{owner}-{entry}-"
    if len(whole) <= LONGEST_BASE:
        return whole
    of_owner = owner[: len(owner) * LONGEST_BASE // len(whole)]
    return f"{of_owner}-{entry[: len(entry) * LONGEST_BASE // len(whole)]}"


def claim_of(owner: Tree, entry: str, template: Tree, *, group: bool) -> Tree:
    """Return the claim for an entry of a pod, or with `group` of a pod group, as its template says."""
    spec, meta = template.get("spec") or {}, owner.get("metadata") or {}
    given = spec.get("metadata") or {}
    reference = {
        "apiVersion": POD_GROUPS.api_version if group else "v1",
        "kind": "PodGroup" if group else "Pod",
        "name": meta.get("name", ""),
        "uid": meta.get("uid", ""),
        "controller": True,
    }
    metadata: Tree = {
        "generateName": _generate_name(meta.get("name", ""), entry),
        "annotations": {**(given.get("annotations") or {}), CLAIM_ANNOTATION: entry},
        "ownerReferences": [reference],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec.get("spec") or {},
    }
