"""ValidatingAdmissionPolicies: what they refuse, warn of and note, and when they begin to."""

import json

import pytest

from controlplane.api.request import Request, User
from tests.apiserver.world import World

GROUP = "admissionregistration.k8s.io"
RULES = [
    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
]


def policy(*validations, name="p", rules=RULES, match=None, **spec):
    constraints = {"resourceRules": rules, **(match or {})}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": constraints,
            "validations": [{"expression": v} if isinstance(v, str) else v for v in validations],
            **spec,
        },
    }


def binding(actions=("Deny",), *, name="b", policy_name="p", **spec):
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": policy_name, "validationActions": list(actions), **spec},
    }


def config(name="c", namespace="default", labels=None, **data):
    meta = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def held_to(*validations, actions=("Deny",), bound=None, world=None, **spec):
    """A server that holds to one policy with one binding."""
    world = world or World()
    made = world.create(
        "validatingadmissionpolicies", policy(*validations, **spec), group=GROUP, namespace=""
    )
    assert made.code == 201, made.message
    made = world.create(
        "validatingadmissionpolicybindings",
        binding(actions, **(bound or {})),
        group=GROUP,
        namespace="",
    )
    assert made.code == 201, made.message
    world.server.policies.refresh()
    return world


def refusal(response):
    prefix = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
    assert not response.ok, response.tree
    return response.message.partition(prefix)[2]


def test_a_refusal_is_worded_as_upstream_words_it():
    world = held_to("object.data.size() < 2")
    assert world.create("configmaps", config(a="1")).code == 201
    refused = world.create("configmaps", config("d", a="1", b="2"))
    text = (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: "
        "object.data.size() < 2"
    )
    assert refused.tree["message"] == f'configmaps "d" is forbidden: {text}'
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.tree["details"] == {
        "name": "d",
        "kind": "configmaps",
        "causes": [{"message": text}],
    }


def test_a_policy_is_enforced_only_once_it_was_compiled():
    world = World()
    world.create("validatingadmissionpolicies", policy("false"), group=GROUP, namespace="")
    world.create("validatingadmissionpolicybindings", binding(), group=GROUP, namespace="")
    assert any(each.is_stale() for each in world.server.policies.each)
    assert world.create("configmaps", config()).code == 201
    world.server.policies.refresh()
    assert not any(each.is_stale() for each in world.server.policies.each)
    assert world.create("configmaps", config("d")).code == 422
    world.delete("validatingadmissionpolicybindings", "b", group=GROUP, namespace="")
    assert world.create("configmaps", config("d")).code == 422
    world.server.policies.refresh()
    assert world.create("configmaps", config("d")).code == 201


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Forbidden", 403),
        ("RequestEntityTooLarge", 413),
        ("Invalid", 422),
    ],
)
def test_the_reason_decides_the_status_code(reason, code):
    world = held_to({"expression": "false", "reason": reason, "message": " no "})
    refused = world.create("configmaps", config())
    assert (refused.code, refused.reason, refusal(refused)) == (code, reason, "no")


@pytest.mark.parametrize(
    ("derived", "said"),
    [
        ("'has ' + string(object.data.size())", "has 1"),
        ("'  '", "given"),
        ("'a\\nb'", "given"),
        ("object.data.missing + 'x'", "given"),
        ("'x'.replace('x', '" + "y" * 6000 + "')", "given"),
    ],
)
def test_a_message_expression_gives_way_to_the_message_where_it_fails(derived, said):
    world = held_to({"expression": "false", "message": "given", "messageExpression": derived})
    assert refusal(world.create("configmaps", config(a="1"))) == said


def test_deletions_have_only_an_old_object_and_creations_only_a_new_one():
    world = held_to(
        "object == null ? oldObject.metadata.name != 'kept' : oldObject == null",
        rules=[{**RULES[0], "operations": ["CREATE", "DELETE"]}],
    )
    for name in ("kept", "other"):
        assert world.create("configmaps", config(name)).code == 201
    assert world.delete("configmaps", "kept").code == 422
    assert world.delete("configmaps", "other").code == 200
    assert world.patch("configmaps", "kept", {"data": {"a": "1"}}).code == 200


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ("Fail", "expression 'object.data.x == \"1\"' resulted in error: no such key: x"),
        ("Ignore", None),
    ],
)
def test_what_cannot_be_computed_denies_unless_failures_are_ignored(failure, said):
    world = held_to('object.data.x == "1"', failurePolicy=failure)
    answer = world.create("configmaps", config(a="1"))
    assert answer.code == 201 if said is None else refusal(answer) == said


def test_variables_are_computed_once_and_their_failures_are_named():
    world = held_to(
        "variables.n < 2 && variables.n >= 0",
        "variables.bad == 1",
        variables=[
            {"name": "n", "expression": "object.data.size()"},
            {"name": "bad", "expression": "variables.n / 0"},
        ],
    )
    refused = world.create("configmaps", config(a="1"))
    assert refusal(refused) == (
        "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to "
        "evaluate: division by zero"
    )
    assert refusal(world.create("configmaps", config(a="1", b="2"))).startswith("failed expression")


@pytest.mark.parametrize(
    ("condition", "failure", "code"),
    [
        ("request.operation == 'UPDATE'", "Fail", 201),
        ("1/0 == 1", "Fail", 422),
        ("1/0 == 1", "Ignore", 201),
        ("request.name == 'c'", "Fail", 422),
    ],
)
def test_match_conditions_leave_requests_out(condition, failure, code):
    world = held_to(
        "false", failurePolicy=failure, matchConditions=[{"name": "one", "expression": condition}]
    )
    assert world.create("configmaps", config()).code == code


@pytest.mark.parametrize(
    ("match", "code"),
    [
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, 422),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": ["default"],
                        }
                    ]
                }
            },
            201,
        ),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, 422),
        ({"objectSelector": {"matchLabels": {"a": "c"}}}, 201),
        ({"excludeResourceRules": RULES}, 201),
        ({"excludeResourceRules": [{**RULES[0], "resourceNames": ["other"]}]}, 422),
    ],
)
def test_constraints_of_policy_and_binding_both_leave_requests_out(match, code):
    wanted = config(labels={"a": "b"})
    assert held_to("false", match=match).create("configmaps", wanted).code == code
    world = held_to("false", bound={"matchResources": match})
    assert world.create("configmaps", wanted).code == code


@pytest.mark.parametrize(("wanted", "code"), [("Equivalent", 422), ("Exact", 201)])
def test_an_equivalent_version_is_matched_and_seen_as_the_rule_names_it(wanted, code):
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["horizontalpodautoscalers"],
    }
    world = held_to(
        "object.apiVersion != 'autoscaling/v1'", rules=[rule], match={"matchPolicy": wanted}
    )
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        },
    }
    made = world.create("horizontalpodautoscalers", body, group="autoscaling", version="v2")
    assert made.code == code
    if code != 201:
        assert refusal(made)


def test_warnings_and_audit_notes_let_the_request_pass():
    world = held_to(
        {"expression": "false", "message": "no"},
        actions=("Warn", "Audit"),
        auditAnnotations=[
            {"key": "size", "valueExpression": "string(object.data.size())"},
            {"key": "none", "valueExpression": "null"},
        ],
    )
    made = world.create("configmaps", config(a="1"))
    assert made.code == 201
    assert made.warnings == [
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"
    ]
    failure = made.audit.pop("validation.policy.admission.k8s.io/validation_failure")
    assert json.loads(failure)[0]["message"] == "no"
    assert made.audit == {"p/size": "1"}


def with_params(reference, **spec):
    world = World()
    world.create("configmaps", config("limits", labels={"kind": "limit"}, most="1"))
    world.create("configmaps", config("more", labels={"kind": "limit"}, most="2"))
    return held_to(
        "params == null || object.data.size() <= int(params.data.most)",
        world=world,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        bound={"paramRef": {"parameterNotFoundAction": "Deny", **reference}},
        **spec,
    )


@pytest.mark.parametrize(
    ("reference", "codes"),
    [
        ({"name": "limits"}, [201, 422, 422]),
        ({"name": "more"}, [201, 201, 422]),
        ({"selector": {"matchLabels": {"kind": "limit"}}}, [201, 422, 422]),
        ({"name": "limits", "namespace": "default"}, [201, 422, 422]),
        ({"selector": {}}, [422, 422, 422]),
    ],
)
def test_every_parameter_must_agree(reference, codes):
    world = with_params(reference)
    if reference == {"selector": {}}:
        world.create("configmaps", config("none", most="0"))
        world.server.policies.refresh()
    given = [{"a": "1"}, {"a": "1", "b": "1"}, {"a": "1", "b": "1", "c": "1"}]
    answers = [world.create("configmaps", config(f"x{i}", **data)) for i, data in enumerate(given)]
    assert [answer.code for answer in answers] == codes


def test_missing_parameters_deny_or_allow_as_the_binding_says():
    text = (
        "failed to configure binding: no params found for policy binding with `Deny` "
        "parameterNotFoundAction"
    )
    assert refusal(with_params({"name": "gone"}).create("configmaps", config())) == text
    allowed = with_params({"name": "gone", "parameterNotFoundAction": "Allow"})
    assert allowed.create("configmaps", config()).code == 201


def test_parameters_of_a_kind_that_is_not_served_deny_until_it_is():
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    world = held_to("true", paramKind=kind)
    refused = world.create("configmaps", config())
    assert refused.message == (
        "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to "
        "configure policy: failed to find resource referenced by paramKind: 'example.com/v1, "
        "Kind=Limit'"
    )
    assert any(each.waits() for each in world.server.policies.each)
    names = {"plural": "limits", "kind": "Limit"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    made = world.create(
        "customresourcedefinitions", crd, group="apiextensions.k8s.io", namespace=""
    )
    assert made.code == 201
    world.server.policies.refresh()
    assert world.create("configmaps", config()).code == 201


def test_the_namespace_and_the_asker_are_seen():
    world = held_to(
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "request.userInfo.username == 'jane' && 'a' in request.userInfo.groups",
        "!has(request.subResource) && request.resource.resource == 'configmaps'",
    )
    request = Request(
        "create",
        "",
        "v1",
        "configmaps",
        namespace="default",
        body=config(),
        user=User("jane", groups=("a",)),
    )
    assert world.server.handle(request, world.now).code == 201
    assert world.create("configmaps", config("d")).code == 422


def test_the_authorizer_is_asked_for_whoever_makes_the_request():
    world = World(authorize=True)
    held_to(
        "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        world=world,
    )
    assert world.create("configmaps", config()).code == 201
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "r"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}],
    }
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "r"},
        "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
    }
    for resource, body in (("roles", role), ("rolebindings", bound)):
        made = world.create(resource, body, group="rbac.authorization.k8s.io")
        assert made.code == 201
    request = Request(
        "create", "", "v1", "configmaps", namespace="default", body=config("d"), user=User("jane")
    )
    assert "resource('secrets')" in refusal(world.server.handle(request, world.now))


def test_what_costs_too_much_is_ended():
    long = "object.data.a.contains('b')"
    nested = f"[1,2,3,4,5,6,7,8,9,10].all(x, [1,2,3,4,5,6,7,8,9,10].all(y, {long} || true))"
    world = held_to(nested)
    assert world.create("configmaps", config(a="a" * 100)).code == 201
    refused = world.create("configmaps", config("d", a="a" * 600_000))
    assert refusal(refused).endswith("operation cancelled: actual cost limit exceeded")
    many = [f"object.data.a.matches('[a-z]{{{n}}}c') || true" for n in range(1, 60)]
    world = held_to(*many)
    refused = world.create("configmaps", config(a="a" * 900_000))
    assert refusal(refused) == (
        "validation failed due to running out of cost budget, no further "
        "validation rules will be run"
    )


def test_policies_do_not_judge_policies_nor_reviews():
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    world = held_to("false", rules=[rule])
    again = policy("true", name="q")
    made = world.create("validatingadmissionpolicies", again, group=GROUP, namespace="")
    assert made.code == 201
    assert world.create("configmaps", config()).code == 422


@pytest.mark.parametrize(
    ("sub", "body", "rule"),
    [
        (
            "scale",
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": "d"},
                "spec": {"replicas": 3},
            },
            "object.spec.replicas < 3 && object.kind == 'Scale'",
        ),
        ("status", {"status": {"replicas": 1}}, "request.subResource != 'status'"),
    ],
)
def test_subresources_are_judged_as_what_they_speak(sub, body, rule):
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["deployments/scale", "deployments/status"],
        }
    ]
    world = held_to(rule, rules=rules)
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    body_of = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    assert world.create("deployments", body_of, group="apps").code == 201
    refused = world.patch("deployments", "d", body, group="apps", sub=sub)
    assert refusal(refused) == f"failed expression: {rule}"
    assert world.patch("deployments", "d", {"spec": {"replicas": 5}}, group="apps").code == 200


def test_bindings_and_evictions_are_judged_by_their_bodies():
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/binding", "pods/eviction"],
        }
    ]
    world = held_to("object.kind == 'Eviction' ? false : object.target.name != 'n'", rules=rules)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    assert world.create("pods", pod).code == 201
    for sub, kind, more, code in (
        ("binding", "Binding", {"target": {"kind": "Node", "name": "n"}}, 422),
        ("eviction", "Eviction", {}, 422),
        ("binding", "Binding", {"target": {"kind": "Node", "name": "m"}}, 201),
    ):
        version = "policy/v1" if kind == "Eviction" else "v1"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, **more}
        assert world.do("create", "pods", "a", body, sub=sub).code == code


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        (
            {"validations": [{"expression": "object.metadata"}]},
            "validations[0].expression",
            "must evaluate to bool",
        ),
        (
            {"validations": [{"expression": "params.a == 1"}]},
            "validations[0].expression",
            "undeclared reference to 'params' (in container '')",
        ),
        (
            {"validations": [{"expression": "request.nothing == ''"}]},
            "validations[0].expression",
            "undefined field 'nothing'",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "validations[0].messageExpression",
            "must evaluate to string",
        ),
        (
            {
                "validations": [{"expression": "variables.x"}],
                "variables": [{"name": "y", "expression": "1"}],
            },
            "validations[0].expression",
            "undefined field 'x'",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type]",
        ),
    ],
)
def test_expressions_are_checked_when_the_policy_is_stored(spec, field, said):
    body = policy(failurePolicy="Fail")
    body["spec"].update(spec)
    refused = World().create("validatingadmissionpolicies", body, group=GROUP, namespace="")
    assert refused.code == 422
    assert refused.tree["details"]["causes"][0]["field"] == f"spec.{field}"
    assert said in refused.message
