"""Filtering and scoring with node state in columns: all nodes at a time.

What a node-local plugin said is kept per class of pods that agree in everything the plugins look
at, and only rows that changed since are asked again. So a cycle costs little more than choosing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Sequence
from operator import is_
from typing import TYPE_CHECKING, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.columns.columns import Columns, Ints
from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.framework.column_forms import (
    FilterForm,
    ScoreForm,
    StatusTable,
    verdict,
)
from controlplane.scheduler.framework.interface import (
    Code,
    NodeToStatus,
    Refusal,
    Status,
    StatusError,
    error,
)
from controlplane.scheduler.framework.node_search import preorder_ranks
from controlplane.scheduler.framework.runtime import check_scores, normalize_failed
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.snapshot import ChangeReader
from controlplane.sharing.memory import IdentityCache

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.framework.fit_error import Diagnosis
    from controlplane.scheduler.framework.runtime import Framework

T = TypeVar("T")

_CLASSES = 256
_FEW = 24
"""The maximum number of changed rows that are asked one by one."""


class RowStatuses(NodeToStatus):
    """Statuses of a failed search as numbers; objects and names are made only when read."""

    __slots__ = ("_ids", "_made", "_names", "_rows", "_table")

    def __init__(
        self, infos: list[NodeInfo], rows: Ints, ids: NDArray[np.int32], table: StatusTable
    ) -> None:
        """`rows` in the order of the search, `ids` their status numbers, none of them 0."""
        super().__init__()
        self._made: dict[str, Status] | None = None
        self._names = infos
        self._rows = rows
        self._ids = ids
        self._table = table

    @property
    def statuses(self) -> dict[str, Status]:
        """A dict of all, made at first use."""
        if self._made is None:
            known, infos = self._table.statuses, self._names
            self._made = {}
            for row, number in zip(self._rows.tolist(), self._ids.tolist()):
                status = known[number]
                assert status is not None
                self._made[infos[row].name] = status
        return self._made

    @statuses.setter
    def statuses(self, value: dict[str, Status]) -> None:
        self._made = value or None

    def __len__(self) -> int:
        return len(self._rows) if self._made is None else len(self._made)

    def reason_counts(self) -> dict[str, int]:
        """Return the number of nodes by reason."""
        if self._made is not None:
            return super().reason_counts()
        counts: dict[str, int] = {}
        for number, count in enumerate(np.bincount(self._ids).tolist()):
            status = self._table.statuses[number]
            if count and status is not None:
                for reason in status.reasons:
                    counts[reason] = counts.get(reason, 0) + count
        return counts

    def with_code(self, code: Code) -> list[str]:
        """Nodes with exactly this code, in the order of the search."""
        if self._made is not None:
            return super().with_code(code)
        wanted = np.array([s is not None and s.code == code for s in self._table.statuses])
        return [self._names[row].name for row in self._rows[wanted[self._ids]].tolist()]

    def count_code(self, code: Code) -> int:
        """Return the number of nodes with exactly this code."""
        if self._made is not None:
            return super().count_code(code)
        wanted = np.array([s is not None and s.code == code for s in self._table.statuses])
        return int(np.count_nonzero(wanted[self._ids]))

    def refusals(self, limit: int) -> list[Refusal]:
        """Each status once, with how many nodes have it and the names of the first `limit` of them."""
        if self._made is not None:
            return super().refusals(limit)
        out: list[Refusal] = []
        for status in self.by_first_occurrence():
            rows = self._rows[self._ids == self._table.id_of(status)]
            names = [self._names[row].name for row in rows[:limit].tolist()]
            out.append(Refusal(status, len(rows), names))
        return out

    def by_first_occurrence(self) -> list[Status]:
        """Each distinct status once, in the order in which the search met them."""
        # The last write wins, so going backwards leaves the first position of every number.
        first = np.full(len(self._table.statuses), -1, np.int64)
        first[self._ids[::-1]] = np.arange(len(self._ids) - 1, -1, -1)
        met = sorted((at, number) for number, at in enumerate(first.tolist()) if at >= 0)
        found = (self._table.statuses[number] for _, number in met)
        return [status for status in found if status is not None]


class CountedStatuses(NodeToStatus):
    """Of a search that found nodes only the number of failed ones is wanted."""

    __slots__ = ("_count",)

    def __init__(self, count: int, absent: Status) -> None:
        super().__init__(absent=absent)
        self._count = count

    def __len__(self) -> int:
        return self._count


Nominated = dict[tuple[int, int], tuple[int, list["Pod"], int]]


class _FilterClass:
    """Status numbers of the node-local filters for pods of one class.

    `nominated` has, by row and priority, what was said with nominated pods counted in: the
    generation of the node, those pods, and the number.
    """

    __slots__ = ("ids", "nominated", "passing", "reader")

    def __init__(self) -> None:
        self.nominated: Nominated = {}
        self.reader = ChangeReader()
        self.ids: NDArray[np.int32] = np.zeros(0, np.int32)
        self.passing: Ints | None = None


class _ScoreClass:
    """Scores of the node-local plugins for pods of one class.

    `raw` holds what each said, `plain` the weighted sum of those without a normaliser; `zero` names
    those with one that said 0 everywhere.
    """

    __slots__ = ("plain", "raw", "reader", "zero")

    def __init__(self) -> None:
        self.reader = ChangeReader()
        self.plain: Ints = np.zeros(0, np.int64)
        self.raw: dict[str, Ints] = {}
        self.zero: dict[str, None] = {}


class _FilterPlan:
    """Filters for a spec, by the form of their answer; answers of the node-local ones if the spec tells the class."""

    __slots__ = ("cluster", "kept", "local", "others", "position")

    def __init__(
        self, framework: Framework, skipped: Collection[str], anew: Collection[str]
    ) -> None:
        running = [
            attrs.evolve(form, local=None) if form.plugin.name in anew else form
            for form in framework.filter_forms
            if form.plugin.name not in skipped
        ]
        self.local = [form.local for form in running if form.local is not None]
        self.cluster = [form.cluster for form in running if form.cluster is not None]
        self.others = [form.plugin for form in running if _answers_by_node(form)]
        self.position = {form.plugin.name: i for i, form in enumerate(framework.filter_forms)}
        """The first plugin in the profile's order decides about a node."""
        self.kept: _FilterClass | None = None


def _answers_by_node(form: FilterForm) -> bool:
    return form.local is None and form.cluster is None


class _ScorePlan:
    """Scorers that run for a spec; answers of the node-local ones, if the spec tells the class."""

    __slots__ = ("kept", "local", "running")

    def __init__(
        self, framework: Framework, skipped: Collection[str], anew: Collection[str]
    ) -> None:
        self.running = [
            attrs.evolve(form, local=None) if form.plugin.name in anew else form
            for form in framework.score_forms
            if form.plugin.name not in skipped
        ]
        self.local = [(form, form.local) for form in self.running if form.local is not None]
        self.kept: _ScoreClass | None = None


class FilterFailed(Exception):
    """A filter failed with an error; the search ends there.

    `feasible` nodes had been found and `refused` ones met by then.
    """

    def __init__(self, status: Status, feasible: int, refused: int) -> None:
        super().__init__(status.message)
        self.status = status
        self.feasible = feasible
        self.refused = refused


@attrs.frozen
class PluginScores:
    """Scores of one plugin over the scored nodes, before and after its normaliser."""

    plugin: str
    raw: Ints
    final: Ints
    weighted: Ints
    """The weighted scores that make up the total."""


class Evaluation:
    """Asks plugins about all nodes, and keeps between cycles what they said about unchanged ones."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.table = StatusTable()
        self._filters: OrderedDict[Hashable, _FilterClass] = OrderedDict()
        self._scores: OrderedDict[Hashable, _ScoreClass] = OrderedDict()
        self._ranks: dict[int, Ints] = {}
        self._filter_plans: IdentityCache[_FilterPlan] = IdentityCache("filter plans", _CLASSES)
        self._score_plans: IdentityCache[_ScorePlan] = IdentityCache("score plans", _CLASSES)

    # -- filter --------------------------------------------------------------------------------

    def find(self, attempt: Attempt, diagnosis: Diagnosis, start: int, wanted: int) -> Rows:
        """Nodes that pass, in the order of the search; why others do not goes into `diagnosis`.

        The search begins at row `start` and ends when one feasible node more than `wanted` is met,
        which does not count. Raises FilterFailed.
        """
        ids, passing = self._numbers(attempt, start, wanted)
        infos = self.columns.infos
        count = len(infos)
        cut = int(passing.searchsorted(start)) if start else 0
        found, examined, total = passing, count, len(passing)
        if total > wanted:
            end = cut + wanted
            examined = (int(passing[end % total]) - start) % count
            # Only what is wanted is copied, and only where the search goes around.
            found = passing[cut:end]
            if end > total:
                found = np.concatenate((found, passing[: end - total]))
        elif cut:
            found = np.concatenate((passing[cut:], passing[:cut]))
        tried = diagnosis.node_to_status
        if self.table.errors:
            self._stop_at_error(ids, start, examined, tried)
        absent = tried.absent
        before = [self.columns.snapshot.row_of[name] for name, _ in tried.items()]
        if len(found):
            # A node that was tried before the search counts once.
            again = sum(1 for row in before if ids[row] == 0 or (row - start) % count >= examined)
            diagnosis.node_to_status = CountedStatuses(examined - len(found) + again, absent)
            return Rows(infos, found)
        order = np.arange(start, start + count) % count
        if before:
            order = np.concatenate((np.array(before), order[~np.isin(order, before)]))
        statuses = RowStatuses(infos, order, ids[order], self.table)
        statuses.absent = absent
        diagnosis.node_to_status = statuses
        for status in statuses.by_first_occurrence():
            diagnosis.add_plugin_status(status)
        return Rows(infos, found)

    def _numbers(self, attempt: Attempt, start: int, wanted: int) -> tuple[NDArray[np.int32], Ints]:
        """Status numbers of all rows, and the rows that pass."""
        plan = self._filter_plan(attempt)
        kept = self._filter_class(attempt, plan)
        nominated = attempt.framework.handle.nominated_nodes()
        if not (plan.cluster or plan.others or nominated):
            if kept.passing is None:
                kept.passing = np.flatnonzero(kept.ids == 0)
            return kept.ids, kept.passing
        local_only = plan.kept is not None and not plan.cluster and not plan.others
        known = kept.nominated if local_only else None
        ids = self._combine(attempt, kept.ids, plan, nominated, known)
        if plan.others:
            ids = self._ask_others(attempt, ids, plan, start, wanted)
        if ids is kept.ids:
            if kept.passing is None:
                kept.passing = np.flatnonzero(ids == 0)
            return ids, kept.passing
        return ids, np.flatnonzero(ids == 0)

    def _stop_at_error(
        self, ids: NDArray[np.int32], start: int, examined: int, tried: NodeToStatus
    ) -> None:
        """Raise FilterFailed when the search meets an error."""
        order = np.arange(start, start + examined) % len(ids)
        wrong = np.flatnonzero(np.isin(ids[order], self.table.errors))
        if not len(wrong):
            return
        met = order[: int(wrong[0])]
        status = self.table.statuses[int(ids[order[wrong[0]]])]
        assert status is not None
        feasible = int(np.count_nonzero(ids[met] == 0))
        refused = {self.columns.infos[row].name for row in met[ids[met] != 0].tolist()}
        refused.update(name for name, _ in tried.items())
        raise FilterFailed(status, feasible, len(refused))

    def _filter_plan(self, attempt: Attempt) -> _FilterPlan:
        framework, spec, skipped = attempt.framework, attempt.pod.spec, attempt.state.skip_filter
        anew = attempt.state.anew
        key = (framework.profile, frozenset(skipped), anew)
        plan = self._filter_plans.get(spec, key)
        return plan or self._filter_plans.put(spec, _FilterPlan(framework, skipped, anew), key)

    def _filter_class(self, attempt: Attempt, plan: _FilterPlan) -> _FilterClass:
        state, pod, columns = attempt.state, attempt.pod, self.columns
        plugins, kept = plan.local, plan.kept
        if kept is None:
            parts = tuple((plugin.name, plugin.filter_key(state, pod)) for plugin in plugins)
            key = (attempt.framework.profile, parts)
            kept = _recall(self._filters, key)
            if kept is None:
                kept = self._filters[key] = _FilterClass()
            if all(plugin.keyed_by_spec for plugin in plugins):
                plan.kept = kept
        rows = kept.reader.changed(columns.snapshot)
        if rows == []:
            return kept
        table = self.table
        if rows is None or len(rows) > _FEW:
            ids: NDArray[np.int32] = np.zeros(columns.size, np.int32)
            for plugin in plugins:
                said = plugin.filter_all(state, pod, columns, table)
                if said is not None:
                    ids = np.where(ids == 0, said, ids)
            kept.ids = ids
            kept.passing = None
            return kept
        infos, ids = columns.infos, kept.ids
        for row in rows:
            node = infos[row]
            number = 0
            for plugin in plugins:
                status = plugin.filter(state, pod, node)
                if status is not None:
                    number = table.id_of(verdict(plugin.name, status))
                    break
            before = ids[row]
            if before != number:
                ids[row] = number
                if (before == 0) != (number == 0):
                    kept.passing = None
        return kept

    def _ask_others(
        self,
        attempt: Attempt,
        ids: NDArray[np.int32],
        plan: _FilterPlan,
        start: int,
        wanted: int,
    ) -> NDArray[np.int32]:
        """Ask plugins that answer node by node only, as far as the search goes.

        Nodes beyond its end keep their numbers.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        snapshot, table, position = self.columns.snapshot, self.table, plan.position
        infos, count = self.columns.infos, self.columns.size
        last = len(position)
        ranks = [last if s is None else position[s.plugin] for s in table.statuses]
        final = {snapshot.row_of.get(name) for name in framework.handle.nominated_nodes()}
        ids = ids.copy()
        known = ids.tolist()
        feasible = 0
        said, author, number = None, None, 0
        for offset in range(count):
            row = (start + offset) % count
            rank = ranks[known[row]]
            for plugin in () if row in final else plan.others:
                if position[plugin.name] > rank:
                    break
                status = plugin.filter(state, pod, infos[row])
                if status is not None:
                    if status is not said or plugin is not author:  # most are the same
                        said, author = status, plugin
                        number = table.id_of(verdict(plugin.name, status))
                    known[row] = ids[row] = number
                    break
            if known[row] == 0:
                feasible += 1
                if feasible > wanted:
                    break
            elif known[row] in table.errors:
                break
        return ids

    def _combine(
        self,
        attempt: Attempt,
        ids: NDArray[np.int32],
        plan: _FilterPlan,
        nominated: Sequence[str],
        known: Nominated | None,
    ) -> NDArray[np.int32]:
        """Add what plugins say that look at the whole cluster, and nodes with nominated pods.

        The same array where that changes nothing.

        `known` remembers the latter, where pods of the class get the same answer.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        snapshot, table, position = self.columns.snapshot, self.table, plan.position
        for plugin in plan.cluster:
            said = plugin.filter_cluster(state, pod, self.columns, table)
            if said is None:
                continue
            ranks = np.array(
                [len(position) if s is None else position[s.plugin] for s in table.statuses],
                np.int64,
            )
            ids = np.where((said != 0) & (ranks[ids] > position[plugin.name]), said, ids)
        rows = [row for name in nominated if (row := snapshot.row_of.get(name)) is not None]
        if rows:
            numbers: dict[int, int] = {}
            priority = pod.spec.priority or 0
            for row in rows:
                node = snapshot.node_info_list[row]
                expected = [info.pod for info in framework.handle.nominated_pods(node.name)]
                # A pod is not in its own way, so what was said about others does not hold for it.
                shared = known is not None and all(other.uid != pod.uid for other in expected)
                if known is not None and shared:
                    said_before = known.get((row, priority))
                    if (
                        said_before is not None
                        and said_before[0] == node.generation
                        and len(said_before[1]) == len(expected)
                        and all(map(is_, said_before[1], expected))
                    ):
                        numbers[row] = said_before[2]
                        continue
                number = table.id_of(framework.run_filter_with_nominated_pods(state, pod, node))
                numbers[row] = number
                if known is not None and shared:
                    known[row, priority] = (node.generation, expected, number)
            changed = [(row, number) for row, number in numbers.items() if ids[row] != number]
            if changed:
                ids = ids.copy()
                for row, number in changed:
                    ids[row] = number
        return ids

    # -- score ---------------------------------------------------------------------------------

    def totals(self, attempt: Attempt, nodes: Rows) -> Ints:
        """Total score per node. PreScore has run. Raises StatusError."""
        plan = self._score_plan(attempt)
        kept = self._score_class(attempt, plan)
        totals: Ints = kept.plain[nodes.rows]
        for form in plan.running:
            if form.local is not None:
                if form.normalizer is None:
                    continue
                if form.plugin.name in kept.zero and form.rows is not None:
                    same = form.rows.normalized_zero()
                    if same is not None:
                        if same:
                            totals += same * form.weight
                        continue
            totals += self._scores_of(attempt, nodes, form, kept).weighted
        return totals

    def scores(self, attempt: Attempt, nodes: Rows) -> list[PluginScores]:
        """Return the scores of every plugin for the nodes. PreScore has run. Raises StatusError."""
        plan = self._score_plan(attempt)
        kept = self._score_class(attempt, plan)
        return [self._scores_of(attempt, nodes, form, kept) for form in plan.running]

    def _scores_of(
        self, attempt: Attempt, nodes: Rows, form: ScoreForm, kept: _ScoreClass
    ) -> PluginScores:
        state, pod, plugin = attempt.state, attempt.pod, form.plugin
        raw: Ints
        if form.local is not None:
            raw = kept.raw[plugin.name][nodes.rows]
        elif form.cluster is not None:
            raw = form.cluster.score_rows(state, pod, self.columns, nodes.rows)
        else:
            try:
                raw = np.array([plugin.score(state, pod, node) for node in nodes], np.int64)
            except StatusError as failed:
                raise _score_failed(plugin.name, failed) from failed
        final = raw
        if form.rows is not None:
            final = form.rows.normalize_rows(state, pod, raw)
        elif form.normalizer is not None:
            scores = raw.tolist()
            status = form.normalizer.normalize(state, pod, nodes, scores)
            if status is not None:
                normalize_failed(plugin.name, status)
            final = np.array(scores, np.int64)
        _check_range(plugin.name, final)
        return PluginScores(plugin.name, raw, final, final * form.weight)

    def _score_plan(self, attempt: Attempt) -> _ScorePlan:
        framework, spec, skipped = attempt.framework, attempt.pod.spec, attempt.state.skip_score
        anew = attempt.state.anew
        key = (framework.profile, frozenset(skipped), anew)
        plan = self._score_plans.get(spec, key)
        return plan or self._score_plans.put(spec, _ScorePlan(framework, skipped, anew), key)

    def _score_class(self, attempt: Attempt, plan: _ScorePlan) -> _ScoreClass:
        state, pod, columns = attempt.state, attempt.pod, self.columns
        forms, kept = plan.local, plan.kept
        if kept is None:
            parts = tuple((plugin.name, plugin.score_key(state, pod)) for _, plugin in forms)
            key = (attempt.framework.profile, parts)
            kept = _recall(self._scores, key)
            if kept is None:
                kept = self._scores[key] = _ScoreClass()
            if all(plugin.keyed_by_spec for _, plugin in forms):
                plan.kept = kept
        rows = kept.reader.changed(columns.snapshot)
        if rows is None or len(rows) > _FEW:
            kept.plain = np.zeros(columns.size, np.int64)
            kept.zero.clear()
            for form, plugin in forms:
                try:
                    raw = kept.raw[plugin.name] = plugin.score_all(state, pod, columns)
                except StatusError as failed:
                    kept.reader = ChangeReader()
                    raise _score_failed(plugin.name, failed) from failed
                if form.normalizer is None:
                    _check_range(plugin.name, raw)
                    kept.plain += raw * form.weight
                elif not raw.any():
                    kept.zero[plugin.name] = None
            return kept
        infos = columns.infos
        for row in rows:
            node, plain = infos[row], 0
            for form, plugin in forms:
                try:
                    score = plugin.score(state, pod, node)
                except StatusError as failed:
                    kept.reader = ChangeReader()
                    raise _score_failed(plugin.name, failed) from failed
                kept.raw[plugin.name][row] = score
                if form.normalizer is None:
                    plain += score * form.weight
                elif score and plugin.name in kept.zero:
                    del kept.zero[plugin.name]
            kept.plain[row] = plain
        return kept

    def best(self, totals: Ints) -> int:
        """Index of the node that upstream's heap would give first (see node_search)."""
        first = int(totals.argmax())
        if first == 0:
            return 0
        candidates = (totals == totals[first]).nonzero()[0]
        if len(candidates) == 1:
            return int(candidates[0])
        size = len(totals)
        ranks = self._ranks.get(size)
        if ranks is None:
            if len(self._ranks) > 64:
                self._ranks.clear()
            ranks = self._ranks[size] = np.array(preorder_ranks(size), np.int64)
        return int(candidates[ranks[candidates].argmin()])


def _score_failed(plugin: str, failed: StatusError) -> StatusError:
    message = f'plugin "{plugin}" failed with: {failed.status.message}'
    return StatusError(error(message).by(plugin))


def _check_range(plugin: str, scores: Ints) -> None:
    if len(scores) and (scores.min() < 0 or scores.max() > 100):
        check_scores(plugin, scores.tolist())


def _recall(kept: OrderedDict[Hashable, T], key: Hashable) -> T | None:
    found = kept.get(key)
    if found is not None:
        kept.move_to_end(key)
    elif len(kept) >= _CLASSES:
        kept.popitem(last=False)
    return found
