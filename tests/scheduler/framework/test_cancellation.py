"""Contexts: what is cancelled is forgotten, what is not stays with its parent."""

from __future__ import annotations

from controlplane.scheduler.framework.cancellation import CancelContext


def test_a_child_stays_until_it_is_cancelled() -> None:
    root = CancelContext()
    one, other = root.with_cancel(), root.with_cancel()
    grandchild = one.with_cancel()
    assert (len(root), len(one)) == (2, 1)
    one.cancel()
    one.cancel()
    assert (len(root), len(one)) == (1, 0)
    grandchild.cancel()
    other.cancel()
    assert len(root) == 0
