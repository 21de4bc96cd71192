"""Requests for certificates that are none."""

import base64

import pytest

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
    body = {"metadata": {"name": "c"}, "spec": {
        "request": base64.b64encode(request_text.encode()).decode(), "signerName": "a.io/b",
        "usages": ["digital signature"]}}  # fmt: skip
    answer = World().create("certificatesigningrequests", body, group="certificates.k8s.io",
                            namespace="")  # fmt: skip
    assert answer.code == 422
    (cause,) = answer.tree["details"]["causes"]
    assert cause["field"] == "spec.request"
    assert problem in cause["message"]
