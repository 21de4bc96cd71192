"""Searching and scoring node by node, as upstream does it with one worker."""

from __future__ import annotations

from controlplane.scheduler.cycle.scheduling import EXPLAINED_NODES, Search, ask_each
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.interface import StatusError
from controlplane.scheduler.framework.node_search import best_index
from controlplane.scheduler.framework.runtime import check_scores, normalize_failed
from controlplane.scheduler.framework.scores import default_normalize
from controlplane.scheduler.plugins.node_affinity import NodeAffinity
from controlplane.scheduler.plugins.registry import Entry, in_tree_registry
from controlplane.scheduler.plugins.taint_toleration import TaintToleration
from tests.scheduler.reference.inter_pod_affinity import InterPodAffinityByNode
from tests.scheduler.reference.pod_topology_spread import PodTopologySpreadByNode


class TaintTolerationByNode(TaintToleration):
    def normalize(self, state, pod, nodes, scores):
        default_normalize(scores, reverse=True)


class NodeAffinityByNode(NodeAffinity):
    def normalize(self, state, pod, nodes, scores):
        default_normalize(scores, reverse=False)


def by_node_registry():
    """The in-tree plugins, those with other forms than node by node replaced."""
    found = in_tree_registry()
    for cls, takes in (
        (TaintTolerationByNode, "h"),
        (NodeAffinityByNode, "a"),
        (InterPodAffinityByNode, "ah"),
        (PodTopologySpreadByNode, "ah"),
    ):
        found[cls.name] = Entry(cls, _maker(cls, takes))
    return found


def _maker(cls, takes):
    def make(args, handle):
        given = {"a": args, "h": handle}
        return cls(*(given[what] for what in takes))

    return make


class SearchByNode(Search):
    """Every candidate is asked one after the other; scores are summed in lists."""

    def find(self, attempt, diagnosis, wanted):
        nodes = self.snapshot.node_info_list
        return ask_each(attempt, diagnosis, nodes, self.next_start_node_index, wanted)

    def rate(self, attempt, feasible):
        framework, state, pod = attempt.framework, attempt.state, attempt.pod
        if not framework.plugins.score:
            totals = [1] * len(feasible)
            return (lambda: totals), best_index(totals)
        status = framework.run_pre_score(state, pod, feasible)
        if status is not None:
            raise StatusError(status)
        scores = run_score(framework, state, pod, feasible)
        if len(feasible) <= EXPLAINED_NODES:
            attempt.scores = {
                node.name: {name: final[at] * weight for name, final, weight in scores}
                for at, node in enumerate(feasible)
            }
        totals = [0] * len(feasible)
        for _, final, weight in scores:
            totals = [total + score * weight for total, score in zip(totals, final)]
        return (lambda: totals), best_index(totals)


def run_score(framework, state, pod, nodes):
    """(plugin, normalised scores, weight) of every plugin that did not skip."""
    out = []
    for plugin in framework.plugins.score:
        if plugin.name in state.skip_score:
            continue
        try:
            scores = [plugin.score(state, pod, node) for node in nodes]
        except StatusError as failed:
            message = f'plugin "{plugin.name}" failed with: {failed.status.message}'
            raise StatusError(fwk.error(message).by(plugin.name)) from failed
        if isinstance(plugin, fwk.NormalizeScorePlugin):
            status = plugin.normalize(state, pod, nodes, scores)
            if status is not None:
                normalize_failed(plugin.name, status)
        check_scores(plugin.name, scores)
        out.append((plugin.name, scores, framework.weights.get(plugin.name, 1)))
    return out
