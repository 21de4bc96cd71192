"""What logs, exec, attach and ports of a pod lead to: its own object first, then the first that selects it."""

from __future__ import annotations

import pytest

from controlplane.api.host_access import Address, LogFile, LogOptions, Ports, Program, Refusal
from controlplane.errors import UsageError
from controlplane.kwok.debugging import Debugging, read, topic_of


def of(kind, selector=None, name="p", namespace="shop", **spec):
    if selector is not None:
        spec["selector"] = selector
    return read(
        {
            "apiVersion": "kwok.x-k8s.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    )


def debugging(kind, *rules):
    return Debugging({topic_of(kind): rules})


def log(found, pod="p", container="main", *, previous=False):
    return found.log("shop", pod, container, LogOptions(), previous=previous)


def test_a_named_container_wins_over_an_entry_for_all():
    rule = of("ClusterLogs", logs=[{"logsFile": "all"}, {"containers": ["main"], "logsFile": "m"}])
    found = debugging("Logs", rule)
    assert log(found) == LogFile("m", LogOptions())
    assert log(found, container="side") == LogFile("all", LogOptions())


def test_the_previous_run_has_a_file_of_its_own():
    rule = of("ClusterLogs", logs=[{"logsFile": "now", "previousLogsFile": "before"}])
    assert log(debugging("Logs", rule), previous=True) == LogFile("before", LogOptions())


def test_a_pods_own_object_is_the_only_one_that_is_asked():
    own = of("Logs", logs=[{"containers": ["main"], "logsFile": "own"}])
    every = of("ClusterLogs", logs=[{"logsFile": "all"}])
    found = debugging("Logs", every, own)
    assert log(found) == LogFile("own", LogOptions())
    text = 'log target not found for container "side" in pod "shop/p"'
    assert log(found, container="side") == Refusal(text)
    assert log(found, pod="q", container="side") == LogFile("all", LogOptions())


def test_the_first_object_that_selects_the_pod_and_knows_the_container_answers():
    elsewhere = of("ClusterLogs", {"matchNamespaces": ["other"]}, logs=[{"logsFile": "no"}])
    unnamed = of("ClusterLogs", {"matchNames": ["q"]}, logs=[{"logsFile": "no"}])
    silent = of("ClusterLogs", logs=[{"containers": ["side"], "logsFile": "side"}])
    last = of("ClusterLogs", {"matchNamespaces": ["shop"]}, logs=[{"logsFile": "yes"}])
    found = debugging("Logs", elsewhere, unnamed, silent, last)
    assert log(found) == LogFile("yes", LogOptions())
    nothing = debugging("Logs", elsewhere, unnamed, silent)
    assert log(nothing) == Refusal('no logs found for container "main" in pod "shop/p"')


def test_a_topic_without_objects_is_left_to_the_emulated_container():
    found = debugging("Logs", of("ClusterLogs", logs=[]))
    assert found.exec("shop", "p", "main") is None
    assert found.attach("shop", "p", "main") is None
    assert found.ports("shop", "p") is None
    assert isinstance(log(found), Refusal)


def test_attach_follows_a_file_from_its_end():
    found = debugging("Attach", of("Attach", attaches=[{"logsFile": "out"}]))
    assert found.attach("shop", "p", "main") == LogFile("out", LogOptions(tail=0, follow=True))
    assert found.attach("other", "p", "main") == Refusal(
        'no attaches found for container "main" in pod "other/p"'
    )


def test_exec_tells_directory_environment_and_user():
    local = {
        "workDir": "/srv",
        "envs": [{"name": "A", "value": "b"}, {"name": "E"}],
        "securityContext": {"runAsUser": 7, "runAsGroup": 8},
    }
    rule = of("ClusterExec", execs=[{"local": local}, {"containers": ["bare"]}])
    found = debugging("Exec", rule)
    env = (("A", "b"), ("E", ""))
    assert found.exec("shop", "p", "main") == Program((), "/srv", env, 7, 8)
    assert found.exec("shop", "p", "bare") == Refusal("not set local exec")


def test_ports_lead_to_addresses_and_programs():
    rule = of(
        "PortForward",
        forwards=[
            {"ports": [80], "target": {"address": "localhost", "port": 9000}},
            {"ports": [81], "command": ["nc", "host"], "target": {"address": "x", "port": 1}},
            {"ports": [82]},
        ],
    )
    found = debugging("PortForward", rule).ports("shop", "p")
    assert isinstance(found, Ports)
    assert found.pod == "p/shop"
    assert found.at(80) == Address("localhost", 9000)
    assert found.at(81) == Program(("nc", "host"))
    assert found.at(82) == Refusal("no target or command")
    assert found.at(83) == Refusal('forward not found for port 83 in pod "shop/p"')


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("Logs", {"selector": {}}, "spec.selector: no such field"),
        ("Logs", {"logs": [{"logsFile": 5}]}, r"spec.logs\[0\].logsFile: 5: expected a text"),
        ("Logs", {"logs": [{"logsFile": "a\0"}]}, "expected a text without NUL"),
        ("Logs", {"logs": [{"follow": "yes"}]}, "follow: 'yes': expected true or false"),
        ("Logs", {"logs": [{"file": "x"}]}, r"spec.logs\[0\].file: no such field"),
        ("Logs", {"logs": [{"containers": [""]}]}, r"containers\[0\]: '': expected a text"),
        ("Attach", {"attaches": [{"previousLogsFile": "x"}]}, "previousLogsFile: no such field"),
        ("Exec", {"execs": [{"local": {"envs": [{"value": "x"}]}}]}, r"envs\[0\].name: None"),
        ("Exec", {"execs": [{"local": {"envs": [{"name": "a=b"}]}}]}, "expected a name without ="),
        (
            "Exec",
            {"execs": [{"local": {"securityContext": {"runAsUser": -1}}}]},
            "runAsUser: -1: expected a whole number from 0 to 4294967295",
        ),
        ("PortForward", {"forwards": [{"ports": [70000]}]}, "from 0 to 65535"),
        ("PortForward", {"forwards": [{"target": {"port": 1}}]}, "target.address: None"),
        ("PortForward", {"forwards": [{"target": {"address": "x"}}]}, "target.port: None"),
    ],
)
def test_a_wrong_field_is_named(kind, spec, told):
    with pytest.raises(UsageError, match=told):
        of(kind, **spec)
