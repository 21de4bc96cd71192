import pytest

from controlplane.apiserver.kinds.custom.cel import CelError, compile_rule
from tests.apiserver.world import APPLY, MERGE, STRATEGIC, World

GROUP = "example.com"
SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "mode": {"type": "string", "enum": ["A", "B"]},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    },
    "x-kubernetes-validations": [
        {"rule": "self.size >= oldSelf.size", "message": "size may not shrink"}
    ],
}


def definition(**version):
    schema = {
        "type": "object",
        "properties": {
            "spec": SPEC,
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"foos.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.size",
                            "statusReplicasPath": ".status.replicas",
                        },
                    },
                    **version,
                }
            ],
        },
    }


@pytest.fixture
def world():
    made = World()
    answer = made.create(
        "customresourcedefinitions", definition(), group="apiextensions.k8s.io", namespace=""
    )
    assert answer.code == 201
    return made


def foo(name, **spec):
    return {"apiVersion": f"{GROUP}/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec}


def made(world, name, **spec):
    return world.create("foos", foo(name, **spec), group=GROUP)


def test_an_accepted_definition_serves_its_resource(world):
    stored = world.get(
        "customresourcedefinitions", f"foos.{GROUP}", group="apiextensions.k8s.io", namespace=""
    ).tree
    assert [c["type"] for c in stored["status"]["conditions"]] == ["NamesAccepted", "Established"]
    assert stored["status"]["acceptedNames"]["listKind"] == "FooList"
    assert world.do("list", "foos", group=GROUP).tree["kind"] == "FooList"


def test_objects_are_defaulted_and_pruned(world):
    answer = made(world, "a", bogus=1)
    assert answer.tree["spec"] == {"size": 3}
    assert answer.warnings == ['unknown field "spec.bogus"']
    assert answer.tree["metadata"]["generation"] == 1


def test_wrong_values_are_refused_with_their_place(world):
    assert (
        made(world, "a", size=0)
        .tree["message"]
        .endswith(
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"
        )
    )
    causes = made(world, "a", mode="C").tree["details"]["causes"]
    assert [cause["reason"] for cause in causes] == ["FieldValueNotSupported", "FieldValueInvalid"]
    assert made(world, "a", tags=["x", "x"]).tree["details"]["causes"][0]["field"] == "spec.tags[1]"


def test_rules_compare_with_the_former_object(world):
    made(world, "a", size=5)
    refused = world.patch("foos", "a", {"spec": {"size": 4}}, MERGE, group=GROUP)
    assert (refused.code, refused.tree["details"]["causes"][0]["message"]) == (
        422,
        "Invalid value: size may not shrink",
    )
    assert world.patch("foos", "a", {"spec": {"size": 6}}, MERGE, group=GROUP).code == 200


def test_status_and_scale_are_endpoints_of_their_own(world):
    made(world, "a")
    assert "status" not in world.patch("foos", "a", {"status": {"replicas": 1}}, group=GROUP).tree
    world.patch("foos", "a", {"status": {"replicas": 2}}, sub="status", group=GROUP)
    scale = world.get("foos", "a", sub="scale", group=GROUP).tree
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2})
    world.patch("foos", "a", {"spec": {"replicas": 8}}, sub="scale", group=GROUP)
    assert world.get("foos", "a", group=GROUP).tree["spec"]["size"] == 8


def test_custom_resources_take_no_strategic_patch(world):
    made(world, "a")
    assert world.patch("foos", "a", {}, STRATEGIC, group=GROUP).code == 415


def test_custom_resources_can_be_watched(world):
    watcher = world.watch("foos", group=GROUP, resourceVersion=str(world.server.store.revision))
    made(world, "a")
    assert [(event.type, event.object.name) for event in watcher.drain()] == [("ADDED", "a")]


def test_deleting_the_definition_takes_the_objects_along(world):
    made(world, "a")
    answer = world.delete(
        "customresourcedefinitions", f"foos.{GROUP}", group="apiextensions.k8s.io", namespace=""
    )
    assert "deletionTimestamp" in answer.tree["metadata"]
    assert world.get("foos", "a", group=GROUP).code == 404
    assert not world.server.store.keyspace(f"/registry/{GROUP}/foos/").entries


def test_definitions_that_cannot_work_are_refused():
    body = definition()
    body["metadata"]["name"] = "wrong"
    answer = World().create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    assert answer.tree["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("size(self.items) <= 2", {"items": [1, 2]}, True),
        ("self.items.all(x, x > 1)", {"items": [1, 2]}, False),
        ("self.items.exists_one(x, x == 2)", {"items": [1, 2]}, True),
        ("self.items.map(x, x * 2) == [2, 4]", {"items": [1, 2]}, True),
        ("has(self.a) ? self.a : true", {}, True),
        ("self.name.startsWith('a') && self.name.matches('^[a-z]+$')", {"name": "abc"}, True),
        ("'x' in self", {"x": 1}, True),
        ("self.a.b < 5 || self.missing", {"a": {"b": 4}}, True),
        ("self.__namespace__ == 'n'", {"namespace": "n"}, True),
        ("-7 / 2 == -3 && -7 % 2 == -1", None, True),
        ("quantity(self).isGreaterThan(quantity('1Gi'))", "2Gi", True),
    ],
)
def test_rules_mean_what_the_language_says(rule, value, expected):
    assert compile_rule(rule).run({"self": value}) is expected


@pytest.mark.parametrize("rule", ["1 +", "self.", "nope(1)", "unknown > 1", "'open"])
def test_rules_that_make_no_sense_do_not_compile(rule):
    with pytest.raises(CelError):
        compile_rule(rule)


def test_a_deprecated_version_warns_and_names_the_most_preferred_other_one():
    made = World()
    crd = definition()
    schema = crd["spec"]["versions"][0]["schema"]
    crd["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": schema},
        {"name": "v2beta1", "served": True, "storage": False, "schema": schema},
        {"name": "v1beta1", "served": True, "storage": False, "schema": schema, "deprecated": True},
    ]
    group = "apiextensions.k8s.io"
    assert made.create("customresourcedefinitions", crd, group=group, namespace="").code == 201
    answer = made.get("foos", "none", group=GROUP, version="v1beta1")
    assert answer.code == 404
    text = f"{GROUP}/v1beta1 Foo is deprecated; use {GROUP}/v1 Foo"
    assert answer.warnings == [text]
    assert not made.get("foos", "none", group=GROUP, version="v1").warnings


def test_a_strategic_patch_of_a_custom_resource_is_refused_before_the_object_is_looked_for(world):
    answer = world.patch("foos", "none", {"spec": {}}, media=STRATEGIC, group=GROUP)
    assert answer.code == 415


def refused(**spec):
    crd = definition()
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"] = {"type": "object", **spec}
    answer = World().create(
        "customresourcedefinitions", crd, group="apiextensions.k8s.io", namespace=""
    )
    causes = answer.tree.get("details", {}).get("causes", [])
    where = "spec.validation.openAPIV3Schema.properties[spec]."
    return answer, [(c["field"].removeprefix(where), c["message"]) for c in causes]


TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 4}


@pytest.mark.parametrize(
    ("rule", "field", "text"),
    [
        (
            {"rule": "has(self.l)", "fieldPath": ".zz"},
            "fieldPath",
            'Invalid value: ".zz": must be a valid path',
        ),
        (
            {"rule": "has(self.l)", "optionalOldSelf": True},
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (
            {"rule": "has(self.l)", "reason": "Sometimes"},
            "reason",
            'Unsupported value: "Sometimes": supported values: "FieldValueDuplicate", '
            '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
        ),
        ({"rule": " "}, "rule", "Required value: rule is not specified"),
        (
            {"rule": "has(self.l)", "message": " "},
            "message",
            'Invalid value: " ": message must be non-empty if specified',
        ),
    ],
)
def test_a_rule_is_checked_when_it_is_declared(rule, field, text):
    _, causes = refused(properties={"l": TEXTS}, **{"x-kubernetes-validations": [rule]})
    assert causes == [(f"x-kubernetes-validations[0].{field}", text)]


def test_rules_are_not_compiled_where_the_schema_is_wrong():
    bad = {"type": "integer", "default": "x"}
    _, causes = refused(properties={"a": bad}, **{"x-kubernetes-validations": [{"rule": "nope"}]})
    assert [field for field, _ in causes] == ["properties[a].default"]


def test_elements_that_have_no_former_state_may_not_be_compared_with_it():
    items = {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    _, causes = refused(properties={"l": {**TEXTS, "items": items}})
    assert len(causes) == 1
    assert causes[0][1].endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        "spec.validation.openAPIV3Schema.properties[spec].properties[l]"
    )


def test_formats_that_nothing_validates_are_warned_of():
    answer, causes = refused(properties={"q": {"type": "string", "format": "quantity"}})
    assert not causes
    assert answer.warnings == ['unrecognized format "quantity"']


def crd(world, verb, body=None):
    return world.do(
        verb,
        "customresourcedefinitions",
        f"foos.{GROUP}",
        body,
        media=MERGE,
        group="apiextensions.k8s.io",
        namespace="",
    )


def test_a_watch_hears_of_the_end_of_its_objects_and_ends_with_the_definition(world):
    made(world, "a")
    watcher = world.watch("foos", group=GROUP)
    assert watcher.info.kind == "Foo"
    crd(world, "delete")
    told = [(event.type, event.object.name) for event in watcher.drain()]
    assert told == [("ADDED", "a"), ("DELETED", "a")]
    assert watcher.closed


def test_a_watch_ends_when_its_definition_changes_and_not_when_only_its_status_does(world):
    watcher = world.watch("foos", group=GROUP)
    crd(world, "patch", {"metadata": {"labels": {"a": "b"}}})
    assert not watcher.closed
    crd(world, "patch", {"spec": {"names": {"shortNames": ["fo"]}}})
    assert watcher.closed


def test_bookmarks_of_a_watch_need_no_resource_that_is_served(world):
    watcher = world.watch("foos", group=GROUP, resourceVersion=str(world.server.store.revision))
    world.server.table.remove(watcher.info)
    world.server.send_bookmark(watcher)
    (event,) = watcher.drain()
    assert (event.type, event.object.tree["kind"]) == ("BOOKMARK", "Foo")


def test_an_object_whose_root_keeps_unknown_fields_can_be_applied():
    world = World(track_fields=True)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    made = definition(schema={"openAPIV3Schema": schema}, subresources={})
    world.create("customresourcedefinitions", made, group="apiextensions.k8s.io", namespace="")
    tree = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Foo",
        "metadata": {"name": "a"},
        "anything": {"b": [1]},
    }
    for code, value in ((201, [1]), (200, [1, 2])):
        tree["anything"]["b"] = value
        answer = world.patch("foos", "a", tree, APPLY, group=GROUP, fieldManager="me")
        assert answer.code == code
        assert answer.tree["anything"] == {"b": value}
    (entry,) = answer.tree["metadata"]["managedFields"]
    assert "f:anything" in entry["fieldsV1"]
    answer = world.patch(
        "foos", "a", {**tree, "anything": {"b": []}}, APPLY, group=GROUP, fieldManager="other"
    )
    assert answer.code == 409


def test_a_pattern_that_is_none_of_gos_is_refused():
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "+"},
            "b": {"type": "string", "anyOf": [{"pattern": "(?=a)"}]},
            "c": {"type": "string", "pattern": "^(a+)+$"},
        },
    }
    refused = World().create(
        "customresourcedefinitions",
        definition(schema={"openAPIV3Schema": schema}, subresources={}),
        group="apiextensions.k8s.io",
        namespace="",
    )
    assert refused.code == 422
    told = {
        each["field"].rpartition("openAPIV3Schema.")[2]: each["message"]
        for each in refused.tree["details"]["causes"]
    }
    wrong = "must be a valid regular expression, but isn't: error parsing regexp: "
    assert told["properties[a].pattern"] == (
        f'Invalid value: "+": {wrong}missing argument to repetition operator: `+`'
    )
    assert told["properties[b].anyOf[0].pattern"] == (
        f'Invalid value: "(?=a)": {wrong}invalid or unsupported Perl syntax: `(?=`'
    )
    assert not any("properties[c]" in place for place in told)


def ruled(world, spec, **more):
    """A world whose resource has this schema of the spec."""
    body = definition()
    body["metadata"]["name"] = f"bars.{GROUP}"
    body["spec"]["names"] = {"kind": "Bar", "plural": "bars"}
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "properties": spec,
        **more,
    }
    del body["spec"]["versions"][0]["subresources"]
    answer = world.create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    assert answer.code == 201, answer.tree


def bar(world, **spec):
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Bar", "metadata": {"name": "b"}, "spec": spec}
    return world.create("bars", body, group=GROUP)


RULED = {
    "type": "string",
    "maxLength": 10,
    "x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "not bad"}],
}


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        (
            {
                "type": "array",
                "maxItems": 5,
                "items": {"type": "object", "properties": {"b": RULED, "c": {"type": "string"}}},
            },
            [{"b": "a"}, {"c": "bad", "b": "bad"}],
            "spec.a[1].b",
        ),
        (
            {
                "type": "object",
                "maxProperties": 5,
                "additionalProperties": {"type": "array", "maxItems": 5, "items": RULED},
            },
            {"x": [], "y": ["a", "bad"]},
            "spec.a[y][1]",
        ),
        (
            {"type": "object", "properties": {"p": {"type": "object", "properties": {"q": RULED}}}},
            {"p": {"q": "bad"}},
            "spec.a.p.q",
        ),
    ],
)
def test_a_rule_deep_in_a_schema_is_asked_where_it_stands(world, schema, value, path):
    ruled(world, {"a": schema, "free": {"type": "array", "items": {"type": "string"}}})
    answer = bar(world, a=value, free=["bad"])
    assert answer.code == 422
    assert [c["field"] for c in answer.tree["details"]["causes"]] == [path]
    assert answer.tree["details"]["causes"][0]["message"].endswith("not bad")


def test_lists_and_watches_show_what_the_schema_knows_now(world):
    made(world, "a", size=2, mode="A")
    stored = world.get(
        "customresourcedefinitions", f"foos.{GROUP}", group="apiextensions.k8s.io", namespace=""
    ).tree
    changed = definition(
        schema={
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                },
            }
        }
    )
    changed["metadata"] = stored["metadata"]
    answer = world.do(
        "update",
        "customresourcedefinitions",
        f"foos.{GROUP}",
        changed,
        group="apiextensions.k8s.io",
        namespace="",
    )
    assert answer.code == 200
    assert world.get("foos", "a", group=GROUP).tree["spec"] == {"size": 2}
    listed = world.do("list", "foos", group=GROUP)
    assert [item["spec"] for item in listed.tree["items"]] == [{"size": 2}]
    watched = world.watch("foos", group=GROUP).drain()
    assert [event.object.tree["spec"] for event in watched] == [{"size": 2}]
