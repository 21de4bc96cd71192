"""Cases of the Cluster Autoscaler; see `answer_autoscaler`."""

from tests.golden.answer_autoscaler import answer, compare

__all__ = ["answer", "compare"]
