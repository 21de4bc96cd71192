"""What only a person at kubectl notices: versions, orders of fields, notes and odd errors."""

import base64
import json

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import answer
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.field_order import in_order, sorted_keys
from controlplane.apiserver.schema.go_json import TextError, parse_json, parse_yaml
from tests.apiserver.world import APPLY, MERGE, STRATEGIC, World, config_map, deployment, pod

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/d"
CONFIG_MAP = "/api/v1/namespaces/default/configmaps/c"
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def ask(world, method, path, body=None, *, media="application/json", agent="t/1", **query):
    raw = (
        body.encode()
        if isinstance(body, str)
        else b""
        if body is None
        else (json.dumps(body).encode())
    )
    headers = {"accept": "application/json", "content-type": media, "user-agent": agent}
    values = {key: [value] for key, value in query.items()}
    found = answer(world.server, HttpRequest(method, path, values, headers, raw, ADMIN), world.now)
    world.server.advance()
    return found


def test_the_version_is_a_release_that_clients_can_parse():
    found = ask(World(), "GET", "/version")
    assert found.tree["gitVersion"].startswith("v1.36.")
    assert found.text.startswith('{\n  "major": "1",\n  "minor": "36",')
    assert json.loads(found.text) == found.tree


def test_health_checks_have_names_and_a_verbose_form():
    world = World()
    assert ask(world, "GET", "/readyz/poststarthook/rbac/bootstrap-roles").text == "ok"
    assert ask(world, "GET", "/readyz/nope").code == 404
    assert "[+]informer-sync ok\n" in ask(world, "GET", "/readyz", verbose="").text


# -- the order of fields -------------------------------------------------------------------------


def test_served_objects_have_their_fields_in_upstreams_order():
    world = World(track_fields=True)
    made = ask(world, "POST", DEPLOYMENT[:-2], deployment("d")).tree
    assert list(made) == ["kind", "apiVersion", "metadata", "spec", "status"]
    names = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")
    assert list(made["metadata"])[:6] == list(names)
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert list(container)[:3] == ["name", "image", "resources"]
    changed = ask(world, "PATCH", DEPLOYMENT, {"spec": {"paused": True}}, media=MERGE).tree
    assert list(changed["spec"])[:4] == ["replicas", "selector", "template", "strategy"]


def test_ordering_shares_what_is_in_order_and_what_is_old():
    tree = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"a": "1"}}
    assert in_order("io.k8s.api.core.v1.ConfigMap", tree) is tree
    old = {"metadata": {"labels": {"z": "", "a": ""}}}
    new = {"metadata": old["metadata"], "kind": "ConfigMap"}
    ordered = in_order("io.k8s.api.core.v1.ConfigMap", new, old)
    assert list(ordered) == ["kind", "metadata"]
    assert ordered["metadata"] is old["metadata"]
    assert list(in_order("io.k8s.api.core.v1.ConfigMap", new)["metadata"]["labels"]) == ["a", "z"]


def test_unknown_fields_come_last():
    ordered = in_order("io.k8s.api.core.v1.ConfigMap", {"zz": 1, "data": {}, "kind": "ConfigMap"})
    assert list(ordered) == ["kind", "data", "zz"]


def test_maps_of_custom_resources_are_sorted():
    tree = {"spec": {"b": [{"y": 1, "x": 2}], "a": 1}, "kind": "K"}
    made = sorted_keys(tree)
    assert json.dumps(made) == '{"kind": "K", "spec": {"a": 1, "b": [{"x": 2, "y": 1}]}}'
    assert sorted_keys(made) is made


# -- patches -------------------------------------------------------------------------------------


def test_an_impossible_patch_quotes_the_document_as_it_was_put_together():
    world = World(track_fields=True)
    ask(world, "POST", CONFIG_MAP[:-2], config_map("c", b="1"))
    found = ask(world, "PATCH", CONFIG_MAP, {"data": {"a": 5}}, media=MERGE)
    (cause,) = found.tree["details"]["causes"]
    assert found.code == 422
    assert cause["message"].startswith(
        'Invalid value: "{\\"apiVersion\\":\\"v1\\",\\"data\\":{\\"a\\":5,\\"b\\":\\"1\\"},'
        '\\"kind\\":\\"ConfigMap\\",\\"metadata\\":{\\"name\\":\\"c\\",\\"namespace\\":'
    )


def test_a_strict_strategic_patch_quotes_the_patch():
    world = World(track_fields=True)
    ask(world, "POST", CONFIG_MAP[:-2], config_map("c", b="1"))
    found = ask(
        world, "PATCH", CONFIG_MAP, {"datax": {}}, media=STRATEGIC, fieldValidation="Strict"
    )
    assert found.tree["message"] == (
        ' "" is invalid: patch: Invalid value: "map[datax:map[]]": '
        'strict decoding error: unknown field "datax"'
    )


def test_null_is_no_merge_patch():
    world = World()
    ask(world, "POST", CONFIG_MAP[:-2], config_map("c"))
    assert ask(world, "PATCH", CONFIG_MAP, "null", media=MERGE).tree["message"] == (
        "Invalid JSON Patch"
    )


def test_a_whole_number_with_a_fraction_is_no_integer_where_texts_are_read():
    world = World(track_fields=True)
    ask(world, "POST", DEPLOYMENT[:-2], deployment("d"))
    merged = ask(world, "PATCH", DEPLOYMENT, '{"spec":{"replicas":2.0}}', media=MERGE)
    assert "cannot unmarshal number 2.0 into Go struct field" in merged.tree["message"]
    strategic = ask(world, "PATCH", DEPLOYMENT, '{"spec":{"replicas":2.0}}', media=STRATEGIC)
    assert strategic.tree["spec"]["replicas"] == 2
    assert parse_json(b"[2.5, 2]") == [2.5, 2]


def test_a_directive_for_a_missing_map_drops_it():
    world = World(track_fields=True)
    ask(world, "POST", DEPLOYMENT[:-2], deployment("d"))
    template = {"spec": {"nodeSelector": {"$patch": "replace", "z": "1"}}}
    found = ask(world, "PATCH", DEPLOYMENT, {"spec": {"template": template}}, media=STRATEGIC)
    assert found.tree["metadata"]["generation"] == 1
    assert "nodeSelector" not in found.tree["spec"]["template"]["spec"]


def test_directives_inside_new_list_items_are_unknown_fields():
    world = World(track_fields=True)
    ask(world, "POST", DEPLOYMENT[:-2], deployment("d"))
    item = {"name": "new", "image": "i", "resources": {"$patch": "replace"}}
    template = {"spec": {"containers": [item]}}
    found = ask(world, "PATCH", DEPLOYMENT, {"spec": {"template": template}}, media=STRATEGIC)
    assert found.code == 200
    assert "resources.$patch" in found.headers["Warning"][0]


def test_server_side_apply_by_kubectl_keeps_its_note_of_what_it_applied():
    world = World(track_fields=True)
    noted = config_map("c", a="1")
    noted["metadata"]["annotations"] = {LAST: "old"}
    ask(world, "POST", CONFIG_MAP[:-2], noted)
    asked = {"fieldManager": "kubectl", "force": "true"}
    found = ask(world, "PATCH", CONFIG_MAP, config_map("c", a="2"), media=APPLY, **asked)
    note = found.tree["metadata"]["annotations"][LAST]
    assert note == (
        '{"apiVersion":"v1","data":{"a":"2"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    )
    asked["fieldManager"] = "other"
    found = ask(world, "PATCH", CONFIG_MAP, config_map("c", a="3"), media=APPLY, **asked)
    assert found.tree["metadata"]["annotations"][LAST] == note


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("- a\nb: c", "yaml: line 1: did not find expected '-' indicator"),
    ],
)
def test_errors_in_yaml_name_the_line_as_go_does(text, problem):
    with pytest.raises(TextError) as found:
        parse_yaml(text.encode())
    assert str(found.value) == problem


# -- pods, accounts, components ------------------------------------------------------------------


@pytest.mark.parametrize("sub", ["exec", "attach", "portforward"])
def test_streams_need_a_node_that_exists_before_they_need_an_upgrade(sub):
    world = World()
    world.create("pods", pod("p", node="n"))
    found = world.get("pods", "p", sub=sub)
    assert (found.code, found.message) == (404, 'pods "n" not found')
    world.create("nodes", {"metadata": {"name": "n"}}, namespace="")
    found = world.get("pods", "p", sub=sub)
    assert (found.code, found.message) == (400, "Upgrade request required")


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
@pytest.mark.parametrize("sub", ["exec", "attach", "portforward"])
def test_who_asks_for_a_stream_rightly_is_told_that_nothing_runs_in_a_container(sub, protocol):
    world = World()
    world.create("nodes", {"metadata": {"name": "n"}}, namespace="")
    world.create("pods", pod("p", node="n"))
    path = f"/api/v1/namespaces/default/pods/p/{sub}"
    http = HttpRequest("GET", path, {}, {"upgrade": protocol}, b"", ADMIN)
    found = answer(world.server, http, world.now).tree
    assert (found["code"], found["reason"]) == (405, "MethodNotAllowed")
    assert found["message"] == (
        f"containers are emulated and nothing runs in them: no {sub} into pod p"
    )


def claims(token):
    head, body, signature = token.split(".")
    assert signature
    parts = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (head, body)]
    assert parts[0]["alg"] == "ES256"
    return parts[1]


def test_the_token_of_a_service_account_is_a_web_token_with_its_name_and_times():
    world = World()
    world.create("serviceaccounts", {"metadata": {"name": "robot"}})
    asked = {"spec": {"expirationSeconds": 700, "audiences": ["me"]}}
    found = world.create("serviceaccounts", asked, name="robot", sub="token")
    assert found.code == 201
    said = claims(found.tree["status"]["token"])
    account = world.get("serviceaccounts", "robot").object
    assert said["sub"] == "system:serviceaccount:default:robot"
    assert said["kubernetes.io"]["serviceaccount"] == {"name": "robot", "uid": account.uid}
    assert (said["aud"], said["exp"] - said["iat"]) == (["me"], 700)
    assert found.tree["status"]["expirationTimestamp"] == "2031-01-01T00:11:40Z"


def test_a_token_without_wishes_lives_for_an_hour_and_names_the_server():
    world = World()
    world.create("serviceaccounts", {"metadata": {"name": "robot"}})
    found = world.create("serviceaccounts", {"spec": {}}, name="robot", sub="token")
    said = claims(found.tree["status"]["token"])
    assert said["aud"] == ["https://kubernetes.default.svc"]
    assert said["exp"] - said["iat"] == 3600


def test_tokens_are_refused_for_missing_accounts_and_for_moments():
    world = World()
    assert world.create("serviceaccounts", {"spec": {}}, name="nope", sub="token").code == 404
    world.create("serviceaccounts", {"metadata": {"name": "robot"}})
    asked = {"spec": {"expirationSeconds": 599}}
    found = world.create("serviceaccounts", asked, name="robot", sub="token")
    assert found.code == 422
    assert "10 minutes" in found.message


def test_component_statuses_tell_of_the_other_parts_and_are_deprecated():
    world = World(components={"scheduler": "connection refused", "etcd-0": ""})
    found = ask(world, "GET", "/api/v1/componentstatuses")
    assert "ComponentStatus is deprecated" in found.headers["Warning"][0]
    told = {item["metadata"]["name"]: item["conditions"][0] for item in found.tree["items"]}
    assert told["scheduler"]["status"] == "False"
    assert told["etcd-0"] == {"type": "Healthy", "status": "True", "message": "ok"}
    one = ask(world, "GET", "/api/v1/componentstatuses/scheduler").tree
    assert one["conditions"][0]["message"] == "connection refused"
    assert ask(world, "GET", "/api/v1/componentstatuses/nope").code == 404
