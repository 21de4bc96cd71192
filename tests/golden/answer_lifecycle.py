"""Cases of KWOK; see `answer_kwok`."""

from tests.golden.answer_kwok import answer, compare

__all__ = ["answer", "compare"]
