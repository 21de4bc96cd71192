"""The patch that a kubelet sends."""

from __future__ import annotations

from typing import ClassVar

from controlplane.api.tree import Tree
from controlplane.kubelet.pod.status import status_patch
from controlplane.sharing.alike import alike, alike_list


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

    def test_pods_that_share_their_conditions_share_what_is_sent_of_them(self):
        def shared(ready: str) -> list[Tree]:
            found = ({"type": "Ready", "status": ready}, {"type": "PodScheduled", "status": "True"})
            return alike_list([alike(each) for each in found])

        one, other = (
            status_patch({"conditions": shared("False")}, {"conditions": shared("True")})
            for _ in range(2)
        )
        assert one["conditions"] is other["conditions"]
        alone = status_patch(
            {"conditions": list(shared("False"))}, {"conditions": list(shared("True"))}
        )
        assert alone == one
        assert alone["conditions"] is not one["conditions"]
