"""Webhooks that actors of the world answer: what they change, refuse, and what their silence does."""

import base64
import json

import pytest

from actors import EventLog
from controlplane.apiserver.loops.webhooks import actor_of
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.connection import RestConfig
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import APISERVER

GROUP = "admissionregistration.k8s.io"
CONFIG_MAPS = Resource("", "v1", "configmaps")
MUTATING = Resource(GROUP, "v1", "mutatingwebhookconfigurations")
VALIDATING = Resource(GROUP, "v1", "validatingwebhookconfigurations")
HOST = "checker.default.svc"
SECOND = 1_000_000_000


def hook(name="a.example.com", service="checker", **spec):
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["configmaps"],
    }
    client = {"service": {"name": service, "namespace": "default", "path": "/check"}}
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [rule],
        "timeoutSeconds": 3,
        **spec,
    }


def configuration(*hooks, mutating=False):
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "webhooks": list(hooks),
    }


def config(name="c", **data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": data,
    }


def patching(*operations):
    patch = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": patch}


def adding(key):
    return patching({"op": "add", "path": f"/data/{key}", "value": "1"})


def played(script, *hooks, answers=None, mutating=False, apiservers=1, actor=None):
    """What a user saw who did `script(client, told)` where these webhooks are configured."""
    hashes, seen = set(), []
    for driver in ("bare", "trio"):
        told: list[object] = []

        async def main(ctx, told=told):
            client = Client(ctx, RestConfig((APISERVER,)))
            resource = MUTATING if mutating else VALIDATING
            await client.create(resource, configuration(*hooks, mutating=mutating))
            await ctx.sleep(SECOND)
            try:
                await script(client, told)
            except ApiError as error:
                told.append((error.code, str(error)))
            told.append(ctx.now)

        made = Cluster(
            ClusterConfig(kubelets=False, controllers=False, schedulers=0, apiservers=apiservers),
            log=EventLog(),
        )
        for host, decide in (answers or {}).items():
            made.webhook(host, decide)
        if actor is not None:
            made.webhooks.own[HOST] = None
            made.world.actor(actor_of(HOST), actor)
        made.user("user", main)
        run = made.world.run(driver)
        assert run.verdict == "quiescent"
        hashes.add(run.trace_hash)
        seen.append(told)
    assert len(hashes) == 1 and seen[0] == seen[1]
    *told, now = seen[0]
    return told, now


async def creating(client, told):
    told.append((await client.create(CONFIG_MAPS, config(a="1"))).tree["data"])


@pytest.mark.parametrize("apiservers", [1, 2])
def test_a_validating_webhook_sees_the_request_and_its_refusal_is_worded_as_upstream_does(
    apiservers,
):
    asked = []

    def decide(request):
        asked.append(request)
        return {"allowed": False, "status": {"message": "no", "code": 403, "reason": "Forbidden"}}

    told, _ = played(creating, hook(), answers={HOST: decide}, apiservers=apiservers)
    assert told == [(403, 'admission webhook "a.example.com" denied the request: no')]
    request = asked[0]
    assert request["operation"] == "CREATE" and request["oldObject"] is None
    assert request["object"]["data"] == {"a": "1"} and request["object"]["metadata"]["uid"]
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert (request["name"], request["namespace"], request["dryRun"]) == ("c", "default", False)


def test_refusals_without_words():
    told, _ = played(creating, hook(), answers={HOST: lambda _: {"allowed": False}})
    assert told == [
        (400, 'admission webhook "a.example.com" denied the request without explanation')
    ]


@pytest.mark.parametrize("apiservers", [1, 2])
def test_mutating_webhooks_change_objects_one_after_the_other(apiservers):
    seen = []

    def second(request):
        seen.append(sorted(request["object"]["data"]))
        return adding("z")

    hooks = hook(), hook("b.example.com", "second")
    answers = {HOST: lambda _: adding("y"), "second.default.svc": second}
    told, _ = played(creating, *hooks, answers=answers, mutating=True, apiservers=apiservers)
    assert told == [{"a": "1", "y": "1", "z": "1"}]
    assert seen == [["a", "y"]] * 2  # once with each driver


@pytest.mark.parametrize(("policy", "calls"), [("Never", 1), ("IfNeeded", 2)])
def test_who_was_asked_before_a_change_is_asked_again_if_it_wants(policy, calls):
    asked = []

    def first(request):
        asked.append(sorted(request["object"]["data"]))
        return {"allowed": True}

    hooks = hook(reinvocationPolicy=policy), hook("b.example.com", "second")
    answers = {HOST: first, "second.default.svc": lambda _: adding("z")}
    played(creating, *hooks, answers=answers, mutating=True)
    assert asked == [["a"], ["a", "z"]][:calls] * 2


async def updating_and_deleting(client, told):
    await client.create(CONFIG_MAPS, config(a="1"))
    await client.patch(CONFIG_MAPS, "default", "c", {"data": {"b": "1"}})
    await client.delete(CONFIG_MAPS, "default", "c")


def test_updates_and_deletions_are_asked_about_with_both_states():
    asked = []

    def decide(request):
        states = [(request[key] or {}).get("data") for key in ("oldObject", "object")]
        asked.append((request["operation"], *states))
        return {"allowed": True}

    played(updating_and_deleting, hook(), answers={HOST: decide})
    assert (
        asked
        == [
            ("CREATE", None, {"a": "1"}),
            ("UPDATE", {"a": "1"}, {"a": "1", "b": "1"}),
            ("DELETE", {"a": "1", "b": "1"}, None),
        ]
        * 2
    )


async def silent(ctx):
    while True:
        await ctx.recv(idle=True)


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            "Fail",
            (
                500,
                'Internal error occurred: failed calling webhook "a.example.com": failed to call '
                'webhook: Post "https://checker.default.svc:443/check?timeout=3s": context deadline '
                "exceeded",
            ),
        ),
        ("Ignore", {"a": "1"}),
    ],
)
def test_silence_refuses_after_the_timeout_unless_failures_are_ignored(policy, told):
    seen, now = played(creating, hook(failurePolicy=policy), actor=silent)
    assert seen == [told]
    assert now >= 4 * SECOND


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            {"allowed": True, "patch": "W10="},
            "webhook returned response.patch but not response.patchType",
        ),
        (
            {"allowed": True, "patch": "W10=", "patchType": "Merge"},
            'webhook returned invalid response.patchType of "Merge"',
        ),
    ],
)
def test_answers_that_are_none_are_failures(answer, text):
    told, _ = played(creating, hook(), answers={HOST: lambda _: answer}, mutating=True)
    assert told[0][0] == 500 and told[0][1].endswith(text)


@pytest.mark.parametrize(
    "spec",
    [
        {"matchConditions": [{"name": "c", "expression": "object.data.a != '1'"}]},
        {"objectSelector": {"matchLabels": {"a": "b"}}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}},
    ],
)
def test_what_is_none_of_its_business_is_not_asked(spec):
    told, _ = played(creating, hook(**spec), answers={HOST: lambda _: {"allowed": False}})
    assert told == [{"a": "1"}]


def test_hosts_without_a_server_are_not_called():
    told, now = played(creating, hook())
    assert told == [{"a": "1"}] and now < 2 * SECOND


# -- a request in another version than the webhook's --------------------------------------------------


def sites(strategy):
    """Sites, whose `host` is called `address` in version v2 if a webhook converts them."""

    def version(name, field):
        spec = {"type": "object", "properties": {"note": TEXT, field: TEXT}}
        schema = {"type": "object", "properties": {"spec": spec}}
        return {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {"openAPIV3Schema": schema},
        }

    service = {"name": "converter", "namespace": "default", "path": "/convert"}
    by_webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    field = "host" if strategy == "Webhook" else "address"
    names = {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"}
    conversion = {"strategy": strategy, **({"webhook": by_webhook} if field == "host" else {})}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sites.conv.example.io"},
        "spec": {
            "group": "conv.example.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version("v1", field), version("v2", "address")],
            "conversion": conversion,
        },
    }


TEXT = {"type": "string"}


@pytest.mark.parametrize("strategy", ["None", "Webhook"])
def test_a_webhook_for_another_version_sees_the_object_and_changes_it_in_that_version(strategy):
    asked, seen = [], {}
    field = "host" if strategy == "Webhook" else "address"

    def decide(request):
        asked.append(request["object"])
        return patching({"op": "add", "path": "/spec/note", "value": "seen"})

    async def convert(ctx):
        while True:
            message = await ctx.recv(idle=True)
            request = message.payload.body["request"]
            wanted = request["desiredAPIVersion"]
            old, new = ("host", "address") if wanted.endswith("v2") else ("address", "host")
            made = []
            for tree in request["objects"]:
                spec = {new if key == old else key: value for key, value in tree["spec"].items()}
                made.append({**tree, "apiVersion": wanted, "spec": spec})
            told = {"uid": request["uid"], "result": {"status": "Success"}}
            head = {key: message.payload.body[key] for key in ("apiVersion", "kind")}
            message.reply({**head, "response": {**told, "convertedObjects": made}})

    async def main(ctx):
        client = Client(ctx, RestConfig((APISERVER,)))
        crds = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        await client.create(crds, sites(strategy))
        rule = {
            "apiGroups": ["conv.example.io"],
            "apiVersions": ["v2"],
            "operations": ["*"],
            "resources": ["sites"],
        }
        hooks = (
            configuration(hook(rules=[rule]), mutating=True),
            configuration(hook(rules=[rule])),
        )
        for resource, tree in zip((MUTATING, VALIDATING), hooks, strict=True):
            await client.create(resource, tree)
        await ctx.sleep(SECOND)
        tree = {
            "apiVersion": "conv.example.io/v1",
            "kind": "Site",
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {field: "h"},
        }
        for version in ("v1", "v2"):
            resource = Resource("conv.example.io", version, "sites")
            if version == "v1":
                await client.create(resource, tree)
            seen[version] = (await client.get(resource, "default", "a")).tree

    made = Cluster(ClusterConfig(kubelets=False, controllers=False, schedulers=0))
    made.webhook(HOST, decide)
    made.webhooks.own["converter.default.svc"] = None
    made.world.actor(actor_of("converter.default.svc"), convert)
    made.user("user", main)
    result = made.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert [(each["apiVersion"], each["spec"].get("note")) for each in asked] == [
        ("conv.example.io/v2", None),
        ("conv.example.io/v2", "seen"),
    ]
    assert all(each["spec"]["address"] == "h" for each in asked)
    assert seen["v1"]["spec"] == {field: "h", "note": "seen"}
    assert seen["v2"]["spec"] == {"address": "h", "note": "seen"}
