"""The patch that a kubelet sends."""

from __future__ import annotations

from typing import ClassVar

from controlplane.kubelet.status import status_patch


class TestStatusPatch:
    """Only what changed is sent, and merging it gives the new status."""

    before: ClassVar = {
        "phase": "Pending",
        "hostIP": "10.0.0.1",
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "PodScheduled", "status": "True"},
        ],
    }

    def test_nothing_changed_is_nothing_to_send(self):
        assert status_patch(self.before, dict(self.before)) == {}

    def test_a_changed_condition_goes_alone_with_the_order_of_all(self):
        after = {
            **self.before,
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True"},
            ],
        }
        assert status_patch(self.before, after) == {
            "phase": "Running",
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "PodScheduled"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }

    def test_what_vanished_is_taken_away(self):
        after = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        assert status_patch(self.before, after) == {
            "hostIP": None,
            "$setElementOrder/conditions": [{"type": "PodScheduled"}],
            "conditions": [{"$patch": "delete", "type": "Ready"}],
        }
