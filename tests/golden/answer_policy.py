"""The descheduler's cases of one file; see `answer_descheduler`."""

from tests.golden.answer_descheduler import answer, compare

__all__ = ["answer", "compare"]
