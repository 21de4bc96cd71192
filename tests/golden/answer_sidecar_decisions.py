"""Small decisions of the CSI snapshotter sidecar."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.storage.csi_snapshotter import decisions


def answer(case: Any) -> Any:
    match case["decision"]:
        case "snapshotName" | "groupSnapshotName" as decision:
            make = (
                decisions.snapshot_name
                if decision == "snapshotName"
                else decisions.group_snapshot_name
            )
            try:
                return {"name": make(case["prefix"], case["uid"], case["uuidLength"])}
            except decisions.CorruptObject as error:
                return {"error": str(error)}
        case "finalError":
            return {"final": decisions.is_final(case["code"])}
        case "contentShouldBeDeleted":
            return {"delete": decisions.content_should_be_deleted(case["content"])}
        case decision:
            assert decision == "groupContentShouldBeDeleted", decision
            return {"delete": decisions.group_content_should_be_deleted(case["content"])}
