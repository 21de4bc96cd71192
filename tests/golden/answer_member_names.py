"""Names derived from a group snapshot's uid and a volume's handle."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.storage.snapshot import names


def answer(case: Any) -> Any:
    uid, handle = case["volumeGroupSnapshotUID"], case["volumeHandle"]
    return {
        "independentSnapshotContentForSameUID": names.content_name(uid),
        "volumeGroupSnapshotContent": names.group_content_name(uid),
        "volumeSnapshot": names.member_name(uid, handle),
        "volumeSnapshotContent": names.member_content_name(uid, handle),
    }
