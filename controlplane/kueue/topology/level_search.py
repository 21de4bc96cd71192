"""The domains that together hold a pod set, on the wanted level or above it.

Follows `findLevelWithFitDomains` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.api.validation import quote
from controlplane.kueue.topology.board import Board
from controlplane.kueue.topology.filling import leader_first
from controlplane.kueue.topology.matching import Exclusions
from controlplane.kueue.topology.requests import Parameters
from controlplane.kueue.topology.tree import Domain


@dataclass(frozen=True)
class Found:
    """Domains of one level; `failure` says why there are none."""

    level: int = 0
    domains: tuple[Domain, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class LevelSearch:
    """A search on a filled board for the topology of that name."""

    board: Board
    wanted: Parameters
    topology: str
    excluded: Exclusions

    @property
    def slices(self) -> int:
        """The slices to place."""
        return self.wanted.count // self.wanted.size

    def run(self, level: int) -> Found:
        """Search a level, and the levels above it when the pod set only prefers the level."""
        board, wanted = self.board, self.wanted
        domains = list(board.tree.by_level[level].values())
        if not domains:
            return Found(failure=f"no topology domains at level: {board.tree.levels[level]}")
        order = board.ordered_with_leader(domains, wanted.unconstrained)
        top = order[0]
        least_free = board.least_free(wanted.unconstrained)
        if not least_free and self._holds_all(top):
            top = board.best_fit(order, self.slices, wanted.leaders, slices=True)
        if least_free:
            found = self._smallest(order)
            if found is not None:
                return Found(level, (found,))
            if wanted.required:
                return self._not_fit(level, board.of(order[-1]).pods)
        if self._holds_all(top):
            return Found(level, (top,))
        if wanted.required:
            return self._later(level, order) or self._not_fit(level, board.of(top).slices)
        if level > 0 and not wanted.unconstrained:
            return self.run(level - 1)
        return self._several(level, order)

    def _holds_all(self, domain: Domain) -> bool:
        state = self.board.of(domain)
        return state.slices_with_leader >= self.slices and state.leaders >= self.wanted.leaders

    def _smallest(self, order: Sequence[Domain]) -> Domain | None:
        """The first domain of an ascending order that holds everything."""
        for domain in order:
            state = self.board.of(domain)
            if state.leaders < self.wanted.leaders:
                continue
            room = state.slices_with_leader if self.wanted.leaders > 0 else state.slices
            if room >= self.slices:
                return domain
        return None

    def _later(self, level: int, order: Sequence[Domain]) -> Found | None:
        """With preferred affinity the first domain may be too small although a later one is not."""
        if not self.board.by_affinity:
            return None
        for at in range(1, len(order)):
            if self._holds_all(order[at]):
                best = self.board.best_fit(
                    order[at:], self.slices, self.wanted.leaders, slices=True
                )
                return Found(level, (best,))
        return None

    def _several(self, level: int, order: Sequence[Domain]) -> Found:
        """Take domains until everything fits: first those that host leaders, then for workers only."""
        board, wanted = self.board, self.wanted
        tightest = not board.least_free(wanted.unconstrained)
        order = leader_first(board, order, wanted.count, wanted.leaders, wanted.size, slices=True)
        slices, leaders = self.slices, wanted.leaders
        chosen: list[Domain] = []
        at = 0
        while leaders > 0 and at < len(order) and board.of(order[at]).leaders > 0:
            domain = order[at]
            if tightest and board.of(domain).slices_with_leader >= slices:
                domain = board.best_fit(order[at:], slices, leaders, slices=True)
            chosen.append(domain)
            leaders -= board.of(domain).leaders
            slices -= board.of(domain).slices_with_leader
            at += 1
        if leaders > 0:
            return self._not_fit(level, wanted.leaders - leaders)
        rest = board.ordered(order[at:], wanted.unconstrained)
        for at, domain in enumerate(rest):
            if slices <= 0:
                break
            if tightest and board.of(domain).slices >= slices:
                domain = board.best_fit(rest[at:], slices, 0, slices=True)
            chosen.append(domain)
            slices -= board.of(domain).slices
        if slices > 0:
            return self._not_fit(level, self.slices - slices)
        return Found(level, tuple(chosen))

    # -- messages ----------------------------------------------------------------------------------

    def _not_fit(self, level: int, fitting: int) -> Found:
        name, total = quote(self.topology), self.slices
        if self.wanted.layers:
            text = f"topology {name} doesn't allow to fit{self._by_layer(level)}"
        else:
            unit = "pod(s)" if self.wanted.size == 1 else "slice(s)"
            text = (
                f"topology {name} allows to fit only {fitting} out of {total} {unit}"
                if fitting
                else f"topology {name} doesn't allow to fit any of {total} {unit}"
            )
        return Found(failure=text + self.excluded.text())

    def _by_layer(self, level: int) -> str:
        """The number of slices of each layer that fit into the domain of the level with most slices."""
        board = self.board
        best = min(
            board.tree.by_level[level].values(), key=lambda each: (-board.of(each).slices, each.id)
        )
        text = ""
        for layer in self.wanted.layers:
            fitting = self._slices_below(
                best, level, board.tree.levels.index(layer.topology), layer.size
            )
            needed = self.wanted.count // layer.size
            text += f"; {fitting}/{needed} slice(s) fit on level {layer.topology}"
        return text

    def _slices_below(self, domain: Domain, level: int, target: int, size: int) -> int:
        if level == target:
            return self.board.of(domain).pods // size
        return sum(self._slices_below(each, level + 1, target, size) for each in domain.children)
