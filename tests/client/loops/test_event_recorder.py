from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import Context, EventLog, World
from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.api.times import format_time
from controlplane.client.loops import event_recorder
from controlplane.client.loops.event_recorder import (
    COMBINED,
    RETRY_NS,
    SIMILAR_NS,
    SPAM_BURST,
    SPAM_INTERVAL_NS,
    EventCorrelator,
    EventRecorder,
)

NOW = 1_767_225_600_000_000_000
POD = {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default", "uid": "u"}


def report(
    correlator: EventCorrelator, message: str = "m", now: int = NOW, about: dict[str, Any] = POD
):
    return correlator.report(about, "Normal", "Tested", message, now)


def test_a_first_report_is_created():
    write = report(EventCorrelator("tester", "host"))
    assert write.known == ""
    assert write.tree["metadata"] == {"name": f"p.{NOW:x}", "namespace": "default"}
    assert write.tree["source"] == {"component": "tester", "host": "host"}
    assert (write.tree["count"], write.tree["message"]) == (1, "m")


def test_equal_reports_count_up():
    correlator = EventCorrelator("tester")
    first = report(correlator)
    second = report(correlator, now=NOW + 1_000_000_000)
    assert second.known == first.tree["metadata"]["name"]
    assert second.patch == {"count": 2, "lastTimestamp": "2026-01-01T00:00:01Z", "message": "m"}
    assert second.tree["firstTimestamp"] == "2026-01-01T00:00:00Z"


def test_another_field_of_the_object_makes_another_event():
    correlator = EventCorrelator("tester")
    report(correlator)
    assert report(correlator, about={**POD, "fieldPath": "spec.containers{c}"}).known == ""


def test_names_of_one_instant_differ():
    correlator = EventCorrelator("tester")
    names = {report(correlator, str(number)).tree["metadata"]["name"] for number in range(5)}
    assert len(names) == 5


def test_a_name_that_another_process_took_in_the_same_instant_is_given_up_for_good():
    correlator = EventCorrelator("tester")
    taken = report(correlator)
    again = correlator.renamed(taken)
    assert again.tree["metadata"] == {"name": f"p.{NOW + 1:x}", "namespace": "default"}
    assert report(correlator).known == f"p.{NOW + 1:x}"


def test_a_report_about_an_object_without_a_name_has_a_uid_for_a_name():
    nameless = {"apiVersion": "v1", "kind": "Pod", "name": ""}
    name = report(EventCorrelator("tester"), about=nameless).tree["metadata"]["name"]
    assert len(name) == 36
    assert "." not in name


def test_objects_without_namespace_are_reported_in_default():
    node = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}
    assert report(EventCorrelator("tester"), about=node).tree["metadata"]["namespace"] == "default"


def test_from_the_tenth_message_on_similar_reports_are_combined():
    correlator = EventCorrelator("tester")
    writes = [report(correlator, f"m{number}") for number in range(12)]
    assert [write.tree["message"] for write in writes[8:10]] == ["m8", COMBINED + "m9"]
    assert [write.tree["count"] for write in writes[9:]] == [1, 2, 3]
    assert writes[11].patch["message"] == COMBINED + "m11"


def test_after_ten_quiet_minutes_reports_stand_alone_again():
    correlator = EventCorrelator("tester")
    for number in range(12):
        report(correlator, f"m{number}")
    later = report(correlator, "again", NOW + SIMILAR_NS + 1)
    assert later.tree["message"] == "again"


def test_one_object_cannot_flood_the_server():
    correlator = EventCorrelator("tester")
    writes = [report(correlator) for _ in range(SPAM_BURST + 5)]
    assert [write is None for write in writes] == [False] * SPAM_BURST + [True] * 5
    assert report(correlator, now=NOW + SPAM_INTERVAL_NS) is not None
    assert report(correlator, now=NOW + SPAM_INTERVAL_NS) is None
    assert report(correlator, about={**POD, "uid": "other"}) is not None


class Plain:
    """What a correlator knows, in the form in which upstream keeps it: an entry for each, the newest last."""

    def __init__(self, remembered: int) -> None:
        self.remembered = remembered
        self.events: dict[Any, list[int]] = {}
        self.groups: dict[Any, tuple[list[str], int]] = {}
        self.tokens: dict[Any, int] = {}
        self.numbers: dict[str, int] = {}

    def keep(self, memory: dict[Any, Any], key: Any, value: Any) -> None:
        memory.pop(key, None)
        memory[key] = value
        if len(memory) > self.remembered:
            del memory[next(iter(memory))]

    def number(self, name: str, now: int) -> int:
        number = max(now, self.numbers.get(name, 0) + 1)
        self.keep(self.numbers, name, number)
        return number

    def report(self, uid: str, name: str, field: str, reason: str, message: str, now: int):
        """Number of the Event, its first time, its count and its message; None if nothing is written."""
        key: Any = (uid, field, reason, message)
        messages, last = self.groups.get((uid, reason), ([], now))
        messages = [] if now - last > SIMILAR_NS else messages
        messages = messages if message in messages else [*messages, message]
        if len(messages) >= 10:
            key, message, messages = (uid, reason), COMBINED + message, messages[1:]
        self.keep(self.groups, (uid, reason), (messages, now))
        if key in self.events:
            number, first, count = self.events[key]
            event = [number, first, count + 1]
        else:
            event = [self.number(name, now), now, 1]
        self.keep(self.events, key, event)
        full = now - SPAM_BURST * SPAM_INTERVAL_NS
        spent = max(self.tokens.get(uid, full), full) + SPAM_INTERVAL_NS
        if spent > now:
            return None
        self.keep(self.tokens, uid, spent)
        return (*event, message)


reports = st.tuples(
    st.sampled_from(["u1", "u2", "u3", "u4"]),
    st.sampled_from(["", "f"]),
    st.sampled_from(["A", "B"]),
    st.integers(0, 12),
    st.sampled_from([0, 0, 1, 10**9, SIMILAR_NS, SIMILAR_NS + 1]),
    st.booleans(),
)


@given(st.lists(reports, max_size=60), st.sampled_from([2, 3, 100]))
def test_reports_become_what_they_become_where_each_has_an_entry_of_its_own(found, remembered):
    correlator, plain, now = EventCorrelator("tester"), Plain(remembered), NOW
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_recorder, "REMEMBERED", remembered)
        patch.setattr(event_recorder, "REMEMBERED_MESSAGES", 2)
        for uid, field, reason, number, later, is_taken in found:
            now += later
            name = "p" if uid == "u1" else "q"
            about = {"kind": "Pod", "name": name, "uid": uid, "fieldPath": field}
            write = correlator.report(about, "Normal", reason, f"m{number}", now)
            wanted = plain.report(uid, name, field, reason, f"m{number}", now)
            assert (write is None) == (wanted is None)
            if write is None:
                continue
            tree = write.tree
            named, first, count, message = wanted
            assert tree["metadata"]["name"] == f"{name}.{named:x}"
            assert (tree["firstTimestamp"], tree["count"]) == (format_time(first), count)
            assert tree["message"] == message
            assert write.known == ("" if count == 1 else tree["metadata"]["name"])
            if is_taken and count == 1:
                correlator.renamed(write)
                other = plain.number(name, 0)
                for (subject, *_), event in plain.events.items():
                    if event[0] == named and (subject == "u1") == (uid == "u1"):
                        event[0] = other


def test_reports_are_posted_and_retried_while_the_server_is_down():
    heard: list[tuple[int, Request]] = []

    async def server(ctx: Context) -> None:
        while True:
            message = await ctx.recv(idle=True)
            heard.append((ctx.now, message.payload))
            tree = {"kind": "Event", "metadata": {"name": "e"}}
            message.reply(Response(201, tree, object=Object(tree)))

    async def component(ctx: Context) -> None:
        recorder = EventRecorder(ctx, "tester", NOW)
        recorder.about(POD, "Normal", "Tested", "one")
        await ctx.sleep(1)
        ctx.faults.crash("apiserver")
        recorder.about(POD, "Normal", "Tested", "two")
        await ctx.sleep(RETRY_NS // 2)
        ctx.faults.restart("apiserver")

    world = World(log=EventLog())
    world.actor("apiserver", server)
    world.actor("component", component)
    assert world.run("bare").verdict == "quiescent"
    assert [request.body["message"] for _, request in heard] == ["one", "two"]
    assert heard[1][0] == 1 + RETRY_NS
