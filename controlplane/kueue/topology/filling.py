"""Giving a number of pods or slices to as few domains as possible.

Follows `updateCountsToMinimumGeneric` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.kueue.topology.board import Board, State
from controlplane.kueue.topology.tree import Domain


@dataclass
class _Rest:
    """The remainder to place: slices, or pods, and leaders."""

    amount: int
    leaders: int


def fill(
    board: Board,
    domains: Sequence[Domain],
    count: int,
    leaders: int,
    size: int,
    unconstrained: bool,
    *,
    slices: bool,
) -> list[Domain]:
    """Give `count` pods to the domains in their order; the chosen ones come back, cut to what they get.

    Args:
        board: The figures, changed for the chosen domains.
        domains: The candidates in order.
        count: Pods.
        leaders: Leaders, placed first.
        size: Pods per slice.
        unconstrained: Of the pod set; decides whether the tightest fit is looked for.
        slices: Give whole slices instead of pods.

    Returns:
        The chosen domains; none if the pods do not fit, which the search before rules out.
    """
    domains = leader_first(board, domains, count, leaders, size, slices=slices)
    grain = size if slices else 1
    rest = _Rest(count // size if slices else count, leaders)
    tightest = not board.least_free(unconstrained)
    chosen: list[Domain] = []
    for at, domain in enumerate(domains):
        give = _give_with_leader if rest.leaders > 0 else _give
        taken, done = give(board, domains[at:], domain, rest, grain, tightest, slices)
        chosen.append(taken)
        if done:
            return chosen
    return []


def leader_first(
    board: Board, domains: Sequence[Domain], count: int, leaders: int, size: int, *, slices: bool
) -> Sequence[Domain]:
    """Move the first domain to the front whose hosting of the leader leaves room for all workers."""
    if leaders == 0 or len(domains) < 2:
        return domains
    needed = count // size if slices else count
    room = sum(_room(board.of(each), slices) for each in domains)
    for at, domain in enumerate(domains):
        state = board.of(domain)
        if state.leaders < leaders:
            continue
        if room - (_room(state, slices) - _room_with_leader(state, slices)) < needed:
            continue
        return [domain, *domains[:at], *domains[at + 1 :]]
    return domains


def _room(state: State, slices: bool) -> int:
    return state.slices if slices else state.pods


def _room_with_leader(state: State, slices: bool) -> int:
    return state.slices_with_leader if slices else state.pods_with_leader


def _give(
    board: Board,
    candidates: Sequence[Domain],
    domain: Domain,
    rest: _Rest,
    grain: int,
    tightest: bool,
    slices: bool,
) -> tuple[Domain, bool]:
    """Give workers to the domain, or to the tightest candidate that holds all the rest."""
    if tightest and _room(board.of(domain), slices) >= rest.amount:
        domain = board.best_fit(candidates, rest.amount, 0, slices=slices)
    state = board.of(domain)
    state.leaders = 0
    given = min(_room(state, slices), rest.amount)
    done = given == rest.amount
    state.pods = given * grain
    if slices:
        state.slices = given
    rest.amount -= given
    return domain, done


def _give_with_leader(
    board: Board,
    candidates: Sequence[Domain],
    domain: Domain,
    rest: _Rest,
    grain: int,
    tightest: bool,
    slices: bool,
) -> tuple[Domain, bool]:
    """The same while leaders remain."""
    state = board.of(domain)
    if tightest and _holds_all(state, rest, slices):
        domain = board.best_fit(candidates, rest.amount, rest.leaders, slices=slices)
        state = board.of(domain)
    if _holds_all(state, rest, slices):
        _set(state, rest.amount, rest.leaders, grain, slices)
        return domain, True
    given = min(_room_with_leader(state, slices), rest.amount)
    if slices:
        state.slices_with_leader = given
    else:
        state.pods_with_leader = given
    _set(state, given, min(state.leaders, rest.leaders), grain, slices)
    rest.leaders -= state.leaders
    rest.amount -= given
    return domain, False


def _holds_all(state: State, rest: _Rest, slices: bool) -> bool:
    return _room_with_leader(state, slices) >= rest.amount and state.leaders >= rest.leaders


def _set(state: State, amount: int, leaders: int, grain: int, slices: bool) -> None:
    if slices:
        state.slices = amount
    state.leaders = leaders
    state.pods = amount * grain
