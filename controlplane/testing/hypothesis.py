"""Hypothesis strategies for workloads, and a schedule that Hypothesis itself draws and shrinks.

    @given(data=st.data(), operations=operations(names=("a", "b")))
    def test_nothing_is_lost(data, operations):
        run = execute(plan_of(scenario_of(operations)), Drawn(data))
        assert run.result.ok

Data and schedule come from one source, so they shrink together: towards fewer and plainer operations,
and towards first in, first out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen
from hypothesis import strategies as st

from actors import EventLog
from controlplane.api.tree import Tree
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.execution import Execution

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from actors.footprint import Footprint
    from actors.strategies import Option
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.user import User

CPUS = ("100m", "250m", "500m", "1", "2")


class Drawn:
    """A strategy that draws every choice from Hypothesis; 0, the default option, is the target of shrinking."""

    name = "hypothesis"
    seed: int | None = None
    footprint: Footprint | None = None
    exhausted = False

    def __init__(self, data: st.DataObject, *, most: int = 200) -> None:
        self._data = data
        self._most = most
        self._count = 0

    def begin(self) -> None:
        """Count from the start."""
        self._count = 0

    def choose(self, kind: str, options: Sequence[Option], step: int) -> int:
        """A drawn option; the default one once `most` were drawn."""
        self._count += 1
        if self._count > self._most:
            return 0
        return self._data.draw(st.integers(0, len(options) - 1), label=kind)

    def end(self) -> None:
        """Nothing to close."""

    def parameters(self) -> dict[str, int | str | float]:
        """The largest number of drawn choices."""
        return {"most": self._most}


def execute(plan: Plan, strategy: Drawn) -> Execution:
    """Run a plan once under a drawn schedule, on the bare driver."""
    run = Execution(plan, strategy, log=EventLog())
    run.execute("bare")
    return run


def node_sizes() -> st.SearchStrategy[tuple[str, str]]:
    """CPU and memory of a node."""
    return st.tuples(st.sampled_from(("1", "2", "4", "8")), st.sampled_from(("2Gi", "8Gi", "32Gi")))


def pods(names: Sequence[str] = ("a", "b", "c")) -> st.SearchStrategy[Tree]:
    """Pods with one of a few names, so that they are recreated; of some size and priority.

    A high priority comes from a class that every cluster has.
    """
    return st.builds(
        lambda name, cpu, rank: pod(name, cpu, **({"priorityClassName": rank} if rank else {})),
        st.sampled_from(list(names)),
        st.sampled_from(CPUS),
        st.sampled_from(("", "system-cluster-critical")),
    )


@frozen
class Operation:
    """One action of a user: `verb` is create, delete, touch or wait."""

    verb: str
    tree: Tree | None = None
    name: str = ""
    seconds: float = 0

    async def perform(self, user: User) -> None:
        """Send the request; a refusal is ignored."""
        if self.verb == "create":
            assert self.tree is not None
            await user.attempt(user.create(self.tree))
        elif self.verb == "delete":
            await user.attempt(user.delete("Pod", self.name, grace_period_seconds=0))
        elif self.verb == "touch":
            labels = {"metadata": {"labels": {"touched": "yes"}}}
            await user.attempt(user.patch("Pod", self.name, labels))
        else:
            await user.sleep(self.seconds)


def operations(
    names: Sequence[str] = ("a", "b", "c"), *, most: int = 12
) -> st.SearchStrategy[list[Operation]]:
    """The actions of a user, in order."""
    named = st.sampled_from(list(names))
    one = st.one_of(
        pods(names).map(lambda tree: Operation("create", tree)),
        named.map(lambda name: Operation("delete", name=name)),
        named.map(lambda name: Operation("touch", name=name)),
        st.sampled_from((0.5, 1, 5, 30)).map(lambda s: Operation("wait", seconds=s)),
    )
    return st.lists(one, max_size=most)


def workload(todo: Sequence[Operation]) -> Callable[[User], Coroutine[Any, Any, None]]:
    """Return a scenario's workload that performs these operations in order."""

    async def user_does(user: User) -> None:
        for operation in todo:
            await operation.perform(user)

    return user_does
