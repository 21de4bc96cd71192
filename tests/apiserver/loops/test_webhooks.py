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


def test_hosts_that_nobody_answers_for_are_not_called():
    told, now = played(creating, hook())
    assert told == [{"a": "1"}] and now < 2 * SECOND
