"""The plugins' answers in an attempt to schedule a pod, as tables of nodes and plugins.

kube-scheduler-simulator shows the same from its annotations: filter results, scores, and scores as they
count after normalising and weighting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.scheduler.cycle.explanation import Explanation

__all__ = ["CELLS", "NODES", "tables"]

NODES = 200
"""The number of nodes in a table; the chosen one is among them."""
CELLS = 1_000_000
"""The number of plugin answers kept per run."""
NO_ANSWER = -1
_BY_NODE = {"filter": "filter-result", "score": "score-result", "final": "finalscore-result"}


def tables(found: Explanation) -> dict[str, Any]:
    """Tables `filter`, `score` and `final`, what PreFilter and PreScore said, and how many nodes were looked at."""
    results = found.results
    told: dict[str, Any] = {
        "selected": found.selected,
        "looked": len(results["filter-result"]),
        "prefilter": dict(results["prefilter-result-status"]),
        "prescore": dict(results["prescore-result"]),
    }
    for name, key in _BY_NODE.items():
        told[name] = _table(results[key], found.selected)
    return told


def _table(by_node: Mapping[str, Mapping[str, Any]], selected: str) -> dict[str, Any]:
    """Nodes and plugins in the order in which they were asked, and the answers row by row."""
    nodes = list(by_node)[:NODES]
    if selected in by_node and selected not in nodes:
        nodes[-1] = selected
    plugins = list(dict.fromkeys(plugin for node in nodes for plugin in by_node[node]))
    return {
        "plugins": plugins,
        "nodes": nodes,
        "cells": [_cell(by_node[node].get(plugin)) for node in nodes for plugin in plugins],
    }


def _cell(said: Any) -> str | int:
    """Scores are numbers; -1 stands for a plugin that was not asked, as one before it had refused the node."""
    if said is None:
        return NO_ANSWER
    text = str(said)
    return int(text) if text.removeprefix("-").isdecimal() else text
