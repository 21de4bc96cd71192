"""Plugins of users: a policy enables them by name, beside those of the descheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controlplane.api.node import Node
from controlplane.decisions import at_once
from controlplane.descheduler.evictions import Eviction, Limits, PodEvictor
from controlplane.descheduler.framework import BalancePlugin, EvictorPlugin, PluginError
from controlplane.descheduler.plugins.own import load
from controlplane.descheduler.policy import PolicyError, policy_of
from controlplane.descheduler.profiles import build, run_pass
from controlplane.descheduler.world import World
from controlplane.errors import UsageError
from tests.descheduler.test_profiles import pod

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "descheduler" / "maintenance.py")
LABEL = "example.com/maintenance"


def profile(name: str, points: tuple[str, ...], args: dict[str, Any] | None = None) -> Any:
    return {
        "name": "own",
        "pluginConfig": [{"name": name, "args": args or {}}],
        "plugins": {point: {"enabled": [name]} for point in points},
    }


def world() -> World:
    meta = {"name": "node-1", "labels": {LABEL: "soon"}}
    nodes = [Node.from_tree({"metadata": meta}), Node.from_tree({"metadata": {"name": "node-2"}})]
    return World(nodes=nodes, pods=[pod("a", "node-1"), pod("b", "node-2"), pod("c", "node-1")])


def evicted(tree: Any, own: Any) -> tuple[list[str], list[str]]:
    """The pods that a pass evicts, and the errors of its plugins."""
    evictor = PodEvictor(Limits(), lambda note: None)
    asked: list[str] = []
    failed: list[str] = []

    def answer(eviction: Eviction) -> None:
        asked.append(eviction.pod.metadata.name)

    seen = world()
    built = [build(tree, seen, evictor, {}, own)]
    told = lambda name, message: failed.append(f"{name}: {message}")  # noqa: E731
    at_once(run_pass(built, list(seen.nodes), evictor, told), answer)
    return asked, failed


def test_the_plugin_of_the_example_empties_the_nodes_that_carry_its_label():
    own = load([EXAMPLE], ())
    assert evicted(profile("Maintenance", ("deschedule",)), own) == (["a", "c"], [])
    other = profile("Maintenance", ("deschedule",), {"label": "other"})
    assert evicted(other, own) == ([], [])


class OnlyC(EvictorPlugin, BalancePlugin):
    """Evicts whatever the filters let pass."""

    name = "OnlyC"

    def filter(self, pod):
        return pod.metadata.name == "c"

    def balance(self, nodes):
        for node in nodes:
            pods = self.handle.world.running_on(node.metadata.name, self.handle.may_go)
            yield from self.handle.evict_each(pods, self.name)


class Late(OnlyC):
    """The same at the other point."""

    name = "Late"

    def filter(self, pod):
        return True

    def pre_eviction_filter(self, pod):
        return pod.metadata.name == "b"


class Failing(BalancePlugin):
    """Ends with an error after an eviction."""

    name = "Failing"

    def balance(self, nodes):
        yield from self.handle.evict(self.handle.world.pods[0], self.name)
        raise PluginError("no more")


class Looking(BalancePlugin):
    """Evicts nothing, and so yields nothing."""

    name = "Looking"

    def balance(self, nodes):
        assert len(nodes) == 2


OWN = {each.name: each for each in (OnlyC, Late, Failing, Looking)}


def test_a_filter_of_a_user_refuses_pods_besides_the_default_evictor():
    assert evicted(profile("OnlyC", ("balance",)), OWN)[0] == ["a", "c", "b"]
    assert evicted(profile("OnlyC", ("balance", "filter")), OWN)[0] == ["c"]
    assert evicted(profile("Late", ("balance", "filter")), OWN)[0] == ["a", "c", "b"]
    assert evicted(profile("Late", ("balance", "preevictionfilter")), OWN)[0] == ["b"]


def test_a_plugin_may_yield_nothing():
    assert evicted(profile("Looking", ("balance",)), OWN) == ([], [])


def test_an_error_of_a_plugin_is_told_and_ends_nothing_else():
    told = 'own: plugin "Failing" finished with error: no more'
    assert evicted(profile("Failing", ("balance",)), OWN) == (["a"], [told])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (profile("OnlyC", ("deschedule",)), "non-existing plugins: map[OnlyC:{}]"),
        (profile("Unknown", ()), "plugin Unknown in pluginConfig not registered"),
        (
            {**profile("OnlyC", ("filter",)), "pluginConfig": []},
            'unable to find "OnlyC" plugin config',
        ),
    ],
)
def test_a_policy_is_refused_as_with_the_plugins_of_the_descheduler(tree, message):
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    with pytest.raises(PolicyError) as caught:
        policy_of({**head, "profiles": [tree]}, own=OWN)
    assert message in str(caught.value)


def test_arguments_that_the_constructor_refuses_are_an_error_of_the_policy():
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    tree = profile("Maintenance", ("deschedule",), {"label": ""})
    with pytest.raises(PolicyError, match='initialize "Maintenance" plugin: label: expected'):
        policy_of({**head, "profiles": [tree]}, own=load([EXAMPLE], ()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("x = 1\n", "defines no descheduler plugin with a name"),
        ("class A(Plugin):\n    name = 'A'\n", "plugin 'A': expected a base"),
        ("class A(BalancePlugin):\n    name = 'PodLifeTime'\n", "'PodLifeTime' exists already"),
    ],
)
def test_a_module_that_will_not_do_is_one_line(tmp_path, text, message):
    path = tmp_path / "mine.py"
    path.write_text(f"from controlplane.descheduler.framework import *\n{text}")
    with pytest.raises(UsageError, match=message) as found:
        load([str(path)], ("PodLifeTime",))
    assert "\n" not in str(found.value)
