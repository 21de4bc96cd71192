"""Certificate signing requests: the order of what updates are told, and their names."""

from __future__ import annotations

from controlplane.api.tree import Tree
from tests.apiserver.world import World

WHERE = {"group": "certificates.k8s.io", "namespace": ""}


def request(name: str) -> Tree:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": "", "signerName": "x.io/y", "usages": ["client auth"]},
    }


def test_a_name_that_no_path_holds_is_told_after_the_rest() -> None:
    causes = World().create("certificatesigningrequests", request("%"), **WHERE).tree
    assert [each["field"] for each in causes["details"]["causes"]] == ["spec.request"]
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "%"}}
    named = World().create("namespaces", body, namespace="").tree
    assert named["details"]["causes"][0]["field"] == "metadata.name"


def test_updates_of_the_status_judge_metadata_first_and_last() -> None:
    from controlplane.apiserver.kinds.certificates.signing_requests import KIND

    assert {KIND.strategy.meta_checks(sub) for sub in ("", "status", "approval")} == {"A*U"}
