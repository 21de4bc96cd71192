"""Which updates of a content wake the sidecar."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.storage.csi_snapshotter.decisions import content_change_matters


def answer(case: Any) -> Any:
    return {"enqueue": content_change_matters(case["old"], case["new"])}
