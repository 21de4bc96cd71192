"""Events."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.references import ObjectReference
from controlplane.api.times import Time
from controlplane.api.view import View


@attrs.frozen
class EventSource:
    """The component that reports an event."""

    component: str = ""
    host: str = ""


@attrs.frozen
class EventSeries:
    """Repetition of an event."""

    count: int = 0
    last_observed_time: Time | None = None


@attrs.frozen(eq=False)
class Event(View):
    """Something that happened to an object."""

    API_VERSION: ClassVar[str] = "v1"
    KIND: ClassVar[str] = "Event"

    action: str = ""
    count: int = 0
    event_time: Time | None = None
    first_timestamp: Time | None = None
    involved_object: ObjectReference = attrs.field(factory=ObjectReference)
    last_timestamp: Time | None = None
    message: str = ""
    reason: str = ""
    related: ObjectReference | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    series: EventSeries | None = None
    source: EventSource = attrs.field(factory=EventSource)
    type: str = ""
