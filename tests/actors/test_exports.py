"""What `actors` promises to others. A name that joins or leaves is a decision, so it is written down here."""

from __future__ import annotations

import actors

PUBLIC = """
ActorsError Cancelled Choice ChoiceList Condition Context DebugChecks Disk Divergence Event EventLog Exploration
Explored Fifo Finding
Killed LinkBroken LogEvent Mailbox Message PrefixThenContinue RandomWalk Recording RecordingError Replay RunResult
Signal
Strategy Task Timeout Unheard UsageError World explore record
""".split()


def test_the_public_names_are_these() -> None:
    assert sorted(actors.__all__, key=str) == sorted(PUBLIC)


def test_every_public_name_says_what_it_is() -> None:
    silent = [name for name in actors.__all__ if not (getattr(actors, name).__doc__ or "").strip()]
    assert silent == []
