"""When processes are quiet: by their requests, their use of the processor, and what changed."""

from __future__ import annotations

from controlplane.operators.quiescence import Quiescence, Sample

MS = 1_000_000


def test_a_process_that_sleeps_and_waits_for_nothing_is_quiet():
    state = Quiescence(quiet_s=0.03)
    state.request(1, 1.0)
    assert not state.quiet(2.0)
    state.request(-1, 2.0)
    assert not state.quiet(2.01)
    assert state.quiet(2.05)


def test_a_process_that_computes_or_waits_for_the_processor_is_at_work():
    state = Quiescence(quiet_s=0.03)
    state.look(1, Sample(0), 1.0)
    state.look(1, Sample(5 * MS), 1.01)
    assert not state.quiet(1.02)
    state.look(1, Sample(5 * MS), 1.05)
    assert state.quiet(1.05)
    state.look(1, Sample(5 * MS, runnable=True), 1.06)
    assert not state.quiet(1.07)


def test_timers_of_a_sleeping_process_are_no_work():
    state = Quiescence(quiet_s=0.03)
    for number in range(20):
        state.look(1, Sample(number * MS // 10), 1.0 + number * 0.01)
    assert state.quiet(1.2)


def test_a_new_process_is_at_work_until_its_first_request():
    state = Quiescence(quiet_s=0.03)
    state.starts(1, 1.0)
    assert not state.quiet(5.0)
    state.asked(1)
    assert state.quiet(5.0)


def test_requests_without_effect_do_not_keep_a_run_from_its_end():
    state = Quiescence(quiet_s=0.03)
    state.effect(1.0)
    for number in range(10):
        state.request(1, 1.0 + number * 0.1)
        state.request(-1, 1.001 + number * 0.1)
    assert state.settled(1.95, 0.5)
    state.effect(1.96)
    assert not state.settled(2.3, 0.5)


def test_the_longest_gap_between_effects_is_learned_but_not_over_steps_of_the_workload():
    state = Quiescence()
    state.effect(1.0)
    state.effect(1.2)
    state.goes_on(9.0)
    state.effect(9.1)
    assert round(state.longest_gap_s, 3) == 0.2
