"""Filtering and scoring with node state in columns: the same decisions, all nodes at a time.

What a node-local plugin said is kept per class of pods that agree in everything the plugins look
at, and only rows that changed since are asked again. So a cycle costs little more than choosing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, TypeGuard, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.columns.columns import Columns, Ints
from controlplane.scheduler.framework.column_forms import (
    ClusterFilter,
    ClusterScore,
    NodeLocalFilter,
    NodeLocalScore,
    NormalizeRows,
    StatusTable,
)
from controlplane.scheduler.framework.interface import (
    Code,
    FilterPlugin,
    NodeToStatus,
    NormalizeScorePlugin,
    Refusal,
    Status,
)
from controlplane.scheduler.framework.node_search import preorder_ranks
from controlplane.scheduler.framework.runtime import check_scores, normalize_failed
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.snapshot import ChangeReader, Snapshot

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.framework.fit_error import Diagnosis
    from controlplane.scheduler.framework.runtime import Framework

T = TypeVar("T")

_CLASSES = 256
_FEW = 24
"""Up to so many changed rows are asked one by one."""


class Rows(Sequence[NodeInfo]):
    """Nodes of the snapshot, given by their rows."""

    __slots__ = ("infos", "rows")

    def __init__(self, infos: list[NodeInfo], rows: Ints) -> None:
        self.infos = infos
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> NodeInfo: ...
    @overload
    def __getitem__(self, index: slice) -> list[NodeInfo]: ...
    def __getitem__(self, index: int | slice) -> NodeInfo | list[NodeInfo]:
        if isinstance(index, slice):
            return [self.infos[row] for row in self.rows[index]]
        return self.infos[int(self.rows[index])]

    def __iter__(self) -> Iterator[NodeInfo]:
        infos = self.infos
        return (infos[row] for row in self.rows.tolist())


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
        """How often each reason was given."""
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
        """How many nodes have exactly this code."""
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

    `plain` is the weighted sum of those without a normaliser; `raw` holds the others' numbers, and
    `zero` names those of them that are 0 everywhere.
    """

    __slots__ = ("plain", "raw", "reader", "zero")

    def __init__(self) -> None:
        self.reader = ChangeReader()
        self.plain: Ints = np.zeros(0, np.int64)
        self.raw: dict[str, Ints] = {}
        self.zero: dict[str, None] = {}


class _FilterPlan:
    """Which filters run for a spec, by how they answer; what the node-local ones said, if the spec tells the class."""

    __slots__ = ("cluster", "kept", "local", "others", "spec")

    def __init__(self, framework: Framework, spec: object, skipped: Collection[str]) -> None:
        self.spec = spec
        self.local: list[NodeLocalFilter] = []
        self.cluster: list[ClusterFilter] = []
        self.others: list[FilterPlugin] = []
        self.kept: _FilterClass | None = None
        for plugin in framework.plugins.filter:
            if plugin.name in skipped:
                continue
            if isinstance(plugin, NodeLocalFilter):
                self.local.append(plugin)
            elif isinstance(plugin, ClusterFilter):
                self.cluster.append(plugin)
            else:
                self.others.append(plugin)


class _ScorePlan:
    """Which scorers run for a spec; what the node-local ones said, if the spec tells the class."""

    __slots__ = ("kept", "local", "running", "spec")

    def __init__(self, framework: Framework, spec: object, skipped: Collection[str]) -> None:
        self.spec = spec
        self.running = [p for p in framework.plugins.score if p.name not in skipped]
        self.local = [plugin for plugin in self.running if isinstance(plugin, NodeLocalScore)]
        self.kept: _ScoreClass | None = None


class FastPath:
    """What is kept between cycles for one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.columns = Columns()
        self.table = StatusTable()
        self._filters: OrderedDict[Hashable, _FilterClass] = OrderedDict()
        self._scores: OrderedDict[Hashable, _ScoreClass] = OrderedDict()
        self._ranks: dict[int, Ints] = {}
        self._filter_plans: dict[Hashable, _FilterPlan] = {}
        self._score_plans: dict[Hashable, _ScorePlan] = {}

    # -- filter --------------------------------------------------------------------------------

    def find(self, attempt: Attempt, diagnosis: Diagnosis, start: int, wanted: int) -> Rows | None:
        """Nodes that pass, in the order of the search; None when it has to be done one by one."""
        framework = attempt.framework
        if len(diagnosis.node_to_status):
            return None
        plan = self._filter_plan(attempt)
        cluster, others = plan.cluster, plan.others
        kept = self._filter_class(attempt, plan)
        ids = kept.ids
        nominated = framework.handle.nominated_nodes()
        if cluster or nominated:
            local_only = plan.kept is not None and not cluster and not others
            known = kept.nominated if local_only else None
            combined = self._combine(attempt, ids, cluster, nominated, known)
            if combined is None:
                return None
            ids = combined
            passing = np.flatnonzero(ids == 0)
        else:
            if kept.passing is None:
                kept.passing = np.flatnonzero(ids == 0)
            passing = kept.passing
        infos = self.snapshot.node_info_list
        count = len(infos)
        if others:
            asked = self._ask_others(attempt, ids, others, start, wanted)
            if asked is None:
                return None
            ids = asked
            passing = np.flatnonzero(ids == 0)
        cut = int(passing.searchsorted(start)) if start else 0
        found = np.concatenate((passing[cut:], passing[:cut])) if cut else passing
        processed = count
        if len(found) > wanted:
            processed = (int(found[wanted]) - start) % count
            found = found[:wanted]
        absent = diagnosis.node_to_status.absent
        if len(found):
            diagnosis.node_to_status = CountedStatuses(processed - len(found), absent)
        else:
            examined = np.arange(start, start + count) % count
            statuses = RowStatuses(infos, examined, ids[examined], self.table)
            statuses.absent = absent
            diagnosis.node_to_status = statuses
            for status in statuses.by_first_occurrence():
                diagnosis.add_plugin_status(status)
        return Rows(infos, found)

    def _filter_plan(self, attempt: Attempt) -> _FilterPlan:
        framework, spec, skipped = attempt.framework, attempt.pod.spec, attempt.state.skip_filter
        key = (framework.profile, id(spec), frozenset(skipped))
        plan = self._filter_plans.get(key)
        if plan is None:
            if len(self._filter_plans) >= _CLASSES:
                self._filter_plans.clear()
            plan = self._filter_plans[key] = _FilterPlan(framework, spec, skipped)
        return plan

    def _filter_class(self, attempt: Attempt, plan: _FilterPlan) -> _FilterClass:
        state, pod, snapshot = attempt.state, attempt.pod, self.snapshot
        plugins, kept = plan.local, plan.kept
        if kept is None:
            parts = tuple((plugin.name, plugin.filter_key(state, pod)) for plugin in plugins)
            key = (attempt.framework.profile, parts)
            kept = _recall(self._filters, key)
            if kept is None:
                kept = self._filters[key] = _FilterClass()
            if all(plugin.keyed_by_spec for plugin in plugins):
                plan.kept = kept
        rows = kept.reader.changed(snapshot)
        if rows == []:
            return kept
        table = self.table
        if rows is None or len(rows) > _FEW:
            ids: NDArray[np.int32] = np.zeros(len(snapshot), np.int32)
            for plugin in plugins:
                said = plugin.filter_all(state, pod, snapshot, self.columns, table)
                if said is not None:
                    ids = np.where(ids == 0, said, ids)
            kept.ids = ids
            kept.passing = None
            return kept
        infos, ids = snapshot.node_info_list, kept.ids
        for row in rows:
            node = infos[row]
            number = 0
            for plugin in plugins:
                status = plugin.filter(state, pod, node)
                if status is not None:
                    number = table.id_of(status.by(plugin.name))
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
        others: list[FilterPlugin],
        start: int,
        wanted: int,
    ) -> NDArray[np.int32] | None:
        """Ask plugins that answer node by node only, as far as the search goes.

        Nodes beyond its end keep their numbers; None when a plugin fails with an error.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        snapshot, table = self.snapshot, self.table
        infos, count = snapshot.node_info_list, len(snapshot)
        position = {plugin.name: i for i, plugin in enumerate(framework.plugins.filter)}
        last = len(position)
        ranks = [last if s is None else position[s.plugin] for s in table.statuses]
        final = {snapshot.row_of.get(name) for name in framework.handle.nominated_nodes()}
        ids = ids.copy()
        known = ids.tolist()
        feasible = 0
        for offset in range(count):
            row = (start + offset) % count
            rank = ranks[known[row]]
            for plugin in () if row in final else others:
                if position[plugin.name] > rank:
                    break
                status = plugin.filter(state, pod, infos[row])
                if status is not None:
                    if not status.is_rejected:
                        return None
                    known[row] = ids[row] = table.id_of(status.by(plugin.name))
                    break
            if known[row] == 0:
                feasible += 1
                if feasible > wanted:
                    break
        return ids

    def _combine(
        self,
        attempt: Attempt,
        ids: NDArray[np.int32],
        cluster: list[ClusterFilter],
        nominated: Sequence[str],
        known: Nominated | None,
    ) -> NDArray[np.int32] | None:
        """Add what plugins say that look at the whole cluster, and nodes with nominated pods.

        `known` remembers the latter, where pods of the class get the same answer.
        """
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        snapshot, table = self.snapshot, self.table
        position = {plugin.name: i for i, plugin in enumerate(framework.plugins.filter)}
        for plugin in cluster:
            said = plugin.filter_cluster(state, pod, snapshot, self.columns, table)
            if said is None:
                continue
            # The first plugin in the profile's order decides.
            ranks = np.array(
                [len(position) if s is None else position[s.plugin] for s in table.statuses],
                np.int64,
            )
            ids = np.where((said != 0) & (ranks[ids] > position[plugin.name]), said, ids)
        rows = [row for name in nominated if (row := snapshot.row_of.get(name)) is not None]
        if rows:
            ids = ids.copy()
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
                        ids[row] = said_before[2]
                        continue
                status = framework.run_filter_with_nominated_pods(state, pod, node)
                if status is not None and status.code == Code.ERROR:
                    return None
                number = table.id_of(status)
                ids[row] = number
                if known is not None and shared:
                    known[row, priority] = (node.generation, expected, number)
        return ids

    # -- score ---------------------------------------------------------------------------------

    def has_rows(self, nodes: Sequence[NodeInfo]) -> TypeGuard[Rows]:
        """Whether the nodes were found by this path."""
        return isinstance(nodes, Rows)

    def totals(self, attempt: Attempt, nodes: Rows) -> Ints:
        """Total score per node. PreScore has run. Raises StatusError."""
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        rows = nodes.rows
        plan = self._score_plan(attempt)
        kept = self._score_class(attempt, plan)
        totals = kept.plain[rows]
        for plugin in plan.running:
            name = plugin.name
            if isinstance(plugin, NodeLocalScore):
                if name not in kept.raw:
                    continue
                if name in kept.zero and isinstance(plugin, NormalizeRows):
                    same = plugin.normalized_zero()
                    if same is not None:
                        if same:
                            totals += same * framework.weights.get(name, 1)
                        continue
                raw = kept.raw[name][rows]
            elif isinstance(plugin, ClusterScore):
                raw = plugin.score_rows(state, pod, self.snapshot, self.columns, rows)
            else:
                raw = np.array([plugin.score(state, pod, node) for node in nodes], np.int64)
            if isinstance(plugin, NormalizeRows):
                raw = plugin.normalize_rows(state, pod, rows, raw)
            elif isinstance(plugin, NormalizeScorePlugin):
                scores = raw.tolist()
                status = plugin.normalize(state, pod, nodes, scores)
                if status is not None:
                    normalize_failed(name, status)
                raw = np.array(scores, np.int64)
            _check_range(name, raw)
            totals += raw * framework.weights.get(name, 1)
        return totals

    def _score_plan(self, attempt: Attempt) -> _ScorePlan:
        framework, spec, skipped = attempt.framework, attempt.pod.spec, attempt.state.skip_score
        key = (framework.profile, id(spec), frozenset(skipped))
        plan = self._score_plans.get(key)
        if plan is None:
            if len(self._score_plans) >= _CLASSES:
                self._score_plans.clear()
            plan = self._score_plans[key] = _ScorePlan(framework, spec, skipped)
        return plan

    def _score_class(self, attempt: Attempt, plan: _ScorePlan) -> _ScoreClass:
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        plugins, kept = plan.local, plan.kept
        if kept is None:
            parts = tuple((plugin.name, plugin.score_key(state, pod)) for plugin in plugins)
            key = (framework.profile, parts)
            kept = _recall(self._scores, key)
            if kept is None:
                kept = self._scores[key] = _ScoreClass()
            if all(plugin.keyed_by_spec for plugin in plugins):
                plan.kept = kept
        snapshot = self.snapshot
        rows = kept.reader.changed(snapshot)
        if rows is None or len(rows) > _FEW:
            kept.plain = np.zeros(len(snapshot), np.int64)
            kept.zero.clear()
            for plugin in plugins:
                raw = plugin.score_all(state, pod, snapshot, self.columns)
                if isinstance(plugin, NormalizeScorePlugin):
                    kept.raw[plugin.name] = raw
                    if not raw.any():
                        kept.zero[plugin.name] = None
                else:
                    _check_range(plugin.name, raw)
                    kept.plain += raw * framework.weights.get(plugin.name, 1)
            return kept
        infos = snapshot.node_info_list
        for row in rows:
            node, plain = infos[row], 0
            for plugin in plugins:
                score = plugin.score(state, pod, node)
                if plugin.name in kept.raw:
                    if score and plugin.name in kept.zero:
                        del kept.zero[plugin.name]
                    kept.raw[plugin.name][row] = score
                else:
                    plain += score * framework.weights.get(plugin.name, 1)
            kept.plain[row] = plain
        return kept

    def best(self, totals: Ints) -> int:
        """Index of the node that upstream's heap would give first (see node_search)."""
        highest = totals.max()
        if totals[0] == highest:
            return 0
        candidates = np.flatnonzero(totals == highest)
        if len(candidates) == 1:
            return int(candidates[0])
        size = len(totals)
        ranks = self._ranks.get(size)
        if ranks is None:
            if len(self._ranks) > 64:
                self._ranks.clear()
            ranks = self._ranks[size] = np.array(preorder_ranks(size), np.int64)
        return int(candidates[ranks[candidates].argmin()])


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
