"""Reports of a loop: events of pods, and the ConfigMap with the status, which events of the autoscaler are about.

Upstream: `processors/status/eventing_scale_up_processor.go`, `clusterstate/utils/status.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from controlplane.api.times import go_time
from controlplane.api.view import View
from controlplane.api.yaml_text import dumper
from controlplane.autoscaler.process.drain import Report
from controlplane.autoscaler.process.settings import Settings
from controlplane.autoscaler.scaleup import Outcome, Remaining
from controlplane.autoscaler.status import LAST_UPDATED
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import CONFIG_MAPS
from controlplane.controllers.common.controller import NORMAL, Host
from controlplane.controllers.common.effects import Reconcile, RequestFailed

_MOST: Final = "max total nodes in cluster reached"
INITIALIZING: Final[Mapping[str, Any]] = {
    "autoscalerStatus": "Initializing",
    "clusterWide": {},
    "nodeGroups": [],
}


def tell_pods(outcome: Outcome, report: Report) -> None:
    """Tell pods that they made the cluster grow, or why they did not."""
    if outcome.result not in ("Successful", "Error"):
        for each in outcome.remaining:
            text = f"pod didn't trigger scale-up: {why_not(outcome, each)}"
            report(each.pod, NORMAL, "NotTriggerScaleUp", text)
    if not outcome.infos:
        return
    text = f"pod triggered scale-up: {growth(outcome)}"
    for pod in outcome.triggered:
        report(pod, NORMAL, "TriggeredScaleUp", text)


def growth(outcome: Outcome) -> str:
    """Return the groups that grow, with their sizes before and after."""
    sizes = (
        f"{{{each.group} {each.current}->{each.new} (max: {each.maximum})}}"
        for each in outcome.infos
    )
    return f"[{' '.join(sizes)}]"


def why_not(outcome: Outcome, remaining: Remaining) -> str:
    """Return how many groups each reason kept; in order of the groups, where upstream's is that of its maps."""
    if outcome.result == "LimitedByMaxNodesTotal":
        return _MOST
    counts: dict[str, int] = {}
    for reasons in (remaining.rejected, remaining.skipped):
        for group, texts in reasons.items():
            for text in texts if group in outcome.considered else ():
                counts[text] = counts.get(text, 0) + 1
    return ", ".join(f"{count} {text}" for text, count in counts.items())


class Reporter:
    """Events of pods and nodes, which the log has, too; there a report that repeats the loop before is left out."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._before: dict[str, str] = {}
        self._now: dict[str, str] = {}

    def begin(self) -> None:
        """Begin a loop."""
        self._before, self._now = self._now, {}

    def report(self, about: View, kind: str, reason: str, message: str) -> None:
        """Tell an event about an object."""
        self._host.event(about, kind, reason, message)
        self._now[about.uid] = message
        if self._before.get(about.uid) != message:
            self._host.log("autoscaler.told", about, {"reason": reason, "message": message})


class StatusMap:
    """The ConfigMap with the status; a write that fails is made up for by the next loop."""

    def __init__(self, settings: Settings) -> None:
        self._namespace = settings.namespace
        self._name = settings.status_name
        self._writes = settings.writes_status
        self.about: dict[str, Any] | None = None
        """The reference of the ConfigMap, None until it was written."""

    def write(self, status: Mapping[str, Any], now: int) -> Reconcile[None]:
        """Write the status of a time."""
        if not self._writes:
            return
        try:
            yield from self._write(status, now)
        except RequestFailed:
            return

    def _write(self, status: Mapping[str, Any], now: int) -> Reconcile[None]:
        stamp = go_time(now)
        text = yaml.dump(
            {"time": stamp, **{name: each for name, each in status.items() if name != "time"}},
            Dumper=dumper(),
            sort_keys=False,
            default_flow_style=False,
        )
        try:
            found = (yield from calls.get(CONFIG_MAPS, self._namespace, self._name)).tree
        except ApiError as error:
            if not is_not_found(error):
                raise
            tree = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "annotations": {LAST_UPDATED: stamp},
                },
                "data": {"status": text},
            }
            written = yield from calls.create(CONFIG_MAPS, self._namespace, tree)
        else:
            meta = found["metadata"]
            notes = {**(meta.get("annotations") or {}), LAST_UPDATED: stamp}
            data = {**(found.get("data") or {}), "status": text}
            tree = {**found, "metadata": {**meta, "annotations": notes}, "data": data}
            written = yield from calls.update(CONFIG_MAPS, tree)
        self.about = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": self._namespace,
            "name": self._name,
            "uid": written.uid,
            "resourceVersion": written.metadata.get("resourceVersion", ""),
        }
