"""Rules of services that earlier releases have otherwise than the latest one. Upstream: pkg/apis/core/validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import problems
from controlplane.apiserver.schema.field_errors import FieldError, not_supported
from controlplane.apiserver.schema.gated_fields import is_off
from controlplane.apiserver.schema.releases import reached

__all__ = ["EXTERNAL_IPS", "errors_of", "name_errors", "warnings_of"]

EXTERNAL_IPS: Final = (
    "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
)
_NAMES_SINCE: Final = 36
"""The minor release that first takes names that begin with a digit (RelaxedServiceNameValidation)."""
_EXTERNAL_IPS_SINCE: Final = 36
"""The minor release that deprecates external IPs (KEP-5707)."""
_DISTRIBUTION: Final = "spec.trafficDistribution"
_CLOSE: Final = "PreferClose"


def name_errors(tree: Tree, earlier: str) -> list[FieldError]:
    """Return the errors of a new service's name that the latest release does not have."""
    name = tree["metadata"].get("name", "")
    if reached(earlier, _NAMES_SINCE) or names.dns_label(name):
        return []
    return problems("metadata.name", name, names.dns_1035_label(name))


def errors_of(
    tree: Tree, errors: Sequence[FieldError], earlier: str, gates: frozenset[str]
) -> list[FieldError]:
    """Return the errors of a service in an earlier release, given those that the latest one has."""
    found = list(errors)
    choice = (tree.get("spec") or {}).get("trafficDistribution")
    if choice in (None, _CLOSE) or not is_off("PreferSameTrafficDistribution", earlier, gates):
        return found
    others = [error for error in found if error.field != _DISTRIBUTION]
    return [*others, not_supported(_DISTRIBUTION, choice, (_CLOSE,), sort=False)]


def warnings_of(texts: Sequence[str], earlier: str) -> list[str]:
    """Return the warnings of an earlier release, given those of the latest one."""
    if reached(earlier, _EXTERNAL_IPS_SINCE):
        return list(texts)
    return [text for text in texts if text != EXTERNAL_IPS]
