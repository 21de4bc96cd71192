"""The figures of one search: what each domain can hold, and later what it is given.

Follows `fillInCounts` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controlplane.kueue.amounts import divide
from controlplane.kueue.topology.requests import Parameters
from controlplane.kueue.topology.tree import Domain, TopologyTree

MAX_COUNT: Final = (1 << 31) - 1


class State:
    """Figures of a domain: first how many pods and slices fit, with and without a leader; then how many it gets."""

    __slots__ = (
        "affinity", "leaders", "pods", "pods_with_leader", "slices", "slices_with_leader",
    )  # fmt: skip

    def __init__(self) -> None:
        self.clear()
        self.affinity = 0

    def clear(self) -> None:
        """Reset all but the affinity score."""
        self.pods = self.slices = self.leaders = 0
        self.pods_with_leader = self.slices_with_leader = 0

    def copy(self) -> State:
        """An independent copy."""
        other = State()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        return other


Key = Callable[[Domain], tuple[object, ...]]


class Board:
    """The states of all domains of a tree, and of copies of domains made during a search.

    Args:
        tree: The tree; it stays as it is.
        by_affinity: Domains with a higher score of preferred node affinity go first.
        mixed: Unconstrained pod sets fill the smallest free domain first.
    """

    __slots__ = ("by_affinity", "mixed", "states", "tree")

    def __init__(self, tree: TopologyTree, *, by_affinity: bool, mixed: bool) -> None:
        self.tree = tree
        self.by_affinity = by_affinity
        self.mixed = mixed
        self.states = [State() for _ in range(tree.count)]

    def of(self, domain: Domain) -> State:
        """The state of a domain."""
        return self.states[domain.index]

    # -- copies ------------------------------------------------------------------------------------

    def copy(self, domain: Domain) -> Domain:
        """A domain at the same place with a state of its own."""
        clone = Domain(domain.id, len(self.states), domain.values)
        clone.parent, clone.children = domain.parent, domain.children
        self.states.append(self.of(domain).copy())
        return clone

    def copy_below(self, domain: Domain, parent: Domain | None = None) -> Domain:
        """A copy of a whole subtree."""
        clone = self.copy(domain)
        clone.parent = parent
        clone.children = [self.copy_below(child, clone) for child in domain.children]
        return clone

    # -- order -------------------------------------------------------------------------------------

    def least_free(self, unconstrained: bool) -> bool:
        """Return whether the smallest free domain is preferred, instead of the tightest that fits."""
        return unconstrained and self.mixed

    def ordered(self, domains: Sequence[Domain], unconstrained: bool) -> list[Domain]:
        """Domains in the order in which they are filled with workers."""
        sign = 1 if self.least_free(unconstrained) else -1

        def key(domain: Domain) -> tuple[object, ...]:
            state = self.of(domain)
            score = -state.affinity if self.by_affinity else 0
            return score, sign * state.slices, state.pods, domain.values

        return sorted(domains, key=key)

    def ordered_with_leader(self, domains: Sequence[Domain], unconstrained: bool) -> list[Domain]:
        """Domains in the order in which they are looked at while leaders remain."""
        sign = 1 if self.least_free(unconstrained) else -1

        def key(domain: Domain) -> tuple[object, ...]:
            state = self.of(domain)
            score = -state.affinity if self.by_affinity else 0
            return (
                -state.leaders, score, sign * state.slices_with_leader, state.pods_with_leader,
                domain.values,
            )  # fmt: skip

        return sorted(domains, key=key)

    def best_fit(
        self, domains: Sequence[Domain], needed: int, leaders: int, *, slices: bool
    ) -> Domain:
        """The first domain with the least room that suffices, otherwise the first one.

        Only domains that share the first one's affinity score are considered, and with leaders only
        those that can host them.
        """
        domains = self._top_tier(domains)
        best, smallest = domains[0], MAX_COUNT
        for domain in domains:
            state = self.of(domain)
            if state.leaders < leaders:
                continue
            if leaders > 0:
                room = state.slices_with_leader if slices else state.pods_with_leader
            else:
                room = state.slices if slices else state.pods
            if needed <= room < smallest:
                best, smallest = domain, room
        return best

    def _top_tier(self, domains: Sequence[Domain]) -> Sequence[Domain]:
        if not self.by_affinity:
            return domains
        score = self.of(domains[0]).affinity
        for at, domain in enumerate(domains):
            if self.of(domain).affinity != score:
                return domains[:at]
        return domains

    # -- roll-up -----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget the figures of the search before, and its copies."""
        self.states = [State() for _ in range(self.tree.count)]

    def roll_up(self, wanted: Parameters) -> None:
        """Sum the lowest domains' figures up the tree."""
        for root in self.tree.by_level[0].values() if self.tree.by_level else ():
            self.roll_up_below(root, 0, wanted, wanted.inner)

    def roll_up_below(
        self, domain: Domain, level: int, wanted: Parameters, inner: Mapping[int, int]
    ) -> None:
        """Compute the figures of a domain and of all above its lowest ones."""
        state = self.of(domain)
        if not domain.children:
            if level == wanted.slice_level:
                state.slices = state.pods // wanted.size
                state.slices_with_leader = state.pods_with_leader // wanted.size
            return
        grain = inner.get(level + 1, 1)
        pods = slices = leaders = affinity = 0
        # A leader takes the least that it costs in any child that can host it.
        pod_cost: list[int] = []
        slice_cost: list[int] = []
        for child in domain.children:
            self.roll_up_below(child, level + 1, wanted, inner)
            below = self.of(child)
            own = below.pods // grain * grain
            with_leader = below.pods_with_leader // grain * grain
            pods += own
            slices += below.slices
            if wanted.leaders == 0 or below.leaders > 0:
                pod_cost.append(own - with_leader)
                slice_cost.append(below.slices - below.slices_with_leader)
            leaders = max(leaders, below.leaders)
            affinity += below.affinity
        state.pods = pods
        state.pods_with_leader = pods - min(pod_cost) if pod_cost else 0
        state.leaders = leaders
        state.affinity = affinity
        if level == wanted.slice_level:
            state.slices = pods // wanted.size
            state.slices_with_leader = state.pods_with_leader // wanted.size
        else:
            state.slices = slices
            state.slices_with_leader = slices - min(slice_cost) if slice_cost else 0


def times_in(requests: Mapping[str, int], room: Mapping[str, int]) -> tuple[int, str]:
    """How often the requests fit into the room, and the resource that limits it.

    Of several the alphabetically first; nothing requested fits no times.
    """
    best: tuple[int, str] | None = None
    for name, amount in requests.items():
        times = MAX_COUNT
        if amount:
            times = max(0, min(divide(room.get(name, 0), amount), MAX_COUNT))
        if best is None or (times, name) < best:
            best = (times, name)
    return best or (0, "")
