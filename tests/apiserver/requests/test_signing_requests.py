"""Requests for certificates: those that are none, who asks, and what is decided."""

import base64

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.apiserver.world import World

BLOCK = "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        (BLOCK.format("MIH"), "PEM block type must be CERTIFICATE REQUEST"),
        (BLOCK.format("A"), "PEM block type must be CERTIFICATE REQUEST"),
        ("no block", "PEM block type must be CERTIFICATE REQUEST"),
        (BLOCK.format("MIIB"), "asn1: "),
    ],
)
def test_what_holds_no_request_is_told(request_text, problem):
    body = {
        "metadata": {"name": "c"},
        "spec": {
            "request": base64.b64encode(request_text.encode()).decode(),
            "signerName": "a.io/b",
            "usages": ["digital signature"],
        },
    }
    answer = World().create(
        "certificatesigningrequests", body, group="certificates.k8s.io", namespace=""
    )
    assert answer.code == 422
    (cause,) = answer.tree["details"]["causes"]
    assert cause["field"] == "spec.request"
    assert problem in cause["message"]


KIND = {"group": "certificates.k8s.io", "namespace": ""}
RESOURCE = "certificatesigningrequests"


def asked(world, **status):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "u")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    text = base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {
        "request": text,
        "signerName": "a.io/b",
        "usages": ["digital signature"],
        "username": "other",
        "extra": {"k": ["v"]},
    }
    body = {"metadata": {"name": "c"}, "spec": spec, "status": status}
    return world.create(RESOURCE, body, **KIND).tree


def decided(world, tree, *conditions, sub="approval", **status):
    body = {**tree, "status": {**status, "conditions": list(conditions)}}
    body["metadata"] = {"name": "c"}
    return world.do("update", RESOURCE, "c", body, sub=sub, **KIND)


def condition(kind, value="True", **more):
    return {"type": kind, "status": value, **more}


def test_who_sends_a_request_is_who_asks():
    tree = asked(World(), conditions=[condition("Approved")])
    assert tree["spec"]["username"] == "system:admin"
    assert "system:authenticated" in tree["spec"]["groups"]
    assert "extra" not in tree["spec"]
    assert tree["status"] == {}


def test_an_update_changes_neither_what_is_asked_nor_what_is_decided():
    world = World()
    tree = asked(world)
    sent = {
        **tree,
        "spec": {**tree["spec"], "signerName": "x.io/y"},
        "status": {"conditions": [condition("Approved")]},
    }
    answer = world.do("update", RESOURCE, "c", sent, **KIND)
    assert (answer.tree["spec"], answer.tree["status"]) == (tree["spec"], {})


def test_a_decision_gets_its_times_and_changes_conditions_alone():
    world = World()
    tree = asked(world)
    answer = decided(world, tree, condition("Approved"), certificate="eA==")
    (found,) = answer.tree["status"]["conditions"]
    assert found["lastUpdateTime"] == found["lastTransitionTime"]
    assert "certificate" not in answer.tree["status"]


@pytest.mark.parametrize(
    ("conditions", "sub", "told"),
    [
        ([condition("Approved", "False")], "approval", "status.conditions[0].status"),
        ([condition("Other", "")], "approval", "status.conditions[0].status"),
        ([condition("Other", "x")], "status", "status.conditions[0].status"),
        ([condition("Approved"), condition("Denied")], "approval", "status.conditions"),
        ([condition("Denied")], "status", "status.conditions"),
    ],
)
def test_what_cannot_be_decided_so_is_told(conditions, sub, told):
    world = World()
    answer = decided(world, asked(world), *conditions, sub=sub)
    assert [cause["field"] for cause in answer.tree["details"]["causes"]] == [told]


def test_a_signer_neither_changes_nor_removes_a_decision():
    world = World()
    tree = asked(world)
    before = decided(world, tree, condition("Approved", reason="r")).tree["status"]["conditions"]
    kept = decided(world, tree, condition("Approved", reason="s"), sub="status")
    assert kept.tree["status"]["conditions"] == before
    gone = decided(world, tree, sub="status")
    assert [cause["field"] for cause in gone.tree["details"]["causes"]] == ["status.conditions"]


def test_a_certificate_without_a_block_is_refused():
    world = World()
    asked(world)
    change = {"status": {"certificate": base64.b64encode(b"a").decode()}}
    answer = world.patch(RESOURCE, "c", change, sub="status", **KIND)
    assert answer.code == 422
    (cause,) = answer.tree["details"]["causes"]
    assert cause["message"].endswith("must contain at least one CERTIFICATE PEM block")


def test_a_client_certificate_for_the_masters_is_refused():
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name)
    signed = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    spec = {
        "request": base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    answer = World().create(RESOURCE, {"metadata": {"name": "c"}, "spec": spec}, **KIND)
    assert answer.code == 403
    assert "system:masters group is not allowed" in answer.tree["message"]
