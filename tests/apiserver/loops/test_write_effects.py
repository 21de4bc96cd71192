"""What a write did is noted, with any number of servers: the fields that it changed, and that the object went."""

from __future__ import annotations

import pytest

from actors import EventLog, Fifo
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of


async def workload(user) -> None:
    """An object is changed, kept by a finalizer when it is deleted, and let go."""
    tree = config_map("settings", colour="red")
    tree["metadata"]["finalizers"] = ["example.com/wait"]
    await user.create(tree)
    await user.patch("ConfigMap", "settings", {"data": {"colour": "blue"}})
    await user.delete("ConfigMap", "settings")
    await user.patch("ConfigMap", "settings", {"metadata": {"finalizers": None}})
    await user.create(config_map("plain"))
    await user.delete("ConfigMap", "plain")


def run(servers: int, log: EventLog) -> Execution:
    scenario = Scenario("changes", workload=workload, defaults={"nodes": 0})
    done = Execution(plan_of(scenario, apiservers=servers), Fifo(), log=log)
    assert done.execute("bare").ok
    return done


@pytest.mark.parametrize("servers", [1, 2])
def test_fields_and_removals_are_noted_by_every_server(servers) -> None:
    events = [
        event
        for event in run(servers, EventLog()).world.log
        if (event.obj or "").startswith("ConfigMap/default/")
    ]
    changed = [list(event.data["fields"]) for event in events if event.event == "apiserver.changed"]
    assert ["data.colour"] in changed
    writes = {event.rv: event for event in events if event.event == "apiserver.write" and event.rv}
    gone = [(event.obj, event.rv) for event in events if event.event == "apiserver.removed"]
    assert [obj for obj, _ in gone] == ["ConfigMap/default/settings", "ConfigMap/default/plain"]
    assert [writes[rv].data["verb"].split()[0] for _, rv in gone] == ["patch", "delete"]


@pytest.mark.parametrize("servers", [1, 2])
def test_notes_do_not_move_the_trace(servers) -> None:
    whole, nothing = (run(servers, EventLog(keep=keep)).world.log.close() for keep in (True, False))
    assert whole == nothing
