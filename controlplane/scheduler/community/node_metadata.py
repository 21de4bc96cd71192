"""NodeMetadata: prefer nodes by a number or a time in a label or an annotation.

Upstream: pkg/nodemetadata/node_metadata.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_integers import int64
from controlplane.api.times import SECOND, parse_go_time
from controlplane.scheduler.community.args import arguments, number
from controlplane.scheduler.community.go_layouts import parse
from controlplane.scheduler.community.scores import MOST, as_int64
from controlplane.scheduler.framework.interface import NormalizeScorePlugin

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.framework.interface import Status
    from controlplane.scheduler.state.node_info import NodeInfo

INVALID: Final = -(1 << 63)
"""The raw score of a node without a value that can be read."""
_RFC3339: Final = "2006-01-02T15:04:05Z07:00"


class NodeMetadata(NormalizeScorePlugin):
    """The number, or the age in seconds, as the strategy prefers it."""

    name = "NodeMetadata"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        self._args = arguments(self.name, args)
        self._handle = handle

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """A number of any size; it is normalised."""
        assert node.node is not None
        args, meta = self._args, node.node.tree["metadata"]
        source = "labels" if args["metadataSource"] == "Label" else "annotations"
        text = (meta.get(source) or {}).get(args["metadataKey"])
        if text is None:
            return INVALID
        if args["metadataType"] == "Number":
            return self._number(text)
        form = args.get("timestampFormat") or _RFC3339
        try:
            at = parse_go_time(text) if form == _RFC3339 else parse(form, text)
        except ValueError:
            return INVALID
        age = int((self._handle.clock() - at) / SECOND)
        return -age if args["scoringStrategy"] == "Newest" else age

    def _number(self, text: str) -> int:
        value = number(text)
        if value is None:
            return INVALID
        whole = as_int64(value)
        return int64(-whole) if self._args["scoringStrategy"] == "Lowest" else whole

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """Nodes without a value get 0, the others 1 to 100."""
        known = [score for score in scores if score != INVALID]
        lowest, highest = min(known, default=0), max(known, default=0)
        for at, score in enumerate(scores):
            if score == INVALID:
                scores[at] = 0
            elif highest == lowest:
                scores[at] = 1
            else:
                scores[at] = (score - lowest) * (MOST - 1) // (highest - lowest) + 1
        return None
