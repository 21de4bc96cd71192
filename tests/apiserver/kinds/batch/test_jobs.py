"""Warnings for jobs."""

from __future__ import annotations

from typing import Any

from tests.apiserver.world import World

POD: dict[str, Any] = {
    "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
    "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always",
                    "terminationMessagePolicy": "File"}],
}  # fmt: skip


def test_a_name_that_is_no_label_is_remarked_on() -> None:
    made = World().create("jobs", {"metadata": {"name": "a.b"}, "spec": {
        "template": {"spec": POD}}}, group="batch")  # fmt: skip
    assert made.code == 201
    assert made.warnings == [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
        "behavior; a DNS label is recommended: [must not contain dots]"
    ]
