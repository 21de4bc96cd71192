"""The options of a scenario as set: the argument of the scenario's functions before the cluster exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.gates import FixGates

Tree = dict[str, Any]


@frozen(kw_only=True)
class Setting:
    """The value of every option by its key, the fix gates, and what the scenario's `prepare` gave.

    `parsed` has, by key, what an option's `parse` made of its value.
    """

    options: Mapping[str, Any]
    gates: FixGates
    parsed: Mapping[str, Any] = field(factory=dict, repr=False, eq=False)
    given: Any = field(default=None, repr=False, eq=False)

    def __getitem__(self, key: str) -> Any:
        return self.options[key]

    @property
    def release(self) -> str:
        """The minor release that is emulated."""
        return str(self.options["release"])

    @property
    def until_ns(self) -> int | None:
        """The virtual time at which runs stop, if they do."""
        until = self.options["until"]
        return None if until is None else round(until * 1_000_000_000)

    def nodes(self) -> tuple[Tree, ...]:
        """The nodes that the options --nodes, --node-cpu and --node-memory say."""
        from controlplane.cluster import node_tree

        count, cpu, memory = (self.options[key] for key in ("nodes", "node_cpu", "node_memory"))
        return tuple(
            node_tree(f"node-{number}", cpu=cpu, memory=memory)
            for number in range(1, (count or 0) + 1)
        )
