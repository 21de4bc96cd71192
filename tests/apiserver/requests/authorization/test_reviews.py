"""Access reviews and rules reviews, against the stored roles."""

import pytest

from controlplane.api.request import Request, User
from controlplane.apiserver.requests.authorization.rbac import GROUP
from tests.apiserver.requests.authorization.test_rbac import binding
from tests.apiserver.world import World

REVIEWS = "authorization.k8s.io"
BOB = User("bob", "", ("dev", "system:authenticated"))
ROOT = User("root", "", ("system:masters", "system:authenticated"))
LIST_PODS = {"verb": "list", "resource": "pods", "namespace": "default"}


@pytest.fixture
def world():
    world = World(authorize=True)
    dev = {"apiGroup": GROUP, "kind": "Group", "name": "dev"}
    robot = {"kind": "ServiceAccount", "name": "robot"}
    for name, role, who in (("devs", "view", dev), ("robots", "edit", robot)):
        made = world.create("rolebindings", binding(name, role, who), group=GROUP)
        assert made.ok, made.message
    return world


def review(world, kind, spec, *, user=ROOT, namespace="", metadata=None):
    body = {"apiVersion": f"{REVIEWS}/v1", "kind": kind, "spec": spec}
    if metadata is not None:
        body["metadata"] = metadata
    request = Request("create", REVIEWS, "v1", f"{kind.lower()}s", namespace, body=body, user=user)
    return world.server.handle(request, world.now)


def allowed(world, spec, **more):
    found = review(world, "SubjectAccessReview", spec, **more)
    assert found.code == 201, found.message
    return found.tree["status"]


def test_what_i_may_do_myself(world):
    def may(user, **wish):
        spec = {"resourceAttributes": {**LIST_PODS, **wish}}
        return review(world, "SelfSubjectAccessReview", spec, user=user).tree["status"]

    assert may(ROOT) == {"allowed": True}
    assert may(BOB) == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "devs/default" of ClusterRole "view" to Group "dev"',
    }
    assert may(BOB, namespace="kube-system") == {"allowed": False}
    assert may(BOB, verb="delete") == {"allowed": False}


def test_what_another_user_may_do(world):
    spec = {"resourceAttributes": {**LIST_PODS, "verb": "delete"}}
    robot = "system:serviceaccount:default:robot"
    assert allowed(world, {**spec, "user": robot}) == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "robots/default" of ClusterRole "edit"'
        ' to ServiceAccount "robot/default"',
    }
    assert allowed(world, {**spec, "groups": ["dev"]}) == {"allowed": False}
    path = {"nonResourceAttributes": {"verb": "get", "path": "/version"}}
    assert not allowed(world, {**path, "user": "eve"})["allowed"]
    assert allowed(world, {**path, "groups": ["system:authenticated"]})["allowed"]


def test_a_role_that_is_gone_is_named(world):
    eve = {"apiGroup": GROUP, "kind": "User", "name": "eve"}
    gone = binding("gone", "nothing", eve, kind="Role")
    assert world.create("rolebindings", gone, group=GROUP).ok
    spec = {"user": "eve", "resourceAttributes": LIST_PODS}
    assert allowed(world, spec) == {
        "allowed": False,
        "reason": 'RBAC: role.rbac.authorization.k8s.io "nothing" not found',
    }


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"user": "a"}, "spec.resourceAttributes: Invalid value: null: exactly one of"),
        ({"resourceAttributes": LIST_PODS}, 'spec.user: Invalid value: "": at least one of user'),
        (
            {
                "user": "a",
                "resourceAttributes": LIST_PODS,
                "nonResourceAttributes": {"verb": "get", "path": "/"},
            },
            "cannot be specified in combination with resourceAttributes",
        ),
    ],
)
def test_reviews_that_ask_nothing_sensible(world, spec, text):
    found = review(world, "SubjectAccessReview", spec)
    assert found.code == 422
    assert text in found.message


def test_a_review_has_no_name(world):
    found = review(
        world, "SelfSubjectAccessReview", {"resourceAttributes": LIST_PODS}, metadata={"name": "x"}
    )
    assert found.code == 422
    assert "metadata: Invalid value" in found.message


def test_a_local_review_stays_in_its_namespace(world):
    def ask(namespace, **spec):
        return review(
            world, "LocalSubjectAccessReview", {"user": "bob", **spec}, namespace=namespace
        )

    wish = {"resourceAttributes": LIST_PODS}
    assert ask("default", groups=["dev"], **wish).tree["status"]["allowed"]
    elsewhere = ask("kube-system", **wish)
    assert elsewhere.code == 422
    assert "must match metadata.namespace" in elsewhere.message
    path = ask("default", nonResourceAttributes={"verb": "get", "path": "/"})
    assert path.code == 422
    assert "disallowed on this kind of request" in path.message


def test_all_my_rules(world):
    def rules(user, namespace="default"):
        found = review(world, "SelfSubjectRulesReview", {"namespace": namespace}, user=user)
        assert found.code == 201, found.message
        return found.tree["status"]

    mine = rules(BOB)
    assert mine["incomplete"] is False
    assert "evaluationError" not in mine
    pods = [rule for rule in mine["resourceRules"] if "pods" in rule["resources"]]
    assert [rule["verbs"] for rule in pods] == [["get", "list", "watch"]]
    assert any("/version" in rule["nonResourceURLs"] for rule in mine["nonResourceRules"])
    elsewhere = rules(BOB, "kube-system")
    assert not any("pods" in rule["resources"] for rule in elsewhere["resourceRules"])
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert every in rules(ROOT)["resourceRules"]
    assert review(world, "SelfSubjectRulesReview", {}, user=BOB).code == 400
