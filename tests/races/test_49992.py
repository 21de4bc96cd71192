"""A watch from before the server's list. See `test_catalogue` for what all races share."""

from __future__ import annotations

from controlplane.races import catalogue
from controlplane.scenarios.search.exploring import Campaign

RACE = catalogue.find("49992")


def test_a_client_that_begins_with_a_stream_misses_events_all_the_same():
    """The gap is where the watch is opened again, not where the state comes from."""
    assert Campaign(RACE.unfixed(watch_list=True)).explore(RACE.schedules).findings
