"""Rules of volume attachments that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.storage.volume_attachments import validate_attachment


def said(errors: list[Any]) -> list[str]:
    return [str(error) for error in errors]


def test_an_attachment_may_hold_a_volume_of_its_own() -> None:
    def attachment(**volume: Any) -> list[str]:
        spec = {"attacher": "a", "nodeName": "n", "source": {"inlineVolumeSpec": volume}}
        return said(validate_attachment({"spec": spec}))

    csi = {"driver": "d", "volumeHandle": "h"}
    assert attachment(csi=csi, accessModes=["ReadWriteOnce"]) == []
    place = "spec.source.inlineVolumeSpec"
    assert attachment(capacity={"storage": "1"}, persistentVolumeReclaimPolicy="Delete",
                      volumeMode="Block", storageClassName="s") == [
        f"{place}.capacity: Forbidden: may not be specified in the context of inline volumes",
        f"{place}.csi: Required value: has to be specified in the context of inline volumes",
        f"{place}.accessModes: Required value",
        f"{place}.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of "
        "inline volumes",
        f"{place}: Required value: must specify a volume type",
        f"{place}.storageClassName: Forbidden: may not be specified in the context of inline volumes",
        f"{place}.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the "
        "context of inline volumes",
    ]  # fmt: skip
