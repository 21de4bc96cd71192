"""Containers of a served cluster: clients that enter them see what the kubelet put there."""

from __future__ import annotations

import pytest

from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import PODS, served
from tests.serving.test_nodes import until

pytest.importorskip("wsproto")
from tests.apiserver.http.exec_client import run

TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}


async def test_a_client_reads_the_token_of_any_pod_and_the_recording_replays():
    async with served(controllers="*", nodes=1, keep=True) as session:
        assert (await session.ask("POST", PODS, POD)).code == 201
        pod = await until(session, f"{PODS}/web", lambda a: a.tree["status"]["phase"] == "Running")
        text = await run(session, "web", f"cat {TOKEN}")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
        answer = await session.ask("POST", REVIEWS, {**asked, "spec": {"token": text}})
    user = answer.tree["status"]["user"]
    assert user["username"] == "system:serviceaccount:default:default"
    uid = pod.tree["metadata"]["uid"]
    assert user["extra"]["authentication.kubernetes.io/pod-uid"] == [uid]
    recording = session.serving.recording()
    again = replaying.replayed(session.serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash
