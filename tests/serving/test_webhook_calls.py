"""Webhooks of a served cluster are asked over HTTPS; a replay needs none of them."""

from __future__ import annotations

import base64
import json
import socket
from contextlib import asynccontextmanager, suppress

import h11
import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.apiserver.http import certificates
from controlplane.scenarios.search import replaying
from controlplane.serving.webhook_services import checked
from tests.apiserver.http.session import CONFIGMAPS, config, served, watching
from tests.apiserver.requests.test_conversions import GROUP as SITES_GROUP
from tests.apiserver.requests.test_conversions import definition, translated

GROUP = "/apis/admissionregistration.k8s.io/v1"
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}


class Webhook:
    """An HTTPS server for AdmissionReviews: `decide` makes of a request the response, or status and body."""

    def __init__(self, decide, *, delay=0.0, host="127.0.0.1"):
        self.decide = decide
        self.delay = delay
        self.asked = []
        self.identity = certificates.make(host)
        self.port = 0

    @property
    def bundle(self):
        return base64.b64encode(self.identity.authority).decode()

    @asynccontextmanager
    async def running(self):
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_ssl_over_tcp_listeners(
                0, self.identity.context, host="127.0.0.1", https_compatible=True
            )
            self.port = listeners[0].transport_listener.socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, self._serve, listeners)
            yield self
            nursery.cancel_scope.cancel()

    async def _serve(self, stream):
        with suppress(trio.BrokenResourceError, OSError):  # a client that does not trust us
            await self._answer(stream)

    async def _answer(self, stream):
        connection = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            elif isinstance(event, h11.ConnectionClosed):
                return
        review = json.loads(body)
        self.asked.append(review["request"])
        await trio.sleep(self.delay)
        decided = self.decide(review["request"])
        status, told = decided if isinstance(decided, tuple) else (200, None)
        if told is None:
            response = {**decided, "uid": review["request"]["uid"]}
            told = json.dumps(
                {**{k: review[k] for k in ("apiVersion", "kind")}, "response": response}
            )
        head = [("Content-Length", str(len(told.encode())))]
        await stream.send_all(
            connection.send(h11.Response(status_code=status, headers=head))
            + connection.send(h11.Data(data=told.encode()))
            + connection.send(h11.EndOfMessage())
        )
        await stream.aclose()


def configuration(client, *, mutating=False, **spec):
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    hook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [RULE],
        "timeoutSeconds": 10,
        **spec,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "webhooks": [hook],
    }


async def configured(session, client, *, mutating=False, **spec):
    resource = f"{'mutating' if mutating else 'validating'}webhookconfigurations"
    body = configuration(client, mutating=mutating, **spec)
    made = await session.ask("POST", f"{GROUP}/{resource}", body)
    assert made.code == 201, made.body
    await trio.sleep(0.05)
    return made


def denying(request):
    return {"allowed": False, "status": {"message": f"no {request['name']} here", "code": 422}}


def labelling(_request):
    patch = [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
    }


@pytest.mark.parametrize("pace", [Pacer(MAX), Pacer(1000.0), Pacer(1.0)], ids=["max", "1000", "1"])
async def test_a_webhook_at_a_url_refuses_and_the_recording_replays_without_it(tmp_path, pace):
    async with (
        Webhook(denying, delay=0.1).running() as hook,
        served(pace=pace, keep=True) as session,
    ):
        url = f"https://127.0.0.1:{hook.port}/check"
        made = await configured(session, {"url": url, "caBundle": hook.bundle})
        assert "warning" not in made.headers
        refused = await session.ask("POST", CONFIGMAPS, config("c"))
        assert refused.code == 422, refused.body
        assert refused.tree["message"] == (
            'admission webhook "a.example.com" denied the request: no c here'
        )
        assert [each["operation"] for each in hook.asked] == ["CREATE"]
    serving = session.serving
    recording = serving.recording()
    again = replaying.replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash


async def test_a_service_is_asked_where_it_is_said_to_be():
    async with (
        Webhook(labelling, host="checker.default.svc").running() as hook,
        served(webhook_service=(f"checker.default=127.0.0.1:{hook.port}",)) as session,
    ):
        service = {"name": "checker", "namespace": "default", "path": "/check"}
        await configured(session, {"service": service, "caBundle": hook.bundle}, mutating=True)
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert (made.code, made.tree["metadata"]["labels"]) == (201, {"seen": "yes"})


async def test_a_certificate_for_another_host_is_not_trusted():
    async with (
        Webhook(labelling, host="other.default.svc").running() as hook,
        served(webhook_service=(f"checker.default=127.0.0.1:{hook.port}",)) as session,
    ):
        service = {"name": "checker", "namespace": "default"}
        await configured(session, {"service": service, "caBundle": hook.bundle}, mutating=True)
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert made.code == 500
        assert "tls: failed to verify certificate: x509: " in made.tree["message"]


@pytest.mark.parametrize(
    "text", ["", "checker=1.2.3.4:5", "a.b=1.2.3.4", "a.b=:5", "a.b=h:0", ".=h:1"]
)
def test_a_place_of_a_service_says_all_that_is_needed(text):
    with pytest.raises(ValueError, match=r"NAME\.NAMESPACE=HOST:PORT"):
        checked(text)


async def test_a_webhook_changes_objects():
    async with Webhook(labelling).running() as hook, served() as session:
        url = f"https://127.0.0.1:{hook.port}/check"
        await configured(session, {"url": url, "caBundle": hook.bundle}, mutating=True)
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert (made.code, made.tree["metadata"]["labels"]) == (201, {"seen": "yes"})


async def test_a_service_without_an_address_is_said_aloud_and_not_asked():
    async with served() as session:
        service = {"name": "checker", "namespace": "default"}
        made = await configured(session, {"service": service})
        assert "no service answers for checker.default.svc here" in made.headers["warning"]
        assert (await session.ask("POST", CONFIGMAPS, config("c"))).code == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decide", "delay", "message"),
    [
        (lambda _: (404, "nothing"), 0.0, "the server could not find the requested resource"),
        (
            lambda _: (500, "oh dear"),
            0.0,
            'an error on the server ("oh dear") has prevented the request from succeeding',
        ),
        (lambda _: (200, "[1"), 0.0, "couldn't get version/kind; json parse error: "),
        (
            denying,
            3.0,
            'Post "https://127.0.0.1:{port}/check?timeout=1s": context deadline exceeded',
        ),
    ],
    ids=["404", "500", "no JSON", "slow"],
)
async def test_a_webhook_that_fails_is_told_in_upstreams_words(decide, delay, message):
    async with Webhook(decide, delay=delay).running() as hook, served() as session:
        url = f"https://127.0.0.1:{hook.port}/check"
        await configured(
            session, {"url": url, "caBundle": hook.bundle}, timeoutSeconds=1 if delay else 10
        )
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert made.code == 500
        assert (
            'failed calling webhook "a.example.com": failed to call webhook: '
            + message.format(port=hook.port)
        ) in made.tree["message"]


async def test_a_webhook_that_is_not_there_is_refused_or_ignored_as_it_says():
    async with Webhook(denying).running() as hook:
        bundle = hook.bundle
    # Bound, not listening: the system refuses connections, and no other process gets the port.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        await _webhook_is_not_there(bundle, held.getsockname()[1])


async def _webhook_is_not_there(bundle: str, port: int) -> None:
    async with served() as session:
        client = {"url": f"https://127.0.0.1:{port}/check", "caBundle": bundle}
        await configured(session, client)
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert made.tree["message"].endswith(
            f'Post "https://127.0.0.1:{port}/check?timeout=10s": dial tcp 127.0.0.1:{port}:'
            " connect: connection refused"
        )
        path = f"{GROUP}/validatingwebhookconfigurations/x"
        patch = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        json_patch = "application/json-patch+json"
        changed = await session.ask("PATCH", path, patch, Content_Type=json_patch)
        assert changed.code == 200
        await trio.sleep(0.05)
        assert (await session.ask("POST", CONFIGMAPS, config("c"))).code == 201


async def test_a_webhook_whose_certificate_is_not_signed_is_not_trusted():
    async with Webhook(denying).running() as hook, served() as session:
        other = base64.b64encode(certificates.make("127.0.0.1").authority).decode()
        await configured(
            session, {"url": f"https://127.0.0.1:{hook.port}/check", "caBundle": other}
        )
        made = await session.ask("POST", CONFIGMAPS, config("c"))
        assert "tls: failed to verify certificate: x509: " in made.tree["message"]
        assert not hook.asked


# -- conversion ----------------------------------------------------------------------------------

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SITES = f"/apis/{SITES_GROUP}/%s/namespaces/default/sites"


def converting(request):
    wanted = request["desiredAPIVersion"]
    objects = [translated(tree, wanted) for tree in request["objects"]]
    return {"result": {"status": "Success"}, "convertedObjects": objects}


def site(name, at="v1", **spec):
    return {
        "apiVersion": f"{SITES_GROUP}/{at}",
        "kind": "Site",
        "metadata": {"name": name},
        "spec": spec,
    }


async def defined(session, client):
    made = await session.ask("POST", CRDS, definition(client=client))
    assert made.code == 201, made.body
    await trio.sleep(0.05)
    return made


@pytest.mark.parametrize("pace", [Pacer(MAX), Pacer(1.0)], ids=["max", "1"])
async def test_a_conversion_webhook_is_called_and_the_recording_replays_without_it(pace):
    async with (
        Webhook(converting, delay=0.05).running() as hook,
        served(pace=pace, keep=True) as session,
    ):
        url = f"https://127.0.0.1:{hook.port}/convert"
        await defined(session, {"url": url, "caBundle": hook.bundle})
        made = await session.ask("POST", SITES % "v2", site("a", "v2", address="x"))
        assert (made.code, made.tree["spec"]) == (201, {"address": "x", "size": 2})
        found = await session.ask("GET", f"{SITES % 'v1'}/a")
        assert found.tree["spec"] == {"host": "x", "size": 2}
        listed = await session.ask("GET", SITES % "v2")
        assert "items" in listed.tree, listed.body
        assert [each["spec"] for each in listed.tree["items"]] == [{"address": "x", "size": 2}]
        wanted = [each["desiredAPIVersion"].rpartition("/")[2] for each in hook.asked]
        assert wanted == ["v1", "v2", "v2"]
    serving = session.serving
    recording = serving.recording()
    again = replaying.replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash


async def test_a_watch_over_http_shows_events_in_its_version():
    async with Webhook(converting).running() as hook, served() as session:
        url = f"https://127.0.0.1:{hook.port}/convert"
        await defined(session, {"url": url, "caBundle": hook.bundle})
        async with watching(session, f"{SITES % 'v2'}?watch=1") as lines:
            for name in "ab":
                await session.ask("POST", SITES % "v1", site(name, host=name))
            seen = [await lines.next(), await lines.next()]
        assert [each["object"]["spec"] for each in seen] == [{"address": "a"}, {"address": "b"}]
        assert {each["object"]["apiVersion"] for each in seen} == {f"{SITES_GROUP}/v2"}


async def test_a_manager_in_another_version_loses_what_changes_in_its_version():
    async with Webhook(converting).running() as hook, served() as session:
        url = f"https://127.0.0.1:{hook.port}/convert"
        await defined(session, {"url": url, "caBundle": hook.bundle})
        await session.ask("POST", SITES % "v1", site("a", host="x", size=1))
        head = {"Content-Type": "application/apply-patch+yaml"}
        path = f"{SITES % 'v2'}/a?fieldManager=m"
        refused = await session.ask("PATCH", path, site("a", "v2", address="y", size=9), **head)
        assert refused.code == 409
        message = refused.tree["message"]
        assert message.startswith("Apply failed with 2 conflicts: conflicts with ")
        assert message.endswith(f" using {SITES_GROUP}/v1:\n- .spec.host\n- .spec.size")
        path += "&force=true"
        applied = await session.ask("PATCH", path, site("a", "v2", address="y"), **head)
        assert applied.code == 200, applied.body
        owned = {
            (each["operation"], each["apiVersion"].rpartition("/")[2]): each["fieldsV1"]
            for each in applied.tree["metadata"]["managedFields"]
        }
        assert owned == {
            ("Apply", "v2"): {"f:spec": {"f:address": {}}},
            ("Update", "v1"): {"f:spec": {".": {}, "f:size": {}}},
        }


async def test_a_service_of_a_conversion_webhook_is_asked_where_it_is_said_to_be():
    async with (
        Webhook(converting, host="hook.default.svc").running() as hook,
        served(webhook_service=(f"hook.default=127.0.0.1:{hook.port}",)) as session,
    ):
        service = {"name": "hook", "namespace": "default", "port": 443, "path": "/convert"}
        made = await defined(session, {"service": service, "caBundle": hook.bundle})
        assert "warning" not in made.headers
        await session.ask("POST", SITES % "v1", site("a", host="x"))
        found = await session.ask("GET", f"{SITES % 'v2'}/a")
        assert (found.code, found.tree["spec"]) == (200, {"address": "x"})


async def test_a_definition_whose_webhook_nothing_answers_for_warns_and_converts_nothing():
    async with served() as session:
        made = await defined(session, None)
        assert "no service answers for hook.default.svc here" in made.headers["warning"]
        await session.ask("POST", SITES % "v1", site("a", host="x"))
        found = await session.ask("GET", f"{SITES % 'v2'}/a")
        assert (found.code, found.tree["message"]) == (
            500,
            (
                f"conversion webhook for {SITES_GROUP}/v1, Kind=Site failed: Post "
                '"https://hook.default.svc:443/convert?timeout=30s": service "hook" not found'
            ),
        )


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda _: (404, "nothing"), "the server could not find the requested resource"),
        (lambda _: {"result": {"status": "Failure", "message": "cannot"}}, "cannot"),
        (lambda _: (200, "[1]"), "couldn't get version/kind; json parse error: "),
    ],
    ids=["404", "refused", "no object"],
)
async def test_a_conversion_webhook_that_fails_is_told_in_upstreams_words(decide, message):
    async with Webhook(decide).running() as hook, served() as session:
        await defined(session, {"url": f"https://127.0.0.1:{hook.port}/", "caBundle": hook.bundle})
        found = await session.ask("POST", SITES % "v2", site("a", "v2", address="x"))
        assert found.code == 500
        named = f"conversion webhook for {SITES_GROUP}/v2, Kind=Site failed: "
        assert found.tree["message"].startswith(named + message)
