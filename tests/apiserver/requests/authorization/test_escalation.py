import pytest

from controlplane.api.request import Request, User
from controlplane.apiserver.requests.authorization.escalation import missing_rights
from controlplane.apiserver.requests.authorization.rbac import GROUP
from tests.apiserver.requests.authorization.test_rbac import binding, rule
from tests.apiserver.world import World

BOB = User("bob", "", ("dev", "system:authenticated"))


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        ([rule("get list")], [rule("get")], []),
        ([rule("get")], [rule("get list watch")], [rule("list watch")]),
        ([rule("*", "*", "*")], [rule("*", "*", "*"), rule(names=["a"])], []),
        ([rule("*", "*", "*")], [rule(paths=["/x"])], [rule(paths=["/x"])]),
        ([rule(paths=["/x/*"])], [rule(paths=["/x/y"])], []),
        ([rule(resources="*/log")], [rule(resources="pods/log")], []),
        ([rule(resources="*/log")], [rule(resources="pods")], [rule()]),
        ([rule(names=["a"])], [rule(names=["a", "b"])], [rule(names=["b"])]),
        ([rule(names=["a"])], [rule()], [rule()]),
        ([rule(), rule("list")], [rule("get list")], []),
        ([], [rule("get", "apps", "a b")], [rule("get", "apps", "a"), rule("get", "apps", "b")]),
    ],
)
def test_rights_that_are_missing(held, wanted, missing):
    assert missing_rights(held, wanted) == missing


def role(name, *rules, kind="Role", **more):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "rules": list(rules),
        **more,
    }


@pytest.fixture
def world():
    world = World(authorize=True)
    dev = {"apiGroup": GROUP, "kind": "Group", "name": "dev"}
    made = world.create("rolebindings", binding("devs", "admin", dev), group=GROUP)
    assert made.ok, made.message
    return world


def as_bob(world, verb, resource, body, name="", namespace="default"):
    request = Request(verb, GROUP, "v1", resource, namespace, name, body=body, user=BOB)
    return world.server.handle(request, world.now)


def test_a_role_may_give_what_its_writer_has_and_no_more(world):
    made = as_bob(world, "create", "roles", role("ok", rule("get list")))
    assert made.ok, made.message
    found = as_bob(world, "create", "roles", role("no", rule("get list", "", "nodes pods")))
    assert found.code == 403
    assert found.message == (
        'roles.rbac.authorization.k8s.io "no" is forbidden: user "bob" (groups=["dev" '
        '"system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["nodes"], Verbs:["get" "list"]}'
    )
    more = {**made.tree, "rules": [rule("get", "", "nodes")]}
    assert as_bob(world, "update", "roles", more, "ok").code == 403
    fewer = {**made.tree, "rules": [rule("get")]}
    assert as_bob(world, "update", "roles", fewer, "ok").ok


def test_a_binding_gives_no_more_than_its_writer_has(world):
    eve = {"apiGroup": GROUP, "kind": "User", "name": "eve"}
    assert as_bob(world, "create", "rolebindings", binding("a", "view", eve)).ok
    found = as_bob(world, "create", "rolebindings", binding("b", "cluster-admin", eve))
    assert found.code == 403
    assert '{NonResourceURLs:["*"], Verbs:["*"]}' in found.message
    missing = as_bob(world, "create", "rolebindings", binding("c", "gone", eve))
    assert missing.code == 404
    assert missing.message == 'clusterroles.rbac.authorization.k8s.io "gone" not found'


def test_the_verbs_bind_and_escalate_lift_the_limit(world):
    eve = {"apiGroup": GROUP, "kind": "User", "name": "eve"}
    lifted = role(
        "lifted",
        rule("bind", GROUP, "clusterroles", ["cluster-admin"]),
        rule("escalate", GROUP, "roles"),
    )
    assert world.create("roles", lifted, group=GROUP).ok
    bob = {"apiGroup": GROUP, "kind": "User", "name": "bob"}
    given = binding("lifted", "lifted", bob, kind="Role")
    assert world.create("rolebindings", given, group=GROUP).ok
    assert as_bob(world, "create", "rolebindings", binding("b", "cluster-admin", eve)).ok
    assert as_bob(world, "create", "roles", role("all", rule("*", "*", "*"))).ok


def test_a_binding_to_what_is_no_role_fails_as_its_rules_are_looked_for(world):
    bound = binding("b", "admin", {"apiGroup": GROUP, "kind": "Group", "name": "dev"})
    body = {**bound, "roleRef": {**bound["roleRef"], "kind": "X"}}
    found = as_bob(world, "create", "rolebindings", body)
    assert (found.code, found.message) == (500, 'unsupported role reference kind: "X"')
