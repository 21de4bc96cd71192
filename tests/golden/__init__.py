"""Real Kubernetes' answers to recorded inputs, and the runner that puts ours beside them."""

from tests.golden.runner import UNANSWERED, difference

__all__ = ["UNANSWERED", "difference"]
