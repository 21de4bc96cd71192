"""MutatingAdmissionPolicies: what they make of objects, in which order, and what is said where they cannot."""

import pytest

from tests.apiserver.requests.test_validating_policies import config
from tests.apiserver.world import World

GROUP = "admissionregistration.k8s.io"


def rules(*resources, groups=("*",)):
    return [
        {
            "apiGroups": list(groups),
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": list(resources),
        }
    ]


def policy(*mutations, name="p", resources=("configmaps", "deployments"), **spec):
    told = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": text}}
        if text.lstrip().startswith("[")
        else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}
        for text in mutations
    ]
    spec = {"reinvocationPolicy": "Never", "failurePolicy": "Fail", **spec}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules(*resources)},
            "mutations": told,
            **spec,
        },
    }


def binding(name="b", policy_name="p", **spec):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, **spec},
    }


def changed_by(*policies, bindings=None, world=None):
    """A server that has these policies, each with a binding."""
    world = world or World()
    for each in policies:
        made = world.create("mutatingadmissionpolicies", each, group=GROUP, namespace="")
        assert made.code == 201, made.message
        name = each["metadata"]["name"]
        for one in bindings or [binding(f"b-{name}", name)]:
            bound = world.create("mutatingadmissionpolicybindings", one, group=GROUP, namespace="")
            assert bound.code == 201, bound.message
    world.server.policies.refresh()
    return world


def deployment(replicas=1, **spec):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "a", "image": "i"}], **spec},
            },
        },
    }


def made_of(body, *policies, resource="deployments", group="apps", **how):
    made = changed_by(*policies, **how).create(resource, body, group=group)
    assert made.code == 201, made.message
    return made.tree


def replicas_of(*mutations, before=1, **spec):
    return made_of(deployment(before), policy(*mutations, **spec))["spec"]["replicas"]


def refusal(body, *mutations, **spec):
    refused = changed_by(policy(*mutations, **spec)).create("deployments", body, group="apps")
    assert not refused.ok, refused.tree
    return refused


SET = "Object{spec: Object.spec{replicas: object.spec.replicas + 100}}"
REPLACE = '[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas + 10}]'


@pytest.mark.parametrize(
    ("mutations", "replicas"),
    [
        ([SET], 101),
        ([REPLACE], 11),
        ([SET, REPLACE], 111),
        ([REPLACE, SET], 111),
        (["Object{spec: Object.spec{replicas: object.spec.replicas % 2 == 0 ? 7 : 8}}"], 8),
        (
            [
                """[JSONPatch{op: "test", path: "/spec/replicas", value: 100},
              JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]"""
            ],
            1,
        ),
        (
            [
                """[JSONPatch{op: "test", path: "/spec/replicas", value: 1},
              JSONPatch{op: "replace", path: "/spec/replicas", value: 3}]"""
            ],
            3,
        ),
        (
            [
                """[JSONPatch{op: "replace", path: "/spec/replicas",
              value: request.kind.kind == 'Deployment' && request.operation == 'CREATE' ? 10 : 0}]"""
            ],
            10,
        ),
        (["Object{}"], 1),
    ],
)
def test_mutations_are_made_one_after_the_other(mutations, replicas):
    assert replicas_of(*mutations) == replicas


def test_variables_may_be_used():
    assert (
        replicas_of(
            "Object{spec: Object.spec{replicas: variables.wanted + 1}}",
            variables=[{"name": "wanted", "expression": "10"}],
        )
        == 11
    )


CONTAINERS = "Object.spec.template.spec.containers"


def test_what_has_keys_is_merged_by_them():
    volumes = "Object.spec.template.spec.volumes"
    text = f"""Object{{spec: Object.spec{{template: Object.spec.template{{
        metadata: Object.spec.template.metadata{{labels: {{"app": "nginx"}}}},
        spec: Object.spec.template.spec{{
            volumes: [{volumes}{{name: "y", hostPath: {volumes}.hostPath{{path: "/a"}}}}],
            containers: [{CONTAINERS}{{name: "a", ports: [{CONTAINERS}.ports{{containerPort: 80}}]}},
                         {CONTAINERS}{{name: "side", image: "car"}}]}}}}}}}}"""
    spec = made_of(
        deployment(
            volumes=[
                {"name": "x", "emptyDir": {}},
                {"name": "y", "hostPath": {"path": "/b", "type": ""}},
            ]
        ),
        policy(text),
    )["spec"]["template"]
    assert spec["metadata"]["labels"] == {"a": "b", "app": "nginx"}
    assert [(v["name"], v.get("hostPath", {}).get("path")) for v in spec["spec"]["volumes"]] == [
        ("x", None),
        ("y", "/a"),
    ]
    first, second = spec["spec"]["containers"]
    assert (first["image"], first["ports"][0]["containerPort"]) == ("i", 80)
    assert (second["name"], second["imagePullPolicy"]) == ("side", "Always")  # with its defaults


def test_a_patch_may_write_objects_down():
    text = f"""[JSONPatch{{op: "add", path: "/spec/template/spec/containers/-", value: {CONTAINERS}{{
        name: "x", image: "i", ports: [{CONTAINERS}.ports{{containerPort: 8080}}]}}}},
        JSONPatch{{op: "add", path: "/metadata/labels", value: {{"k": string(JSONPatch{{op: "o"}}.op)}}}},
        JSONPatch{{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b~c"), value: "1"}}]"""
    tree = (
        changed_by(policy(text.replace("a/b~c", "a.io/b")))
        .create("deployments", deployment(), group="apps")
        .tree
    )
    assert tree["spec"]["template"]["spec"]["containers"][1]["ports"][0]["containerPort"] == 8080
    assert tree["metadata"]["labels"] == {"k": "o", "a.io/b": "1"}


def test_a_field_that_may_be_missing_is_left_out():
    text = (
        """Object{metadata: Object.metadata{?labels: object.?nothing, annotations: {"a": "b"}}}"""
    )
    meta = made_of(config(), policy(text), resource="configmaps", group="")["metadata"]
    assert "labels" not in meta
    assert meta["annotations"] == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "Object{spec: Object.specx{replicas: 1}}",
            'type mismatch: unexpected type name "Object.specx", expected "Object.spec", which matches field name path'
            " from root Object type",
        ),
        (
            "Object{spec: Object.spec{replicasx: 1}}",
            "error applying patch: failed to convert patch object to typed object: .spec.replicasx: field not"
            " declared in schema",
        ),
        (
            'Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {"l": "v"}}}}',
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs:"
            " .spec.selector",
        ),
        (
            "Object{spec: Object.spec{replicas: object.spec.nothing}}",
            "expression 'Object{spec: Object.spec{replicas: object.spec.nothing}}' resulted in error: no such key:"
            " nothing",
        ),
        (
            '[JSONPatch{op: "add", path: "/spec/template/spec/containers/-", value: '
            + CONTAINERS
            + "{ports: ["
            + CONTAINERS
            + ".portsZ{}]}}]",
            'type mismatch: unexpected type name "'
            + CONTAINERS
            + '.portsZ", expected "'
            + CONTAINERS
            + '.ports",'
            " which matches field name path from root Object type",
        ),
    ],
)
def test_what_cannot_be_done_denies_the_request_in_upstreams_words(text, problem):
    refused = refusal(deployment(), text)
    assert refused.message == f"policy 'p' with binding 'b-p' denied request: {problem}"
    assert (refused.code, refused.reason) == (403, "Invalid")


def test_a_patch_with_an_unknown_field_is_an_error_of_the_server():
    text = """[JSONPatch{op: "add", path: "/spec/paused2", value: true}]"""
    refused = refusal(deployment(), text)
    assert refused.code == 500
    assert refused.message == (
        'Internal error occurred: strict decoding error: unknown field "spec.paused2"'
    )


def test_a_failure_may_be_ignored():
    broken = policy(
        "Object{spec: Object.spec{replicas: object.spec.nothing}}", REPLACE, failurePolicy="Ignore"
    )
    assert made_of(deployment(), broken)["spec"]["replicas"] == 11


def test_only_what_matches_is_changed():
    only = policy(
        REPLACE, matchConditions=[{"name": "n", "expression": "object.spec.replicas > 1"}]
    )
    world = changed_by(only)
    assert world.create("deployments", deployment(), group="apps").tree["spec"]["replicas"] == 1
    other = {**deployment(2), "metadata": {"name": "e"}}
    assert world.create("deployments", other, group="apps").tree["spec"]["replicas"] == 12


def test_parameters_are_handed_over():
    text = "Object{metadata: Object.metadata{labels: {'team': params.data.team}}}"
    world = World()
    world.create("configmaps", config("given", team="red"))
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    reference = {"name": "given", "namespace": "default", "parameterNotFoundAction": "Deny"}
    world = changed_by(
        policy(text, paramKind=kind, resources=("deployments",)),
        bindings=[binding(paramRef=reference)],
        world=world,
    )
    made = world.create("deployments", deployment(), group="apps")
    assert made.tree["metadata"]["labels"] == {"team": "red"}


@pytest.mark.parametrize(
    ("params", "labels"), [("configmaps", None), ("namespaces", {"team": "blue"})]
)
def test_parameters_of_a_kind_whose_informer_was_stopped_stay_as_they_were(params, labels):
    """Upstream's informer factory starts no informer twice; those that the server needs itself go on."""
    kind = {"configmaps": "ConfigMap", "namespaces": "Namespace"}[params]
    where = {"namespace": "default" if params == "configmaps" else ""}
    text = "Object{metadata: Object.metadata{labels: {'team': params.metadata.labels.team}}}"
    reference = {"name": "given", "parameterNotFoundAction": "Allow", **where}
    told = policy(text, paramKind={"apiVersion": "v1", "kind": kind}, resources=("deployments",))
    bound = binding(paramRef={key: value for key, value in reference.items() if value})
    world = changed_by(told, bindings=[bound])
    world.do("delete", "mutatingadmissionpolicybindings", "b", group=GROUP, namespace="")
    world.server.policies.refresh()
    given = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "given", "labels": {"team": "blue"}},
    }
    assert world.create(params, given, **where).code == 201
    assert (
        world.create("mutatingadmissionpolicybindings", bound, group=GROUP, namespace="").code
        == 201
    )
    world.server.policies.refresh()
    made = world.create("deployments", deployment(), group="apps")
    assert made.tree["metadata"].get("labels") == labels


def appending(word):
    """A mutation that is not the same when it is made twice."""
    return (
        "Object{metadata: Object.metadata{annotations: {'seen': (has(object.metadata.annotations)"
        f" ? object.metadata.annotations.seen : '') + '{word}'}}}}}}"
    )


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [
        ("Never", "Never", "ab"),
        ("IfNeeded", "Never", "aba"),
        ("Never", "IfNeeded", "abb"),
        ("IfNeeded", "IfNeeded", "abab"),
    ],
)
def test_a_policy_is_asked_again_after_any_change_if_it_says_so(first, second, seen):
    policies = [
        policy(appending("a"), name="a", reinvocationPolicy=first, resources=("configmaps",)),
        policy(appending("b"), name="b", reinvocationPolicy=second, resources=("configmaps",)),
    ]
    made = made_of(config(), *policies, resource="configmaps", group="")
    assert made["metadata"]["annotations"]["seen"] == seen


def test_updates_and_patches_are_changed_and_deletions_are_not():
    world = changed_by(policy(REPLACE))
    world.create("deployments", deployment(), group="apps")
    patched = world.patch("deployments", "d", {"metadata": {"labels": {"x": "y"}}}, group="apps")
    assert patched.tree["spec"]["replicas"] == 21
    assert world.delete("deployments", "d", group="apps").ok


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('"I am a teapot"', "must evaluate to Object but got string"),
        ("Object.spec.metadata{}", "must evaluate to Object but got Object.spec.metadata"),
        ("[1]", "must evaluate to list(JSONPatch) but got list(int)"),
        (
            "[JSONPatch{op: 1}]",
            "expected type of field 'op' is 'string' but provided type is 'int'",
        ),
        ("[JSONPatch{on: '1'}]", "undefined field 'on'"),
        ("Thing{}", "undeclared reference to 'Thing' (in container '')"),
    ],
)
def test_an_expression_that_makes_no_patch_is_refused_when_it_is_written(text, problem):
    made = World().create("mutatingadmissionpolicies", policy(text), group=GROUP, namespace="")
    assert made.code == 422
    assert problem in made.message
    assert "spec.mutations[0]." in made.message


def test_only_mutations_may_write_objects_down():
    bad = policy(REPLACE, matchConditions=[{"name": "n", "expression": "Object{} == Object{}"}])
    made = World().create("mutatingadmissionpolicies", bad, group=GROUP, namespace="")
    assert made.code == 422
    assert "undeclared reference to 'Object' (in container '')" in made.message
