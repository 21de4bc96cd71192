"""The usage of a whole namespace. Upstream: apiserver pkg/quota/v1/resources.go (CalculateUsage)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.quota import ZERO, Amounts, added, in_scope, tracked, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controlplane.api.tree import Tree


def calculate_usage(
    spec: Tree, objects: Mapping[tuple[str, str], Iterable[Tree]], now: int
) -> Amounts:
    """Return the usage of the names that a quota limits. `objects` are those of its namespace, by group and resource.

    Names that no resource tracks are left out.
    """
    hard = list(spec.get("hard") or ())
    used: Amounts = {}
    for (group, resource), trees in objects.items():
        names = tracked(group, resource, hard)
        if not names:
            continue
        used = added(used, dict.fromkeys(names, ZERO))
        for tree in trees:
            if in_scope(group, resource, spec, tree):
                usage = usage_of(group, resource, tree, now)
                used = added(used, {name: usage[name] for name in names if name in usage})
    return used
