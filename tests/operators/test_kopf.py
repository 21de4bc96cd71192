"""An operator on kopf: leader election by peering, a webhook whose certificates are files of a secret volume."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import sys
from shutil import copy

import pytest
from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.operators.description import read
from controlplane.operators.loops.session import Conditions, performed
from controlplane.operators.masks import reference_of
from controlplane.operators.oracles import alarms_of, calm_alarms
from tests.operators.test_session import EXAMPLES

pytest.importorskip("kopf")
pytest.importorskip(
    "kubernetes"
)  # without it, kopf asks for the name kubernetes.default.svc, which nothing resolves
pytestmark = pytest.mark.slow
WINDOWS = {"settle_s": 1.0, "quiet_s": 0.2}


def certificates():
    """Return the Secret of a webhook server at 127.0.0.1, with the authority that vouches for it."""

    def built(subject, key, extension, signer):
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]))
            .public_key(key.public_key())
            .serial_number(1 + (subject == "ca"))
            .not_valid_before(datetime.datetime(2020, 1, 1))
            .not_valid_after(datetime.datetime(2100, 1, 1))
            .add_extension(extension, critical=True)
            .sign(signer, hashes.SHA256())
        )

    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = built("ca", authority, x509.BasicConstraints(ca=True, path_length=0), authority)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    hook = built("hook", key, address, authority)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    data = {
        "ca.crt": ca.public_bytes(serialization.Encoding.PEM),
        "tls.crt": hook.public_bytes(serialization.Encoding.PEM),
        "tls.key": private,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shelves-certs", "namespace": "shelves-system"},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }


@pytest.fixture
def described(tmp_path):
    for name in ("kopf_shelves.py", "shelves.py", "kopf-shelves.yaml", "kopf-shelves-deploy.yaml"):
        copy(EXAMPLES / name, tmp_path)
    (tmp_path / "certs.json").write_text(json.dumps(certificates()))
    found = read(tmp_path / "kopf-shelves.yaml")
    (rule,) = found.processes
    return evolve(
        found,
        manifests=(*found.manifests, str(tmp_path / "certs.json")),
        processes=(evolve(rule, command=(sys.executable, *rule.command[1:])),),
    )


def test_it_survives_a_crash_after_a_write_and_answers_for_its_webhook(described):
    calm = performed(described, Conditions(**WINDOWS))
    if calm.notes:
        pytest.skip(calm.notes[0])
    assert calm_alarms([calm]) == []
    assert "Webhook 'few_boards' succeeded" in calm.outputs[0][1]
    plan = ("kill shelves before answer shelves create secrets default/a-key",)
    found = performed(described, Conditions(plan, **WINDOWS))
    assert found.started == 2
    assert alarms_of(found, reference_of([calm, calm]), [calm]) == []


def test_it_works_without_its_certificates(described):
    bare = evolve(described, manifests=described.manifests[:-1])
    calm = performed(bare, Conditions(**WINDOWS))
    if calm.notes:
        pytest.skip(calm.notes[0])
    assert calm_alarms([calm]) == []


def test_its_webhook_refuses(described):
    first = described.workload[0]
    (shelf,) = first.trees
    many = evolve(first, trees=({**shelf, "spec": {"boards": 11}},))
    found = performed(evolve(described, workload=(many,)), Conditions(**WINDOWS))
    if found.notes:
        pytest.skip(found.notes[0])
    assert "more than 10 boards" in found.steps[0].problem
