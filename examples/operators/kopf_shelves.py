"""The shelves of `shelves.py` as an operator on kopf, with leader election by peering and a validating webhook."""

from __future__ import annotations

import base64
import hashlib
import sys
from pathlib import Path

import kopf

sys.path.insert(0, str(Path(__file__).parent))
from shelves import Api, Retry

CERTS = Path("/certs")
WEBHOOK = (CERTS / "tls.crt").is_file()  # the secret is optional


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.posting.enabled = False
    settings.batching.worker_limit = 4
    if WEBHOOK:
        settings.admission.server = kopf.WebhookServer(
            addr="127.0.0.1",
            host="127.0.0.1",
            port=9443,
            cafile=CERTS / "ca.crt",
            certfile=CERTS / "tls.crt",
            pkeyfile=CERTS / "tls.key",
        )
        settings.admission.managed = "shelves.example.com"


if WEBHOOK:

    @kopf.on.validate("shelves.example.com", operation="CREATE")
    def few_boards(spec, **_: object) -> None:
        if spec.get("boards", 1) > 10:
            raise kopf.AdmissionError("more than 10 boards")


@kopf.on.create("shelves.example.com", backoff=1)
@kopf.on.update("shelves.example.com", field="spec", backoff=1)
@kopf.on.resume("shelves.example.com", backoff=1)
def make(name, namespace, **_: object) -> None:
    api = Api()
    base = f"/api/v1/namespaces/{namespace}"
    path = f"/apis/example.com/v1/namespaces/{namespace}/shelves/{name}"
    code, shelf = api.ask("GET", path)  # the state that was handed in may be old
    if code == 404 or shelf["metadata"].get("deletionTimestamp"):
        return
    owner = {"apiVersion": "example.com/v1", "kind": "Shelf", "name": name,
             "uid": shelf["metadata"]["uid"], "controller": True}  # fmt: skip
    wanted = shelf["spec"].get("boards", 1)
    token = base64.b64encode(hashlib.sha256(name.encode()).digest()).decode()
    children = [
        ("secrets", f"{name}-key", {"key": token}),
        ("configmaps", f"{name}-label", {"text": name}),
    ]
    children += [("configmaps", f"{name}-{n}", {"board": str(n)}) for n in range(wanted)]
    for resource, child, data in children:
        kind = "Secret" if resource == "secrets" else "ConfigMap"
        tree = {"apiVersion": "v1", "kind": kind, "data": data,
                "metadata": {"name": child, "ownerReferences": [owner]}}  # fmt: skip
        code, answer = api.ask("POST", f"{base}/{resource}", tree)
        if code == 409:
            code, there = api.ask("GET", f"{base}/{resource}/{child}")
            owners = there["metadata"].get("ownerReferences") or [{}] if code == 200 else [{}]
            if owners[0].get("uid") != owner["uid"]:
                raise kopf.TemporaryError(f"{child} is another shelf's still", delay=1)
        elif code != 201:
            raise kopf.TemporaryError(f"{child}: {answer.get('message')}", delay=1)
    code, listed = api.ask("GET", f"{base}/configmaps")
    if code != 200:
        raise Retry(listed.get("message"))
    for each in listed["items"]:
        number = each["metadata"]["name"].removeprefix(f"{name}-")
        mine = (each["metadata"].get("ownerReferences") or [{}])[0].get("uid") == owner["uid"]
        if mine and number.isdigit() and int(number) >= wanted:
            code, answer = api.ask("DELETE", f"{base}/configmaps/{name}-{number}")
            if code not in (200, 404):
                raise kopf.TemporaryError(str(answer.get("message")), delay=1)
