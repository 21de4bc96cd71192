from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controlplane.client.queue_metrics import QueueMetrics
from controlplane.client.rate_limits import (
    AtMost,
    Bucket,
    FastSlow,
    MaxOf,
    PerItemBackoff,
    default_controller_limiter,
    default_item_limiter,
)
from controlplane.client.workqueue import MS, SECOND, RateLimiter, WorkQueue

KEYS = st.sampled_from("abc")


class QueueLaws(RuleBasedStateMachine):
    """A key is never processed twice at once, and is never lost."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue()
        self.now = 0
        self.processing: list[str] = []
        self.wanted: dict[str, None] = {}
        self.due: dict[str, int] = {}

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.wanted[key] = None

    @rule(key=KEYS, wait=st.integers(0, 5), idle=st.booleans())
    def add_after(self, key: str, wait: int, idle: bool) -> None:
        self.queue.add_after(key, self.now + wait, self.now, idle=idle)
        if wait == 0:
            self.wanted[key] = None
        else:
            self.due[key] = min(self.due.get(key, self.now + wait), self.now + wait)

    @rule(by=st.integers(1, 4))
    def time_passes(self, by: int) -> None:
        self.now += by
        self.queue.release(self.now)
        for key, at in list(self.due.items()):
            if at <= self.now:
                del self.due[key]
                self.wanted[key] = None

    @rule()
    def get(self) -> None:
        key = self.queue.get()
        free = [each for each in self.wanted if each not in self.processing]
        assert (key is None) == (not free)
        if key is not None:
            assert key not in self.processing
            assert key in self.wanted
            del self.wanted[key]
            self.processing.append(key)

    @precondition(lambda self: self.processing)
    @rule(pick=st.integers(0, 2))
    def done(self, pick: int) -> None:
        key = self.processing.pop(pick % len(self.processing))
        assert self.queue.done(key) == (key in self.wanted)

    @invariant()
    def delayed_keys_keep_their_earliest_time(self) -> None:
        assert self.queue.next_due() == min(self.due.values(), default=None)


TestQueueLaws = QueueLaws.TestCase


def test_keys_come_out_in_order_once():
    queue = WorkQueue()
    assert [queue.add(key) for key in "abab"] == [True, True, False, False]
    assert (queue.get(), queue.get(), queue.get()) == ("a", "b", None)


def test_a_key_added_while_it_is_processed_runs_once_more():
    queue = WorkQueue()
    queue.add("a")
    queue.get()
    assert not queue.add("a")
    queue.add("a")
    assert queue.get() is None
    assert queue.done("a")
    assert queue.get() == "a"
    assert not queue.done("a")


def test_an_immediate_add_does_not_cancel_a_later_one():
    queue = WorkQueue()
    queue.add_after("a", 5, 0)
    queue.add("a")
    assert queue.get() == "a"
    queue.done("a")
    assert queue.release(5) == 1
    assert queue.get() == "a"


def test_only_idle_delays_are_told_apart():
    queue = WorkQueue()
    assert queue.only_idle_delays
    queue.add_after("a", 9, 0, idle=True)
    assert queue.only_idle_delays
    queue.add_after("a", 20, 0)
    assert not queue.only_idle_delays
    assert queue.next_due() == 9
    queue.release(9)
    assert queue.only_idle_delays


def test_backoff_doubles_up_to_its_limit_and_is_forgotten():
    limiter = RateLimiter()
    waits = [limiter.when("a", 0) for _ in range(20)]
    assert waits[:3] == [5 * MS, 10 * MS, 20 * MS]
    assert waits[-1] == 1000 * SECOND
    limiter.forget("a")
    assert limiter.failures("a") == 0
    assert limiter.when("a", 0) == 5 * MS


def test_after_a_burst_all_keys_share_ten_tokens_per_second():
    limiter = RateLimiter()
    waits = [limiter.when(str(number), 0) for number in range(103)]
    assert waits[99] == 5 * MS
    assert waits[100:] == [100 * MS, 200 * MS, 300 * MS]


@given(st.lists(st.integers(0, SECOND), max_size=300))
def test_no_more_runs_than_burst_and_rate_allow(gaps):
    limiter = RateLimiter()
    now = 0
    starts = []
    for number, gap in enumerate(gaps):
        now += gap
        starts.append(limiter.when(str(number), now))
    starts.sort()
    for at, start in enumerate(starts):
        within = sum(1 for other in starts[: at + 1] if other > start - SECOND)
        assert within <= 110


def test_the_default_of_controllers_is_the_later_of_backoff_and_bucket():
    for limiter in (RateLimiter(), default_controller_limiter()):
        waits = [limiter.when("a", 0) for _ in range(3)]
        assert waits == [5 * MS, 10 * MS, 20 * MS]
        for number in range(97):
            limiter.when(str(number), 0)
        assert limiter.when("b", 0) == 100 * MS
        assert limiter.failures("a") == 3
        limiter.forget("a")
        assert limiter.failures("a") == 0


def test_items_alone_begin_with_a_millisecond():
    limiter = default_item_limiter()
    assert [limiter.when("a", 7) - 7 for _ in range(3)] == [MS, 2 * MS, 4 * MS]


def test_a_few_fast_retries_then_slow_ones():
    limiter = FastSlow(5 * MS, 10 * SECOND, 2)
    assert [limiter.when("a", 0) for _ in range(4)] == [5 * MS, 5 * MS, 10 * SECOND, 10 * SECOND]
    limiter.forget("a")
    assert limiter.when("a", 0) == 5 * MS
    assert limiter.failures("a") == 1


def test_a_bucket_does_not_get_its_tokens_back():
    bucket = Bucket(qps=1, burst=1)
    assert bucket.when("a", 0) == 0
    bucket.forget("a")
    assert bucket.when("a", 0) == SECOND
    assert bucket.failures("a") == 0


def test_the_latest_of_several_and_never_later_than_allowed():
    limiter = MaxOf(PerItemBackoff(MS), PerItemBackoff(3 * MS))
    assert limiter.when("a", 0) == 3 * MS
    capped = AtMost(PerItemBackoff(MS), 3 * MS)
    assert [capped.when("a", 0) for _ in range(4)] == [MS, 2 * MS, 3 * MS, 3 * MS]
    assert capped.failures("a") == 4
    capped.forget("a")
    assert capped.failures("a") == 0


@given(st.integers(0, 200))
def test_backoff_never_overflows_its_limit(failures):
    limiter = PerItemBackoff()
    for _ in range(failures):
        limiter.when("a", 0)
    assert limiter.when("a", 0) == min(5 * MS * 2**failures, 1000 * SECOND)


def test_a_queue_that_shuts_down_hands_out_what_it_has_and_takes_nothing():
    queue = WorkQueue()
    queue.add("a")
    queue.add_after("later", 5, 0)
    queue.shut_down()
    assert not queue.add("b")
    assert not queue.add_after("c", 0, 0)
    assert queue.next_due() is None
    assert queue.get() == "a"
    assert queue.get() is None


def test_metrics_tell_of_depth_waiting_and_work():
    now = 0
    metrics = QueueMetrics(lambda: now)
    queue = WorkQueue(metrics)
    queue.add("a")
    queue.add("a")
    queue.add("b")
    now = 2 * SECOND
    assert queue.get() == "a"
    queue.add("a")
    now = 5 * SECOND
    assert (metrics.depth, metrics.adds) == (2, 3)
    assert (metrics.unfinished_ns(), metrics.longest_running_ns()) == (3 * SECOND, 3 * SECOND)
    queue.done("a")
    queue.add_after("c", 9 * SECOND, now)
    read = metrics.read()
    assert read["workqueue_retries_total"] == 1
    assert read["workqueue_queue_duration_seconds_sum"] == 2.0
    assert read["workqueue_work_duration_seconds_sum"] == 3.0
    assert read["workqueue_unfinished_work_seconds"] == 0
    assert sum(metrics.waits.buckets) == metrics.waits.count == 1
