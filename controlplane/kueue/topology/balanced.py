"""Balanced placement: the same number of slices on each domain, as far as possible.

Only with the gate TASBalancedPlacement, for pod sets that prefer a level. Follows
`pkg/cache/scheduler/tas_balanced_placement.go`. One difference: with no slices to place upstream
divides by zero and dies; here balanced placement is then not possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from controlplane.api.go_math import go_log2
from controlplane.kueue.topology.board import Board
from controlplane.kueue.topology.requests import Parameters
from controlplane.kueue.topology.tree import Domain


@dataclass(frozen=True)
class _Greedy:
    """The number of domains of a greedy choice, and the last one with and without a leader."""

    domains: int
    last_with_leader: Domain | None
    last: Domain | None


@dataclass(frozen=True)
class Balance:
    """The candidates of the wanted level; each chosen domain is to get at least `threshold` slices."""

    domains: tuple[Domain, ...] = ()
    threshold: int = 0


@dataclass(frozen=True)
class Balancer:
    """Balanced placement on a filled board."""

    board: Board
    wanted: Parameters

    @property
    def slices(self) -> int:
        """The slices to place."""
        return self.wanted.count // self.wanted.size

    # -- which domains -----------------------------------------------------------------------------

    def best(self) -> Balance:
        """Of the sets of sibling domains the one with the highest threshold; 0 if none is possible."""
        best, best_count = Balance(), 0
        for siblings in self._candidate_sets():
            found = self._candidate(siblings, best.threshold)
            if found is None:
                continue
            balance, count = found
            if balance.threshold > best.threshold or (
                balance.threshold == best.threshold and count < best_count
            ):
                best, best_count = balance, count
        return best

    def _candidate_sets(self) -> list[list[Domain]]:
        levels, level = self.board.tree.by_level, self.wanted.level
        if level == 0:
            return [list(levels[0].values())]
        above = sorted(levels[level - 1].values(), key=lambda each: each.values)
        return [each.children for each in above]

    def _candidate(self, siblings: Sequence[Domain], least: int) -> tuple[Balance, int] | None:
        """A balance within one set, and how many domains of the wanted level it takes."""
        copies = [self.board.copy_below(each) for each in siblings]
        lower = self._below(copies) if self.wanted.level < self.wanted.slice_level else copies
        greedy = self._greedy(lower)
        if greedy is None or greedy.domains == 0:
            return None
        threshold = self._threshold(greedy)
        reserving = threshold
        if self.wanted.leaders > 0 and greedy.last is not None:
            reserving = min(threshold, self.board.of(greedy.last).slices_with_leader)
        if threshold < least:
            return None
        self._prune(copies, threshold)
        pruned = self._greedy(copies)
        if pruned is None and reserving < threshold:
            if reserving <= 0 or reserving < least:
                return None
            threshold = reserving
            copies = [self.board.copy_below(each) for each in siblings]
            self._prune(copies, threshold)
            pruned = self._greedy(copies)
        return None if pruned is None else (Balance(tuple(copies), threshold), pruned.domains)

    def _greedy(self, domains: Sequence[Domain]) -> _Greedy | None:
        """Take domains from the largest on until everything fits; None if it does not."""
        board = self.board
        slices, leaders = self.slices, self.wanted.leaders
        last = last_with_leader = None
        taken = 0
        rest = domains
        if leaders > 0:
            order = board.ordered_with_leader(domains, False)
            while leaders > 0 and taken < len(order) and board.of(order[taken]).leaders > 0:
                last_with_leader = order[taken]
                leaders -= board.of(last_with_leader).leaders
                slices -= board.of(last_with_leader).slices_with_leader
                taken += 1
            rest = order[taken:]
        if leaders > 0:
            return None
        for domain in board.ordered(rest, False):
            if slices <= 0 or board.of(domain).slices <= 0:
                break
            taken += 1
            last = domain
            slices -= board.of(domain).slices
        return None if slices > 0 else _Greedy(taken, last_with_leader, last)

    def _threshold(self, greedy: _Greedy) -> int:
        """The greatest possible least number of slices on a domain."""
        threshold = self.slices // greedy.domains
        if greedy.last_with_leader is not None:
            threshold = min(threshold, self.board.of(greedy.last_with_leader).slices_with_leader)
        if greedy.last is not None:
            threshold = min(threshold, self.board.of(greedy.last).slices)
        return threshold

    # -- pruning -----------------------------------------------------------------------------------

    def _prune(self, domains: Sequence[Domain], threshold: int) -> None:
        """Take off what cannot hold the threshold, first one level down, then the domains themselves."""
        for domain in domains:
            for child in domain.children:
                self._prune_one(child, threshold)
        for domain in domains:
            self.board.roll_up_below(domain, self.wanted.level, self.wanted, {})
            self._prune_one(domain, threshold)

    def _prune_one(self, domain: Domain, threshold: int) -> None:
        state = self.board.of(domain)
        if state.slices < threshold:
            self._clear(domain)
        elif self.wanted.leaders > 0 and state.leaders > 0 and state.slices_with_leader < threshold:
            self._clear_leaders(domain)

    def _clear(self, domain: Domain) -> None:
        self.board.of(domain).clear()
        for child in domain.children:
            self._clear(child)

    def _clear_leaders(self, domain: Domain) -> None:
        state = self.board.of(domain)
        state.pods_with_leader = state.slices_with_leader = state.leaders = 0
        for child in domain.children:
            self._clear_leaders(child)

    # -- placement ---------------------------------------------------------------------------------

    def place(self, balance: Balance) -> tuple[list[Domain], int] | None:
        """Give the slices out; the domains and their level, or None if it does not work out."""
        domains: Sequence[Domain] = balance.domains
        level = self.wanted.level
        if level < self.wanted.slice_level:
            chosen = self._smallest_set(domains, by_entropy=True)
            if chosen is None:
                return None
            domains = self._below(chosen)
            level += 1
        placed = self._spread(domains, balance.threshold)
        return None if placed is None else (placed, level)

    def _spread(self, domains: Sequence[Domain], threshold: int) -> list[Domain] | None:
        chosen = self._smallest_set(domains, by_entropy=False)
        if chosen is None or self.slices < len(chosen) * threshold:
            return None
        order = self.board.ordered_with_leader(chosen, False)
        extra = self.slices - len(order) * threshold
        leaders = self.wanted.leaders
        for domain in order:
            state = self.board.of(domain)
            more = 0
            if leaders > 0:
                more = min(state.slices_with_leader - threshold, extra)
            elif extra > 0:
                more = min(state.slices - threshold, extra)
            state.leaders = 1 if leaders > 0 else 0
            leaders -= state.leaders
            state.slices = state.slices_with_leader = threshold + more
            state.pods = state.slices * self.wanted.size
            state.pods_with_leader = state.pods - state.leaders
            extra -= more
        return None if extra > 0 or leaders > 0 else order

    def _smallest_set(self, domains: Sequence[Domain], *, by_entropy: bool) -> list[Domain] | None:
        """As many domains as a greedy choice takes, with the least room that still holds everything."""
        greedy = self._greedy(domains)
        if greedy is None:
            return None
        if by_entropy:
            order = sorted(domains, key=cmp_to_key(self._compare))
        else:
            order = sorted(domains, key=lambda each: each.values)
        start = (self.wanted.leaders, self.slices * self.wanted.size)
        # Per number of domains: the first way to come to a rest of (leaders, pods).
        ways: list[dict[tuple[int, int], list[Domain]]] = [{} for _ in range(greedy.domains + 1)]
        ways[0][start] = []
        for domain in order:
            for used in range(greedy.domains, 0, -1):
                self._extend(ways[used - 1], ways[used], domain)
        fitting = [
            (pods, way) for (leaders, pods), way in ways[-1].items() if leaders == 0 and pods <= 0
        ]
        return max(fitting, key=lambda each: each[0])[1] if fitting else None

    def _extend(
        self,
        before: dict[tuple[int, int], list[Domain]],
        after: dict[tuple[int, int], list[Domain]],
        domain: Domain,
    ) -> None:
        state = self.board.of(domain)
        for leaders, pods in sorted(before):
            if leaders <= 0 and pods <= 0:
                continue
            way = [*before[leaders, pods], domain]
            if leaders > 0 and state.leaders > 0:
                after.setdefault((leaders - state.leaders, pods - state.pods_with_leader), way)
            if state.slices > 0:
                after.setdefault((leaders, pods - state.pods), way)

    def _compare(self, a: Domain, b: Domain) -> int:
        one, other = self.board.of(a), self.board.of(b)
        if other.leaders != one.leaders:
            return other.leaders - one.leaders
        if other.slices_with_leader != one.slices_with_leader:
            return other.slices_with_leader - one.slices_with_leader
        first, second = self._entropy(a.children), self._entropy(b.children)
        if first != second:
            return 1 if second > first else -1
        return (a.values > b.values) - (a.values < b.values)

    def _entropy(self, domains: Sequence[Domain]) -> float:
        """How evenly the room is spread over the domains."""
        counts = [self.board.of(each).pods for each in domains]
        total = sum(counts)
        shares = [count / total for count in counts if count > 0] if total else []
        return sum((-share * go_log2(share) for share in shares), 0.0)

    def _below(self, domains: Sequence[Domain]) -> list[Domain]:
        return [child for domain in domains for child in domain.children]
