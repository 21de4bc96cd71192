"""Trimaran: scores by the measured load of nodes.

Upstream: pkg/trimaran (targetloadpacking, loadvariationriskbalancing, lowriskovercommitment, peaks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_integers import int64
from controlplane.api.go_math import go_exp
from controlplane.client.resources import Resource
from controlplane.scheduler.community import beta
from controlplane.scheduler.community.args import ArgsError, arguments
from controlplane.scheduler.community.load import (
    AVERAGE,
    CPU,
    LATEST,
    MEMORY,
    Emulated,
    Load,
    Metric,
    Stats,
    effective,
    milli,
    stats_of,
)
from controlplane.scheduler.community.scores import MOST, as_int64
from controlplane.scheduler.framework.custom import CustomKind
from controlplane.scheduler.framework.interface import (
    NormalizeScorePlugin,
    PreScorePlugin,
    ScorePlugin,
)

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import Status
    from controlplane.scheduler.state.node_info import NodeInfo

VARIANCE_SHARE: Final = 0.99
"""The share of the largest possible variance that a fitted one may have."""


def _round(value: float) -> int:
    """Return the nearest whole number, halves away from zero, as Go rounds."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _capacity(node: NodeInfo) -> float:
    assert node.node is not None
    return float(milli(((node.node.tree.get("status") or {}).get("capacity") or {}).get("cpu")))


class _Trimaran(ScorePlugin):
    """Common parts of the plugins: arguments, and the source of figures."""

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        self._args = arguments(self.name, args)
        self.load: Load = Emulated(handle)
        kinds = {} if handle.usage is None else handle.usage.kinds
        self.custom = tuple(CustomKind(kind, Resource(*name)) for kind, name in kinds.items())


class TargetLoadPacking(_Trimaran):
    """Packs nodes up to a target utilization of CPU, and spreads pods beyond it."""

    name = "TargetLoadPacking"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._target = float(self._args["TargetUtilization"])
        self._default = milli(self._args["DefaultRequests"].get("cpu"))
        self._multiplier = float(self._args["DefaultRequestsMultiplier"])

    def _predicted(self, pod: Tree) -> int:
        total = 0
        for each in pod["spec"].get("containers") or ():
            resources = each.get("resources") or {}
            limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
            if "cpu" in limits:
                total += milli(limits["cpu"])
            elif "cpu" in requests:
                total += _round(milli(requests["cpu"]) * self._multiplier)
            else:
                total += self._default
        return total + milli((pod["spec"].get("overhead") or {}).get("cpu"))

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100."""
        metrics = self.load.metrics(node)
        found = [
            each.value
            for each in metrics or ()
            if each.type == CPU and each.operator in (AVERAGE, LATEST)
        ]
        if not found:
            return 0
        capacity = _capacity(node)
        missing = sum(self._predicted(each) for each in self.load.unmeasured(node))
        used = found[-1] / 100 * capacity
        asked = float(self._predicted(pod.tree))
        predicted = 100 * (used + asked + missing) / capacity if capacity else 0.0
        if predicted > 100:
            return 0
        if predicted > self._target:
            return _round(self._target * (100 - predicted) / (100 - self._target))
        return _round((100 - self._target) * predicted / self._target + self._target)


class LoadVariationRiskBalancing(_Trimaran):
    """Balances the risk that mean and deviation of the load stand for."""

    name = "LoadVariationRiskBalancing"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100."""
        metrics = self.load.metrics(node)
        if not metrics:
            return 0
        asked = effective(pod.tree, "requests")
        found = [stats_of(metrics, node, asked, kind) for kind in (CPU, MEMORY)]
        scores = [0.0 if each is None else self._risk_score(each) for each in found]
        return _round(max(scores) if None in found else min(scores))

    def _risk_score(self, stats: Stats) -> float:
        if stats.capacity <= 0:
            return 0.0
        bounded = Stats(
            stats.capacity,
            max(stats.asked, 0),
            max(min(stats.mean, stats.capacity), 0),
            max(min(stats.deviation, stats.capacity), 0),
        )
        mean, deviation = bounded.fractions()
        sensitivity = self._args["SafeVarianceSensitivity"]
        if sensitivity > 0:
            deviation = math.pow(deviation, 1 / sensitivity)
        elif sensitivity == 0:
            deviation = 1.0 if deviation >= 1 else 0.0
        deviation = max(min(deviation * self._args["SafeVarianceMargin"], 1.0), 0.0)
        return float((1 - (mean + deviation) / 2) * MOST)


class LowRiskOverCommitment(_Trimaran, PreScorePlugin):
    """Prefers nodes on which limits beyond the capacity, and the load itself, are the least risk."""

    name = "LowRiskOverCommitment"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._weights = {"cpu": 0.5, "memory": 0.5, **self._args["RiskLimitWeights"]}
        self._window = float(self._args["SmoothingWindowSize"])

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Nothing is kept between the nodes: what the pod asks for is read from it each time."""
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """0..100."""
        requests, limits = _with_limits(pod.tree)
        if not any((*requests, *limits)):
            return 0
        metrics = self.load.metrics(node)
        if not metrics:
            return 0
        risk = max(
            self._risk(metrics, node, at, kind, requests, limits)
            for at, kind in enumerate((CPU, MEMORY))
        )
        return _round((1 - risk) * MOST)

    def _risk(
        self,
        metrics: Sequence[Metric],
        node: NodeInfo,
        at: int,
        kind: str,
        requests: tuple[int, int],
        limits: tuple[int, int],
    ) -> float:
        assert node.node is not None
        has = (node.node.tree.get("status") or {}).get("allocatable") or {}
        capacity = effective({"spec": {"containers": [{"resources": {"r": has}}]}}, "r")[at]
        others = [_with_limits(info.pod.tree) for info in node.pods]
        asked_before = sum(each[0][at] for each in others)
        limit_before = sum(each[1][at] for each in others)
        asked = min(asked_before + requests[at], capacity)
        limit = limit_before + limits[at]
        before = min(asked_before, capacity)
        of_limit = (limit - capacity) / (limit - asked) if limit > capacity else 0.0
        of_load = self._load_risk(metrics, node, kind, capacity, before, limit_before)
        weight = self._weights["cpu" if kind == CPU else "memory"]
        return max(min(float(weight * of_limit + (1 - weight) * of_load), 1.0), 0.0)

    def _load_risk(
        self,
        metrics: Sequence[Metric],
        node: NodeInfo,
        kind: str,
        capacity: int,
        asked: int,
        limit: int,
    ) -> float:
        stats = stats_of(metrics, node, (0, 0), kind)
        if stats is None:
            return 0.0
        mean, deviation = stats.fractions()
        deviation *= math.sqrt(self._window)
        largest = mean * (1 - mean) if 0 < mean < 1 else 0.0
        deviation = min(deviation, math.sqrt(largest * VARIANCE_SHARE))
        threshold = max(min(asked / capacity, 1.0), 0.0) if capacity else 0.0
        found, fitted = beta.probability(mean, deviation, threshold)
        if limit < capacity and asked <= limit:
            if limit == 0:
                found = 1.0
            elif fitted is not None:
                most = beta.below(limit / capacity, *fitted)
                if most > 0:
                    found = max(min(found / most, 1.0), 0.0)
        return 1 - found


def _with_limits(pod: Tree) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the requests and the limits of a pod; a limit is at least the request."""
    requests, limits = effective(pod, "requests"), effective(pod, "limits")
    return requests, (max(limits[0], requests[0]), max(limits[1], requests[1]))


class Peaks(_Trimaran, NormalizeScorePlugin):
    """Prefers nodes whose power grows least by the pod."""

    name = "Peaks"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        super().__init__(args, handle)
        if not self._args["NodePowerModel"]:
            # Upstream reads the file that the environment names; there is none here.
            raise ArgsError("open : no such file or directory")

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        assert node.node is not None
        metrics = self.load.metrics(node) or ()
        found = [
            each.value
            for each in metrics
            if each.type == CPU and each.operator in (AVERAGE, LATEST)
        ]
        if not found:
            return 0
        capacity = _capacity(node)
        used = found[0] / 100 * capacity
        asked = effective(pod.tree, "requests")[0]
        overhead = milli((pod.tree["spec"].get("overhead") or {}).get("cpu"))
        asked = 0 if asked == overhead else asked  # an overhead alone does not count
        predicted = 100 * (used + asked) / capacity if capacity else 0.0
        if predicted > 100:
            return 0
        model = (self._args["NodePowerModel"] or {}).get(node.node.name) or {}
        k1, k2 = model.get("k1", 0), model.get("k2", 0)
        growth = k1 * (go_exp(k2 * predicted) - go_exp(k2 * found[0]))
        return as_int64(growth * math.pow(10, 15))

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The least growth is 100, the largest 0; all stay 0 where none grows."""
        least, most = min(scores, default=0), max(scores, default=0)
        if least == 0 and most == 0:
            return None
        for at, score in enumerate(scores):
            width = float(int64(most - least))
            cost = float(MOST) * float(int64(score - least)) / width if most != least else 0.0
            scores[at] = MOST - as_int64(cost)
        return None
