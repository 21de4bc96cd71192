"""A deterministic actor runtime on Trio. It knows nothing of Kubernetes.

From the inside out:

    errors      where the fault lies
    choices     the list of everything that was not determined
    strategies  answer a choice: first in first out, random walk, replay
    log, jsonl  every event, packed; and as JSON lines
    disk        what survives a crash
    process     tasks, actors, mailboxes: the parts that the kernel moves
    link, sync, inlet              between actors, between tasks, from outside
    kernel      the step: one runnable task at a time; its parts are lifecycle, transport, timers, faults,
                checks (invariants) and holding (tasks held at a point)
    drivers     Trio, and the bare loop; same trace
    context     the interface that actor code is given; declarations: the part that says what a step touches
    world       one run: declare, run, look at the result
    recording   a run on disk
    explore     many schedules of one scenario
    shrink      a finding in its shortest form
    footprint   what each step touched, and which runs differ only in the order of independent steps
    guard       a debug mode: do steps touch only what they say
    sharing     a debug mode: do actors share anything that can change
    testing     is it deterministic, and where not
"""

from actors.choices import Choice, ChoiceList
from actors.context import Context
from actors.disk import Disk
from actors.errors import (
    ActorsError,
    Cancelled,
    Divergence,
    Killed,
    LinkBroken,
    RecordingError,
    Timeout,
    UsageError,
)
from actors.explore import Exploration, Finding, explore
from actors.log import Event as LogEvent
from actors.log import EventLog, Unheard
from actors.process import Mailbox, Message, Task
from actors.recording import Recording
from actors.strategies import Fifo, PrefixThenContinue, RandomWalk, Replay, Strategy
from actors.sync import Condition, Event, Signal
from actors.world import DebugChecks, Explored, RunResult, World, record

__all__ = [
    "ActorsError",
    "Cancelled",
    "Choice",
    "ChoiceList",
    "Condition",
    "Context",
    "DebugChecks",
    "Disk",
    "Divergence",
    "Event",
    "EventLog",
    "Exploration",
    "Explored",
    "Fifo",
    "Finding",
    "Killed",
    "LinkBroken",
    "LogEvent",
    "Mailbox",
    "Message",
    "PrefixThenContinue",
    "RandomWalk",
    "Recording",
    "RecordingError",
    "Replay",
    "RunResult",
    "Signal",
    "Strategy",
    "Task",
    "Timeout",
    "Unheard",
    "UsageError",
    "World",
    "explore",
    "record",
]
