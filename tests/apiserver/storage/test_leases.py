"""Leases against the plain form: all of them in one list, sorted whenever somebody asks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.times import SECOND
from controlplane.apiserver.storage.leases import Lease, Leases

moments = st.integers(0, 4 * SECOND) | st.sampled_from([SECOND - 1, SECOND, SECOND + 1])
turns = st.lists(st.tuples(st.booleans(), moments), max_size=40)


@given(turns)
def test_leases_end_by_deadline_and_then_as_they_were_attached(turns):
    leases, plain, now = Leases(), [], 0
    for number, (attaches, moment) in enumerate(turns):
        if attaches:
            plain.append(Lease(now + moment, "/events/", f"e{number}", number))
            leases.attach(plain[-1])
        else:
            now += moment
            due = [lease for lease in plain if lease.deadline <= now]
            assert leases.ended(now) == sorted(due, key=lambda lease: lease.deadline)
            leases.drop(now)
            plain = [lease for lease in plain if lease.deadline > now]
        assert leases.next_end() == min((lease.deadline for lease in plain), default=None)
        assert sorted(leases) == sorted(leases.fork()) == sorted(plain)


def test_a_copy_goes_its_own_way():
    leases = Leases()
    leases.attach(Lease(5, "/events/", "a", 1))
    copy = leases.fork()
    copy.drop(5)
    leases.attach(Lease(3, "/events/", "b", 2))
    assert (leases.next_end(), copy.next_end()) == (3, None)
    assert [lease.key for lease in leases.ended(5)] == ["b", "a"]
