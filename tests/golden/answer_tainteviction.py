"""The taint eviction controller: single decisions, and its loops over what informers see."""

from __future__ import annotations

from typing import Any

from controlplane.api.node import Node
from controlplane.api.object import Object
from controlplane.api.pod import Pod
from controlplane.api.request import Response
from controlplane.client.indexer import Indexer
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.controllers.lifecycle import taint_eviction as decisions
from controlplane.controllers.loops.taint_eviction import TaintEvictionController
from controlplane.gates import FixGates
from tests.golden.controller_world import complete
from tests.golden.plain_context import START, PlainContext, Silent

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
AFTERWARDS = 1000


def answer(case: Any) -> Any:
    return _trace(case["steps"]) if "steps" in case else _when(case)


def _when(case: Any) -> Any:
    node = Node.from_tree({"metadata": {}, "spec": {"taints": case["taints"]}})
    pod = Pod.from_tree({"metadata": {}, "spec": {"tolerations": case["tolerations"]}})
    taints = decisions.no_execute(node.spec.taints)
    used = decisions.matching(taints, pod.spec.tolerations)
    found: dict[str, Any] = {
        "allTolerated": used is not None,
        "noExecuteTaints": len(taints),
        "used": len(used or ()),
    }
    if used:
        wait = decisions.shortest(used)
        found["evictAfterSeconds"] = None if wait is None else wait // SECOND
    return found


class _Run:
    def __init__(self) -> None:
        self.ctx = PlainContext(self.serve)
        self.nodes: Indexer[Node] = Indexer()
        self.pods: Indexer[Pod] = Indexer(node=lambda obj: (obj.view.spec.node_name,))
        ctx: Any = self.ctx
        self.controller = TaintEvictionController(
            ctx, START, IN_CLUSTER, self.nodes, self.pods, FixGates()
        )
        self.recorder: Any = Silent()
        self.controller._recorder = self.recorder
        self.deletions: list[dict[str, Any]] = []

    def fire_until(self, end: int) -> None:
        """Begin what is due before a time."""
        while True:
            due = self.controller.fire_once()
            if due is None or due - START >= end:
                return
            self.ctx.now = due - START

    def serve(self, request: Any) -> Response:
        """Answer a request about a pod; deletions are noted and do nothing."""
        if request.verb == "delete":
            self.deletions.append({"at": self.ctx.now // SECOND, "pod": request.name})
        return Response(200, {}, self.pods.get(f"{request.namespace}/{request.name}"))

    def see(self, step: Any) -> None:
        of_node = "node" in step or "deleteNode" in step
        store: Any = self.nodes if of_node else self.pods
        handlers = self.controller.node_handlers() if of_node else self.controller.pod_handlers()
        added, updated, deleted = handlers
        gone = step.get("deleteNode") or step.get("deletePod")
        if gone is not None:
            old = store.remove(gone if of_node else f"ns/{gone}")
            if old is not None:
                deleted(old, False)
        else:
            kind = "Node" if of_node else "Pod"
            new: Any = Object(complete(kind, step["node" if of_node else "pod"]))
            old = store.put(new)
            if old is None:
                added(new)
            else:
                updated(old, new)
        while self.controller.look_once():
            pass


def _trace(steps: Any) -> Any:
    run = _Run()
    last, number = -1, 0
    for step in steps:
        number = number + 1 if step["at"] == last else 1
        last = step["at"]
        run.fire_until(last * SECOND + number * MILLISECOND)
        run.ctx.now = last * SECOND + number * MILLISECOND
        run.see(step)
    run.fire_until((last + AFTERWARDS) * SECOND)
    return {
        "cancelEvents": sorted(
            each
            for each in run.recorder.noted
            if each.startswith("TaintManagerEviction Cancelling")
        ),
        "deletions": sorted(run.deletions, key=lambda each: (each["at"], each["pod"])),
    }
