"""Answers of each plugin about a pod in one attempt."""

from __future__ import annotations

import json
from typing import Any

import attrs

PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY = PREFIX + "result-history"
SELECTED = PREFIX + "selected-node"
PASSED = "passed"
SUCCESS = "success"
_ORDER = (
    "prefilter-result-status",
    "prefilter-result",
    "filter-result",
    "postfilter-result",
    "prescore-result",
    "score-result",
    "finalscore-result",
    "reserve-result",
    "permit-result",
    "permit-result-timeout",
    "prebind-result",
    "bind-result",
)


@attrs.define
class Explanation:
    """Results of one attempt, by the names of the annotations. `selected` is "" when no node was chosen."""

    results: dict[str, dict[str, Any]] = attrs.Factory(lambda: {name: {} for name in _ORDER})
    selected: str = ""

    def annotations(self) -> dict[str, str]:
        """All but the history."""
        found = {PREFIX + name: as_text(value) for name, value in self.results.items()}
        found[SELECTED] = self.selected
        return found

    def summary(self) -> dict[str, Any]:
        """For the log: which plugin refused which nodes and why, and the final scores per node."""
        refused: dict[str, dict[str, list[str]]] = {}
        for node, said in self.results["filter-result"].items():
            for plugin, message in said.items():
                if message != PASSED:
                    refused.setdefault(plugin, {}).setdefault(message, []).append(node)
        data: dict[str, Any] = {"refused": refused}
        stopped = {
            plugin: message
            for plugin, message in self.results["prefilter-result-status"].items()
            if message not in (SUCCESS, "")
        }
        if stopped:
            data["prefilter"] = stopped
        if self.results["finalscore-result"]:
            data["scores"] = self.results["finalscore-result"]
        if self.selected:
            data["node"] = self.selected
        return data


def as_text(value: Any) -> str:
    """JSON as the simulator writes it into annotations."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
