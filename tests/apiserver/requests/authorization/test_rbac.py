import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.request import Request, User
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.authorization.policy import (
    aggregated_rules,
    default_bindings,
    default_roles,
)
from controlplane.apiserver.requests.authorization.rbac import (
    GROUP,
    Attributes,
    Policy,
    attributes_of,
    authorize,
    decide,
    policy_of,
    requested,
    rule_covers,
)
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.status import ApiError
from tests.apiserver.world import World, config_map

BOB = User("bob", "", ("dev", "system:authenticated"))
ROOT = User("root", "", ("system:masters",))
BUILDER = User("system:serviceaccount:ci:builder", "", ("system:serviceaccounts",))
ANONYMOUS = User("system:anonymous", "", ("system:unauthenticated",))
NS = "/api/v1/namespaces/ns"
SELECTOR = {"fieldSelector": ["metadata.name=a"]}


def rule(verbs="get", groups="", resources="pods", names=(), paths=()):
    if paths:
        return {"verbs": verbs.split(), "nonResourceURLs": list(paths)}
    tree = {
        "verbs": verbs.split(),
        "apiGroups": groups.split() or [""],
        "resources": resources.split(),
    }
    return {**tree, "resourceNames": list(names)} if names else tree


def binding(name, role, *subjects, kind="ClusterRole"):
    return {
        "metadata": {"name": name},
        "subjects": list(subjects),
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    }


def subject(kind, name, **more):
    return {"kind": kind, "name": name, **more}


def policy(cluster_roles=None, roles=None, cluster_bindings=(), bindings=None):
    return Policy(
        lambda name: (cluster_roles or {}).get(name),
        lambda namespace, name: (roles or {}).get((namespace, name)),
        lambda: cluster_bindings,
        lambda namespace: (bindings or {}).get(namespace, ()),
    )


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", f"{NS}/pods/a", {}, Attributes("get", "", "pods", "", "ns", "a")),
        ("HEAD", f"{NS}/pods", {}, Attributes("list", "", "pods", "", "ns")),
        ("GET", f"{NS}/pods", {"watch": ["yes"]}, Attributes("watch", "", "pods", "", "ns")),
        ("GET", f"{NS}/pods", {"watch": ["0"]}, Attributes("list", "", "pods", "", "ns")),
        ("GET", "/api/v1/watch/pods", {}, Attributes("watch", "", "pods")),
        ("GET", f"{NS}/pods", SELECTOR, Attributes("list", "", "pods", "", "ns", "a")),
        (
            "GET",
            f"{NS}/pods",
            {"fieldSelector": ["metadata.name=a/b"]},
            Attributes("list", "", "pods", "", "ns"),
        ),
        ("GET", f"{NS}/pods", {"fieldSelector": ["!!"]}, Attributes("list", "", "pods", "", "ns")),
        ("DELETE", f"{NS}/pods", SELECTOR, Attributes("deletecollection", "", "pods", "", "ns")),
        (
            "POST",
            f"{NS}/pods/a/binding",
            {},
            Attributes("create", "", "pods", "binding", "ns", "a"),
        ),
        ("GET", NS, {}, Attributes("get", "", "namespaces", "", "ns", "ns")),
        (
            "PUT",
            f"{NS}/finalize",
            {},
            Attributes("update", "", "namespaces", "finalize", "ns", "ns"),
        ),
        ("GET", "/api/v1/nodes", {}, Attributes("list", "", "nodes")),
        (
            "PATCH",
            "/apis/none.such/v9/namespaces/ns/things/a",
            {},
            Attributes("patch", "none.such", "things", "", "ns", "a"),
        ),
        ("GET", "/apis/apps/v1", {}, Attributes("get", path="/apis/apps/v1")),
        ("GET", "/api/v1/proxy/x/a", {}, Attributes("proxy", "", "x", "", "", "a")),
        ("GET", "/api/v1//x/n", {}, Attributes("get", "", "", "n", "", "x")),
        ("POST", "/metrics", {}, Attributes("post", path="/metrics")),
    ],
)
def test_what_an_http_request_asks_for(method, path, query, expected):
    assert attributes_of(HttpRequest(method, path, query)) == expected


def test_what_a_component_asks_for():
    query = {"fieldSelector": "metadata.name=a"}
    asked = requested(Request("watch", resource="pods", namespace="ns", query=query))
    assert asked == Attributes("watch", "", "pods", "", "ns", "a")
    asked = requested(Request("delete", resource="namespaces", name="ns"))
    assert asked == Attributes("delete", "", "namespaces", "", "ns", "ns")


GET_POD = Attributes("get", "", "pods", "", "ns", "a")
GET_LOG = Attributes("get", "", "pods", "log", "ns", "a")


@pytest.mark.parametrize(
    ("given_rule", "asked", "covered"),
    [
        (rule(), GET_POD, True),
        (rule("list"), GET_POD, False),
        (rule("*"), GET_POD, True),
        (rule(groups="apps"), GET_POD, False),
        (rule(groups="*"), GET_POD, True),
        (rule(), GET_LOG, False),
        (rule(resources="pods/log"), GET_LOG, True),
        (rule(resources="pods/log"), GET_POD, False),
        (rule(resources="*/log"), GET_LOG, True),
        (rule(resources="*/log"), GET_POD, False),
        (rule(resources="pods/*"), GET_LOG, False),
        (rule(resources="*"), GET_LOG, True),
        (rule(names=["a"]), GET_POD, True),
        (rule(names=["b"]), GET_POD, False),
        (rule("list", names=["a"]), Attributes("list", "", "pods", "", "ns"), False),
        (rule("list", names=["a"]), Attributes("list", "", "pods", "", "ns", "a"), True),
        (rule(paths=["/healthz"]), Attributes("get", path="/healthz"), True),
        (rule(paths=["/healthz"]), Attributes("get", path="/healthz/etcd"), False),
        (rule(paths=["/healthz/*"]), Attributes("get", path="/healthz/etcd"), True),
        (rule(paths=["/healthz/*"]), Attributes("get", path="/healthz"), False),
        (rule(paths=["*"]), Attributes("get", path="/x"), True),
        (rule(paths=["*"]), GET_POD, False),
        (rule("*", "*", "*"), Attributes("get", path="/x"), False),
        ({}, GET_POD, False),
    ],
)
def test_what_a_rule_covers(given_rule, asked, covered):
    assert rule_covers(given_rule, asked) is covered


@pytest.mark.parametrize(
    ("who", "user", "in_cluster", "in_namespace"),
    [
        (subject("User", "bob"), BOB, True, True),
        (subject("User", "dev"), BOB, False, False),
        (subject("Group", "dev"), BOB, True, True),
        (subject("Group", "bob"), BOB, False, False),
        (subject("ServiceAccount", "builder", namespace="ci"), BUILDER, True, True),
        (subject("ServiceAccount", "builder", namespace="ns"), BUILDER, False, False),
        (subject("ServiceAccount", "builder"), BUILDER, False, False),
        (subject("User", BUILDER.name), BUILDER, True, True),
        (subject("Robot", "bob"), BOB, False, False),
    ],
)
def test_whom_a_binding_means(who, user, in_cluster, in_namespace):
    roles = {"reader": {"rules": [rule()]}}
    clusterwide = policy(roles, cluster_bindings=[binding("b", "reader", who)])
    local = policy(roles, bindings={"ns": [binding("b", "reader", who)]})
    assert decide(clusterwide, user, GET_POD).allowed is in_cluster
    assert decide(local, user, GET_POD).allowed is in_namespace
    elsewhere = Attributes("get", "", "pods", "", "other", "a")
    assert not decide(local, user, elsewhere).allowed


def test_a_service_account_without_namespace_is_the_bindings_own():
    roles = {("ci", "reader"): {"rules": [rule()]}}
    given = binding("b", "reader", subject("ServiceAccount", "builder"), kind="Role")
    asked = Attributes("get", "", "pods", "", "ci", "a")
    assert decide(policy(roles=roles, bindings={"ci": [given]}), BUILDER, asked).allowed


def test_a_role_binding_says_nothing_about_the_cluster():
    everything = {"all": {"rules": [rule("*", "*", "*"), rule("*", paths=["*"])]}}
    given = policy(everything, bindings={"ns": [binding("b", "all", subject("User", "bob"))]})
    assert decide(given, BOB, GET_POD).allowed
    for asked in (Attributes("list", "", "pods"), Attributes("get", path="/metrics")):
        assert not decide(given, BOB, asked).allowed


def test_masters_are_asked_for_no_rule():
    assert decide(policy(), ROOT, Attributes("get", path="/x")).allowed


def refusal(given, user, asked):
    with pytest.raises(ApiError) as caught:
        authorize(given, user, asked)
    assert caught.value.code == 403
    assert caught.value.reason == "Forbidden"
    return caught.value


@pytest.mark.parametrize(
    ("user", "asked", "message", "details"),
    [
        (
            BOB,
            GET_POD,
            'pods "a" is forbidden: User "bob" cannot get resource "pods" in API group "" '
            'in the namespace "ns"',
            {"name": "a", "kind": "pods"},
        ),
        (
            BOB,
            Attributes("list", "apps", "deployments", "", "ns"),
            'deployments.apps is forbidden: User "bob" cannot list resource "deployments" in API '
            'group "apps" in the namespace "ns"',
            {"group": "apps", "kind": "deployments"},
        ),
        (
            BOB,
            GET_LOG,
            'pods "a" is forbidden: User "bob" cannot get resource "pods/log" in API group "" '
            'in the namespace "ns"',
            {"name": "a", "kind": "pods"},
        ),
        (
            BUILDER,
            Attributes("list", "", "nodes"),
            'nodes is forbidden: User "system:serviceaccount:ci:builder" cannot list resource '
            '"nodes" in API group "" at the cluster scope',
            {"kind": "nodes"},
        ),
        (
            ANONYMOUS,
            Attributes("get", path="/api"),
            'forbidden: User "system:anonymous" cannot get path "/api"',
            {},
        ),
    ],
)
def test_a_refusal_says_what_was_asked(user, asked, message, details):
    found = refusal(policy(), user, asked)
    assert found.message == message
    assert found.details == details


def test_a_refusal_names_roles_that_are_missing():
    given = policy(
        cluster_bindings=[
            binding("b", "gone", subject("User", "bob")),
            binding("c", "gone", subject("User", "eve")),
        ],
        bindings={"ns": [binding("d", "lost", subject("User", "bob"), kind="Role")]},
    )
    message = refusal(given, BOB, GET_POD).message
    assert message.endswith(
        'in the namespace "ns": RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
        'role.rbac.authorization.k8s.io "lost" not found]'
    )
    message = refusal(given, BOB, Attributes("list", "", "nodes")).message
    assert message.endswith('cope: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found')


WORDS = st.sampled_from(["get", "list", "*", "pods", "pods/log", "*/log", "", "apps", "a", "b"])
RULES = st.fixed_dictionaries(
    {"verbs": st.lists(WORDS), "apiGroups": st.lists(WORDS), "resources": st.lists(WORDS)},
    optional={"resourceNames": st.lists(WORDS)},
)
ASKED = st.builds(
    Attributes,
    st.sampled_from(["get", "list"]),
    st.sampled_from(["", "apps"]),
    st.sampled_from(["pods", "nodes"]),
    st.sampled_from(["", "log"]),
    st.just("ns"),
    st.sampled_from(["", "a"]),
)


@pytest.mark.slow
@given(st.lists(RULES), RULES, ASKED)
def test_more_rules_never_take_anything_away(rules, more, asked):
    def may(given_rules):
        roles = {"r": {"rules": given_rules}}
        bound = [binding("b", "r", subject("User", "bob"))]
        return decide(policy(roles, cluster_bindings=bound), BOB, asked).allowed

    assert may([*rules, more]) == (may(rules) or rule_covers(more, asked))


# -- default roles -------------------------------------------------------------------------------


def test_the_larger_of_the_user_facing_roles_hold_the_smaller():
    roles = {role["metadata"]["name"]: role for role in default_roles()}
    view, edit, admin = (roles[name]["rules"] for name in ("view", "edit", "admin"))
    assert all(each in edit for each in view)
    assert all(each in admin for each in edit)
    assert [each for each in admin if each["apiGroups"] == [GROUP]]
    assert not any("secrets" in each["resources"] for each in view)
    for role in roles.values():
        for each in role["rules"]:
            assert each["verbs"] == sorted(each["verbs"])
            for key in ("resources", "nonResourceURLs", "resourceNames"):
                assert each.get(key, []) == sorted(each.get(key, []))
    for each in default_bindings():
        assert each["roleRef"]["name"] in roles


def test_each_controller_has_its_role_and_account_from_the_start():
    world = World(authorize=True)
    account = "system:serviceaccount:kube-system:job-controller"
    asked = Attributes("update", "batch", "jobs", "status", "ns", "a")
    verdict = world.server.access.verdict(User(account), asked)
    assert verdict.allowed
    assert '"system:controller:job-controller" of ClusterRole' in verdict.reason
    leases = Attributes("update", "coordination.k8s.io", "leases", "", "kube-system", "any")
    assert world.server.access.verdict(User("system:kube-scheduler"), leases).allowed
    assert not world.server.access.verdict(User(account), leases).allowed


def test_aggregation_takes_each_rule_once_in_the_order_of_names():
    def part(name, *rules):
        return {"metadata": {"name": name, "labels": {"to": "x"}}, "rules": list(rules)}

    first, second = rule("get"), rule("list")
    selectors = [
        {"matchLabels": {"to": "x"}},
        {"matchExpressions": [{"key": "to", "operator": "Exists"}]},
    ]
    whole = {
        **part("whole", rule("delete")),
        "rules": [rule("patch")],
        "aggregationRule": {"clusterRoleSelectors": selectors},
    }
    parts = [part("b", second, first), part("a", first), {"metadata": {"name": "c"}, "rules": []}]
    assert aggregated_rules(whole, [*parts, whole]) == [first, second]


# -- in the server -------------------------------------------------------------------------------


def ask(world, method, path, user):
    found = answer(world.server, HttpRequest(method, path, user=user), world.now)
    assert isinstance(found, HttpAnswer)
    return found


def test_a_server_that_authorizes_holds_users_to_the_roles():
    world = World(authorize=True)
    path = "/api/v1/namespaces/default/configmaps"
    assert world.create("configmaps", config_map("a")).ok
    assert ask(world, "GET", f"{path}/a", BOB).code == 403
    assert ask(world, "GET", "/apis", BOB).code == 200
    assert ask(world, "GET", "/apis", ANONYMOUS).code == 403
    assert ask(world, "GET", "/version", ANONYMOUS).code == 200
    assert ask(world, "GET", "/api/v1/namespaces/default/nothings", BOB).code == 403
    assert ask(world, "GET", "/api/v1/namespaces/default/nothings", ROOT).code == 404
    given = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        **binding("viewers", "view", {"apiGroup": GROUP, "kind": "Group", "name": "dev"}),
    }
    assert world.create("rolebindings", given, group=GROUP).ok
    assert ask(world, "GET", f"{path}/a", BOB).code == 200
    assert ask(world, "DELETE", f"{path}/a", BOB).code == 403
    assert ask(world, "GET", "/api/v1/namespaces/kube-system/configmaps", BOB).code == 403
    assert ask(world, "GET", "/api/v1/namespaces/default/secrets", BOB).code == 403
    assert ask(world, "DELETE", f"{path}/a", ROOT).code == 200


def test_requests_of_components_are_held_to_the_roles_too():
    world = World(authorize=True)
    for verb in ("list", "watch"):
        request = Request(verb, resource="pods", namespace="default", user=BOB)
        ask_it = world.server.watch if verb == "watch" else world.server.handle
        found = ask_it(request, world.now)
        assert found.code == 403
        assert f'User "bob" cannot {verb} resource "pods"' in found.message
    policy_now = policy_of(world.server.lookup)
    scheduler = User("system:kube-scheduler")
    asked = Attributes("patch", "", "persistentvolumes", name="v")
    assert decide(policy_now, scheduler, asked).allowed


def test_a_server_by_itself_asks_no_authorizer():
    world = World()
    request = Request("list", resource="pods", namespace="default", user=ANONYMOUS)
    assert world.server.handle(request, world.now).ok


def test_a_role_of_a_gate_comes_with_its_binding_and_only_with_the_gate():
    name = "system:controller:podgroup-protection-controller"
    gates = frozenset(("GenericWorkload", "WorkloadWithJob"))

    def roles(of):
        return {role["metadata"]["name"]: role["rules"] for role in default_roles(of)}

    assert name not in roles(frozenset())
    assert [rule["resources"] for rule in roles(gates)[name]] == [["podgroups"], ["pods"]]
    (binding,) = [each for each in default_bindings(gates) if each["roleRef"]["name"] == name]
    assert binding["subjects"][0]["name"] == "podgroup-protection-controller"
    assert all(each["roleRef"]["name"] != name for each in default_bindings())
    job = "system:controller:job-controller"
    added = [rule for rule in roles(gates)[job] if rule not in roles(frozenset())[job]]
    assert added == [
        {
            "verbs": ["create", "get", "list", "watch"],
            "apiGroups": ["scheduling.k8s.io"],
            "resources": ["podgroups", "workloads"],
        }
    ]
