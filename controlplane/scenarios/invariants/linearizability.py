"""The API of one key is linearizable: some sequential order explains the answers that users got.

Only of resources that are written by the users of the scenario alone; what components write is not recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.engine.histories import History
from controlplane.scenarios.engine.linearizability import check
from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run


def linearizable(*resources: str, cached_reads: bool = False) -> Invariant:
    """Once nothing moves: every object of these resources, and the answers that users got, fit one order.

    A read that allows an old answer (`resourceVersion`) does not count, unless `cached_reads` says so.
    """

    def begin(run: Run) -> None:
        run.history = History(resources, cached_reads=cached_reads)

    def holds(run: Run) -> str | None:
        history = run.history
        assert history is not None
        for (resource, namespace, name), calls in history.calls.items():
            answer = check(calls)
            if answer.verdict == "violation":
                now = (
                    "there is none"
                    if answer.state is None
                    else f"it is version {answer.state.number}"
                )
                told = "; ".join(str(call) for call in answer.stuck)
                return f"{resource} {namespace}/{name}: no order fits: {now}, and then: {told}"
        return None

    return Invariant(
        f"the answers that users got for {', '.join(resources)} fit one order", holds, begin=begin
    )
