"""The surroundings of a process, the services that it answers for, and invariants of a user."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.operators.container import Credentials, lives, services_of, surroundings
from controlplane.operators.description import ProcessRule
from controlplane.operators.invariants import checks_of, violations_of
from controlplane.operators.observation import Change

RULE = ProcessRule("example.com/op:*", ("op", "{args}", "--more"), "/", (("A", "mine"),))
POD = {
    "metadata": {"name": "op-1", "namespace": "ops", "uid": "u"},
    "spec": {
        "volumes": [
            {"name": "certs", "secret": {"secretName": "tls"}},
            {"name": "tmp", "emptyDir": {}},
        ],
        "containers": [
            {
                "name": "main",
                "image": "example.com/op:1",
                "args": ["--leader-elect"],
                "env": [
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "A", "value": "theirs"},
                ],
                "ports": [{"name": "hook", "containerPort": 9443}],
                "volumeMounts": [
                    {"name": "certs", "mountPath": "/certs"},
                    {"name": "tmp", "mountPath": "/tmp"},
                ],
            },
            {"name": "side", "image": "example.com/other:1"},
        ],
    },
    "status": {
        "containerStatuses": [{"name": "main", "containerID": "c1", "state": {"running": {}}}]
    },
}


def test_a_process_has_what_its_container_has():
    (life,) = lives([POD], [RULE])
    assert (life.container, life.container_id) == ("main", "c1")

    def find(resource, _namespace, name):
        assert (resource, name) == ("secrets", "tls")
        return {"kind": "Secret", "data": {"tls.crt": "eA=="}}

    found = surroundings(
        life, find, Credentials("127.0.0.1", 1234, "token", b"ca"), {"PATH": "/bin", "X": "y"}
    )
    assert found.command == ("op", "--leader-elect", "--more")
    assert found.env["POD"] == "op-1"
    assert found.env["A"] == "mine"
    assert found.env["KUBERNETES_SERVICE_PORT"] == "1234"
    assert found.env["PATH"] == "/bin"
    assert "X" not in found.env
    assert found.files["/certs/tls.crt"] == b"x"
    assert found.files["/var/run/secrets/kubernetes.io/serviceaccount/namespace"] == b"ops"
    assert found.folders == ("/certs", "/var/run/secrets/kubernetes.io/serviceaccount")
    assert found.hostname == "op-1"


@pytest.mark.parametrize(
    "change", [{"status": {}}, {"metadata": {**POD["metadata"], "deletionTimestamp": "x"}}]
)
def test_a_container_that_does_not_run_is_no_process(change):
    assert list(lives([{**POD, **change}], [RULE])) == []


@pytest.mark.parametrize(("target", "port"), [("hook", 9443), (8443, 8443), ("none", None)])
def test_a_service_of_a_process_answers_at_its_containers_port(target, port):
    template = {"metadata": {"labels": {"app": "op", "x": "y"}}, "spec": POD["spec"]}
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "op", "namespace": "ops"},
        "spec": {"template": template},
    }
    service = {
        "kind": "Service",
        "metadata": {"name": "hooks", "namespace": "ops"},
        "spec": {"selector": {"app": "op"}, "ports": [{"port": 443, "targetPort": target}]},
    }
    other = {**service, "metadata": {"name": "hooks", "namespace": "elsewhere"}}
    found = services_of([deployment, service, other], [RULE])
    assert found == ({} if port is None else {"hooks.ops": port})


def test_invariants_are_asked_at_each_revision(tmp_path):
    path = tmp_path / "checks.py"
    path.write_text(
        "def check_one(objects):\n"
        "    if len(objects) > 1:\n"
        "        return f'{len(objects)} objects'\n"
    )
    changes = [
        Change(1, "things", "a", {"metadata": {}}),
        Change(2, "things", "b", {"metadata": {}}),
        Change(3, "things", "a", None, {"metadata": {}}),
    ]
    assert violations_of(changes, checks_of([str(path)])) == ("check_one: 2 objects (revision 2)",)
    assert violations_of(changes[:1], checks_of([str(path)])) == ()


def test_a_file_without_invariants_or_with_an_error_is_one_line(tmp_path):
    path = tmp_path / "checks.py"
    path.write_text("x = 1")
    with pytest.raises(UsageError, match=r"checks.py: expected functions check_"):
        checks_of([str(path)])
    path.write_text("def check_a(objects): return objects['no']")
    with pytest.raises(UsageError, match="check_a: KeyError"):
        violations_of([Change(1, "t", "a", {})], checks_of([str(path)]))
