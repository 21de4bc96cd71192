"""Conditions of a namespace about its deletion. Upstream:
pkg/controller/namespace/deletion/status_condition_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field

from controlplane.api.times import format_time
from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.client.resources import Resource

DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
PARSING: Final = "NamespaceDeletionGroupVersionParsingFailure"
DELETION: Final = "NamespaceDeletionContentFailure"
CONTENT: Final = "NamespaceContentRemaining"
FINALIZERS: Final = "NamespaceFinalizersRemaining"
_FINE: Final = {
    DISCOVERY: ("ResourcesDiscovered", "All resources successfully discovered"),
    PARSING: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    DELETION: (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    CONTENT: ("ContentRemoved", "All content successfully removed"),
    FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@define
class Findings:
    """Findings while the content of a namespace was being removed."""

    undiscovered: Mapping[str, str] = field(factory=dict)
    """Group and version, and why it could not be asked what it serves."""
    problems: list[str] = field(factory=list)
    remaining: dict[Resource, int] = field(factory=dict)
    finalizers: dict[str, int] = field(factory=dict)

    def unfavourable(self) -> dict[str, tuple[str, str]]:
        """Reason and message of the conditions that are True."""
        found: dict[str, tuple[str, str]] = {}
        if self.undiscovered:
            text = f"{len(self.undiscovered)} failing: {discovery_error(self.undiscovered)}"
            found[DISCOVERY] = ("DiscoveryFailed", f"Discovery failed for some groups, {text}")
        if self.problems:
            text = f"{len(self.problems)} remaining: {', '.join(sorted(self.problems))}"
            found[DELETION] = (
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {text}",
            )
        if self.remaining:
            text = _counted(
                {f"{each.name}.{each.group} has": count for each, count in self.remaining.items()}
            )
            found[CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {text}")
        if self.finalizers:
            text = _counted({f"{name} in": count for name, count in self.finalizers.items()})
            found[FINALIZERS] = (
                "SomeFinalizersRemain",
                f"Some content in the namespace has finalizers remaining: {text}",
            )
        return found


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(sorted(f"{what} {count} resource instances" for what, count in counts.items()))


def discovery_error(undiscovered: Mapping[str, str]) -> str:
    """Return discovery's error when some groups are unavailable."""
    groups = ", ".join(f"{group}: {text}" for group, text in sorted(undiscovered.items()))
    return f"unable to retrieve the complete list of server APIs: {groups}"


def updated(conditions: Sequence[Tree], findings: Findings, now: int) -> list[Tree]:
    """The conditions after a look; those that say the same stay as they are."""
    found = list(conditions)
    places = {each["type"]: number for number, each in enumerate(found)}
    unfavourable = findings.unfavourable()
    for kind, fine in _FINE.items():
        reason, message = unfavourable.get(kind, fine)
        said = {
            "status": "True" if kind in unfavourable else "False",
            "reason": reason,
            "message": message,
        }
        stamp = {"type": kind, "lastTransitionTime": format_time(now)}
        place = places.get(kind)
        if place is None:
            found.append({**stamp, **said})
            continue
        old = found[place]
        if old["status"] == said["status"]:
            stamp = {}
        found[place] = {**old, **stamp, **said}
    return found
