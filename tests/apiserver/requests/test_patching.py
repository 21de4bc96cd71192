import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import answer
from controlplane.apiserver.requests.patching.json_patch import (
    JsonPatchError,
    JsonPatchTestError,
    json_patch,
)
from controlplane.apiserver.requests.patching.merge import merge_patch
from controlplane.apiserver.requests.patching.strategic import PatchError, strategic_patch
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.go_json import parse_written
from controlplane.apiserver.schema.json_values import json_text, plain_texts
from controlplane.apiserver.schema.resources import builtin_resources
from tests.apiserver.world import APPLY, JSON_PATCH, MERGE, STRATEGIC, World, config_map, deployment

POD = builtin_resources().get("", "v1", "pods").type


def asked(world, raw, media, validation):
    path = "/api/v1/namespaces/default/configmaps/a"
    query = {"fieldValidation": [validation]}
    return answer(
        world.server,
        HttpRequest("PATCH", path, query, {"content-type": media}, raw, ADMIN),
        world.now,
    )


def sent(world, raw, media, validation):
    found = asked(world, raw, media, validation)
    return found.code, found.tree["message"]


def containers(*items):
    return {"spec": {"containers": list(items)}}


def test_merge_patches_replace_lists_and_remove_nulls():
    old = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    patch = {"a": {"b": None, "c": [3]}, "e": {"f": None}}
    assert merge_patch(old, patch) == {"a": {"c": [3]}, "d": 1, "e": {}}


def test_strategic_patches_merge_lists_by_key():
    old = containers({"name": "a", "image": "1"}, {"name": "b", "image": "1"})
    new = strategic_patch(old, containers({"name": "b", "image": "2"}, {"name": "c"}), POD)
    assert {c["name"]: c.get("image") for c in new["spec"]["containers"]} == {
        "a": "1",
        "b": "2",
        "c": None,
    }


def test_strategic_patches_delete_and_replace_on_demand():
    old = containers({"name": "a"}, {"name": "b"})
    gone = strategic_patch(old, containers({"name": "a", "$patch": "delete"}), POD)
    assert gone == containers({"name": "b"})
    new = strategic_patch(old, containers({"name": "z"}, {"$patch": "replace"}), POD)
    assert new == containers({"name": "z"})


def test_json_patches_stop_at_a_failed_test():
    assert json_patch({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}]) == {
        "a": [1, 2, 3]
    }
    with pytest.raises(JsonPatchError):
        json_patch({"a": 1}, [{"op": "test", "path": "/a", "value": 2}])


def test_patches_leave_the_stored_object_alone():
    world = World()
    stored = world.create("configmaps", config_map("a", k="1")).tree
    world.patch("configmaps", "a", [{"op": "replace", "path": "/data/k", "value": "2"}], JSON_PATCH)
    assert stored["data"] == {"k": "1"}
    assert world.get("configmaps", "a").tree["data"] == {"k": "2"}


def test_a_strategic_patch_changes_one_container_of_a_template():
    world = World()
    world.create("deployments", deployment("d"), group="apps")
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    new = world.patch("deployments", "d", patch, STRATEGIC, group="apps").tree
    assert new["spec"]["template"]["spec"]["containers"][0]["image"] == "new"
    assert new["metadata"]["generation"] == 2


def test_unknown_patch_types_are_refused():
    world = World()
    world.create("configmaps", config_map("a"))
    assert world.patch("configmaps", "a", {}, "application/json").code == 415


def applied(world, manager, force=False, **data):
    query = {"fieldManager": manager, **({"force": "true"} if force else {})}
    return world.patch("configmaps", "a", config_map("a", **data), APPLY, **query)


def test_applying_creates_and_removes_what_is_no_longer_applied():
    world = World(track_fields=True)
    assert applied(world, "m", x="1", y="2").code == 201
    assert applied(world, "m", x="1").tree["data"] == {"x": "1"}


def test_applying_what_another_manager_owns_conflicts_unless_forced():
    world = World(track_fields=True)
    applied(world, "one", x="1")
    refused = applied(world, "two", x="2")
    assert refused.code == 409
    assert refused.tree["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert applied(world, "two", force=True, x="2").tree["data"] == {"x": "2"}
    assert applied(world, "one").tree["data"] == {"x": "2"}


def test_the_order_of_keys_tells_what_a_json_patch_took_apart():
    old = {"metadata": {"name": "x", "labels": {"b": "1", "a": "2"}}, "kind": "K"}
    new = json_patch(old, [{"op": "replace", "path": "/metadata/name", "value": "y"}])
    assert list(new) == ["kind", "metadata"] and list(new["metadata"]) == ["labels", "name"]
    assert list(new["metadata"]["labels"]) == ["b", "a"]


def test_a_json_patch_replaces_the_root_by_a_map_only():
    assert json_patch({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}]) == {"b": 2}
    with pytest.raises(JsonPatchError):
        json_patch({"a": 1}, [{"op": "replace", "path": "", "value": "b"}])


def test_merge_patches_drop_nulls_from_new_lists():
    assert merge_patch({}, {"a": [{"b": None, "c": 1}, None]}) == {"a": [{"c": 1}, None]}


def test_deleting_from_a_list_heeds_no_strategy():
    policy = {"spec": {"policyTypes": ["Ingress", "Egress"]}}
    struct = builtin_resources().get("networking.k8s.io", "v1", "networkpolicies").type
    patch = {"spec": {"$deleteFromPrimitiveList/policyTypes": ["Egress"]}}
    assert strategic_patch(policy, patch, struct) == {"spec": {"policyTypes": ["Ingress"]}}
    rules = {"spec": {"ingress": [{}], "$deleteFromPrimitiveList/ingress": ["a"]}}
    with pytest.raises(PatchError, match="not identical"):
        strategic_patch({"spec": {"ingress": [{}]}}, rules, struct)


def test_retained_keys_need_not_name_what_is_removed():
    patch = {"spec": {"$retainKeys": ["containers"], "nodeName": None}}
    assert strategic_patch({"spec": {"nodeName": "n", "containers": []}}, patch, POD) == {
        "spec": {"containers": []}
    }


def test_a_strategic_patch_cuts_integers_to_their_size():
    world = World()
    world.create("deployments", deployment("d"), group="apps")
    patch = {"spec": {"revisionHistoryLimit": 2**32 + 7}}
    new = world.patch("deployments", "d", patch, STRATEGIC, group="apps").tree
    assert new["spec"]["revisionHistoryLimit"] == 7


def test_applied_integers_are_cut_and_odd_values_are_told_by_upstreams_parser():
    world = World(track_fields=True)
    config = {**deployment("d"), "apiVersion": "apps/v1", "kind": "Deployment"}
    config["spec"] = {**config["spec"], "revisionHistoryLimit": 2**32 + 7}
    made = world.patch("deployments", "d", config, APPLY, group="apps", fieldManager="m").tree
    assert made["spec"]["revisionHistoryLimit"] == 7
    config["spec"]["template"] = {"spec": {"containers": [None]}}
    refused = world.patch("deployments", "d", config, APPLY, group="apps", fieldManager="m")
    assert (
        "element 0: associative list with keys may not have a null element"
        in refused.tree["message"]
    )


def test_a_manager_that_gives_up_its_last_field_of_a_part_takes_the_part_along():
    world = World(track_fields=True)
    config = {**config_map("a", x="1"), "apiVersion": "v1", "kind": "ConfigMap"}
    config["metadata"] = {"name": "a", "labels": {"l": "1"}}
    world.patch("configmaps", "a", config, APPLY, fieldManager="m")
    del config["metadata"]
    refused = world.patch("configmaps", "a", config, APPLY, fieldManager="m")
    assert "name must be provided" in refused.tree["message"]


def written(text):
    return parse_written(text.encode())


@pytest.mark.parametrize(
    ("stored", "tested", "equal"),
    [
        ("a", '"a"', True),
        ("é", '"é"', True),
        ("é", r'"\u00e9"', False),
        ("a\n", r'"a\n"', True),
        ("a > b", '"a > b"', False),
        ("a > b", r'"a \u003e b"', True),
    ],
)
def test_texts_are_tested_as_they_are_written(stored, tested, equal):
    """The stored object is written by Go, which escapes more than most clients do."""
    operations = written(f'[{{"op": "test", "path": "/a", "value": {tested}}}]')
    if equal:
        assert json_patch({"a": stored}, operations) == {"a": stored}
    else:
        with pytest.raises(JsonPatchTestError):
            json_patch({"a": stored}, operations)


def test_a_patched_document_is_quoted_as_it_was_written():
    patch = written(r'{"b": "\u00e9", "c": "&", "d": 1.50}')
    found = merge_patch({"a": "<é>"}, patch)
    assert found == {"a": "<é>", "b": "é", "c": "&", "d": 1.5}
    assert json_text(found) == r'{"a":"\u003cé\u003e","b":"\u00e9","c":"\u0026","d":1.50}'
    assert [type(value) for value in plain_texts(found).values()][:3] == [str, str, str]


def test_repeated_keys_of_a_patch_are_told_with_the_issues_of_the_object():
    raw = b'{"metadata":{"labels":{"a":"b","a":"c"}},"zz":1}'
    for media, shown in ((MERGE, '{\\"'), (STRATEGIC, "map[metadata:map[labels:map[a:c]] zz:1]")):
        world = World()
        world.create("configmaps", config_map("a"))
        code, message = sent(world, raw, media, "Strict")
        assert code == 422
        assert shown in message
        told = 'strict decoding error: duplicate field "metadata.labels.a", unknown field "zz"'
        assert message.endswith(told)


def test_a_patch_whose_result_does_not_decode_warns_of_nothing():
    world = World()
    world.create("configmaps", config_map("a"))
    found = asked(world, b'{"kind":"X","kind":"Y"}', MERGE, "Warn")
    assert (found.code, "Warning" in found.headers) == (422, False)


def test_keys_of_operations_are_told_in_the_order_of_the_patch():
    raw = b'[{"op":"add","zz":1,"path":"/data/k","value":"v","path":"/data/k","aa":1}]'
    world = World()
    world.create("configmaps", config_map("a", k="1"))
    found = asked(world, raw, JSON_PATCH, "Warn")
    assert [text.split('\\"')[1] for text in found.headers["Warning"]] == [
        "[0].zz",
        "[0].path",
        "[0].aa",
    ]


def test_a_value_that_is_kept_as_text_has_no_fields_to_merge():
    revision = builtin_resources().get("apps", "v1", "controllerrevisions").type
    with pytest.raises(PatchError, match='in struct RawExtension for the json field "a"'):
        strategic_patch({"data": {"a": {"b": 1}}}, {"data": {"a": {"b": 2}}}, revision)


def test_repeated_owners_of_a_patch_are_told_after_admission():
    world = World()
    world.create("configmaps", config_map("a"))
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    found = world.patch("configmaps", "a", {"metadata": {"ownerReferences": [owner, owner]}})
    assert found.tree["metadata"]["ownerReferences"] == [owner]
    assert "contains duplicate entries after mutating admission happens;" in found.warnings[0]


def test_a_body_in_another_version_tells_what_that_version_does_not_know():
    body = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "zz": 1}
    found = World().create(
        "horizontalpodautoscalers", body, group="autoscaling", version="v2", fieldValidation="Warn"
    )
    assert (found.code, found.warnings) == (400, ['unknown field "zz"'])
