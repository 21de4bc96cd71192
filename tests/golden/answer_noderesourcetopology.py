"""Cases of community plugins; see `answer_community`."""

from tests.golden.answer_community import answer

__all__ = ["answer"]
