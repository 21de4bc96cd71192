"""Nodes of the snapshot, given by their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from controlplane.scheduler.columns.columns import Columns, Ints
from controlplane.scheduler.state.node_info import NodeInfo


class Rows(Sequence[NodeInfo]):
    """A sequence of node infos; `rows` has their rows in the same order."""

    __slots__ = ("infos", "rows")

    def __init__(self, infos: list[NodeInfo], rows: Ints) -> None:
        self.infos = infos
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> NodeInfo: ...
    @overload
    def __getitem__(self, index: slice) -> list[NodeInfo]: ...
    def __getitem__(self, index: int | slice) -> NodeInfo | list[NodeInfo]:
        if isinstance(index, slice):
            return [self.infos[row] for row in self.rows[index]]
        return self.infos[int(self.rows[index])]

    def __iter__(self) -> Iterator[NodeInfo]:
        infos = self.infos
        return (infos[row] for row in self.rows.tolist())

    @classmethod
    def of(cls, columns: Columns, nodes: Sequence[NodeInfo]) -> Rows:
        """These nodes of the snapshot."""
        row_of = columns.snapshot.row_of
        return cls(columns.infos, np.array([row_of[node.name] for node in nodes], np.int64))
