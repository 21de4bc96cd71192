"""Expectations that are not met: when the controller looks at their owner again.

As upstream has it nothing makes it look: it waits for the pods' events, and when these do not come (a create request
timed out; the pods belong to an earlier owner of the name) the expectations expire without an effect until something
else touches the owner (issue 72155).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controlplane.client.expectations import CountedExpectations, Expectations
    from controlplane.controllers.common.controller import Queue
    from controlplane.gates import FixGates

OVERDUE: Final = "72155"


def look_again(
    fixes: FixGates,
    queue: Queue,
    expectations: Expectations | CountedExpectations,
    key: str,
    now: int,
) -> None:
    """Queue the owner for the moment when its expectations expire, if the fix is in force."""
    if fixes.fixed(OVERDUE):
        queue.add_after(key, expectations.lasts_ns(key, now))
