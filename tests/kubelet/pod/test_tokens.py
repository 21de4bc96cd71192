"""Tokens of pods: which are asked for, when they are renewed, and what a failure leaves."""

from __future__ import annotations

import pytest

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, format_time
from controlplane.kubelet.pod.tokens import (
    FIRST_DELAY,
    LARGEST_DELAY,
    PodTokens,
    Source,
    Token,
    body_of,
    runs_programs,
    sources_of,
)

NOW = 1_800_000_000 * SECOND
HOUR = 3600


def volume(name, *sources):
    return {"name": name, "projected": {"sources": list(sources)}}


def wanted(path, **more):
    return {"serviceAccountToken": {"path": path, **more}}


def pod(*volumes, annotations=None, **container):
    mounts = [{"name": "t", "mountPath": "/t"}]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts, **container}]
    meta = {"name": "p", "namespace": "default", "uid": "u", "annotations": annotations or {}}
    return Pod.from_tree(
        {"metadata": meta, "spec": {"containers": containers, "volumes": list(volumes)}}
    )


def token(seconds=HOUR, issued=NOW):
    answer = {
        "spec": {"expirationSeconds": seconds},
        "status": {"token": "abc", "expirationTimestamp": format_time(issued + seconds * SECOND)},
    }
    return Token.of(answer)


def test_the_tokens_of_mounted_volumes_are_asked_for():
    found = pod(
        volume("t", wanted("a"), {"configMap": {"name": "m"}}, wanted("b", audience="vault")),
        volume("other", wanted("c", expirationSeconds=700)),
    )
    assert sources_of(found) == (Source("t", "a", "", HOUR), Source("t", "b", "vault", HOUR))
    body = body_of(found, sources_of(found)[1])
    assert body["spec"] == {
        "audiences": ["vault"],
        "expirationSeconds": HOUR,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": found.uid},
    }
    assert "audiences" not in body_of(found, sources_of(found)[0])["spec"]


@pytest.mark.parametrize(
    ("seconds", "jitter", "after"),
    [
        (HOUR, 0, 2880),
        (HOUR, 10, 2870),
        (600, 0, 480),
        (100 * HOUR, 0, 24 * HOUR),
    ],
)
def test_a_token_is_renewed_when_a_fifth_of_its_life_is_left_or_it_is_a_day_old(
    seconds, jitter, after
):
    assert token(seconds).renewed_at(jitter * SECOND) == NOW + after * SECOND


def test_a_volume_waits_for_its_tokens_and_says_why_one_is_missing():
    found = pod(volume("t", wanted("a"), wanted("b")))
    tokens = PodTokens(found, sources_of(found))
    first, second = tokens.due(NOW, 0)
    assert tokens.look("t") is None
    tokens.took(first, token())
    assert tokens.look("t") is None
    assert tokens.failed(second, "denied", NOW) == "failed to fetch token: denied"
    assert tokens.look("t") == "failed to fetch token: denied"
    tokens.took(second, token())
    assert tokens.look("t") == ""
    assert tokens.look("without tokens") == ""


def test_a_token_that_cannot_be_renewed_stays():
    found = pod(volume("t", wanted("a")))
    tokens = PodTokens(found, sources_of(found))
    (source,) = tokens.sources
    tokens.took(source, token())
    assert tokens.next_request(NOW, 0) == NOW + 2880 * SECOND
    late = NOW + 2880 * SECOND
    assert tokens.due(late - 1, 0) == []
    assert tokens.due(late, 0) == [source]
    assert tokens.failed(source, "gone", late) == "couldn't update token of default/p: gone"
    assert tokens.look("t") == ""
    expired = NOW + (HOUR + 1) * SECOND
    text = "token of default/p expired and refresh failed: gone"
    assert tokens.failed(source, "gone", expired) == text


def test_failures_are_retried_with_growing_delays_until_an_answer_comes():
    found = pod(volume("t", wanted("a")))
    tokens = PodTokens(found, sources_of(found))
    (source,) = tokens.sources
    delays = []
    for _ in range(10):
        tokens.failed(source, "x", NOW)
        delays.append(tokens.next_request(NOW, 0) - NOW)
    assert delays[:3] == [FIRST_DELAY, 2 * FIRST_DELAY, 4 * FIRST_DELAY]
    assert delays[-1] == LARGEST_DELAY
    tokens.took(source, token())
    tokens.next_request(NOW, 0)
    tokens.failed(source, "x", NOW)
    assert tokens.next_request(NOW, 0) == NOW + FIRST_DELAY


@pytest.mark.parametrize(
    ("container", "runs"),
    [
        ({}, False),
        ({"command": ["nginx"]}, False),
        ({"command": ["sleep", "5"]}, True),
        ({"command": ["sh", "-c"], "args": ["cat /t/a; sleep 1"]}, True),
        ({"args": ["sleep", "1"]}, True),
        ({"stdin": True, "tty": True}, True),
        ({"stdin": True}, False),
    ],
)
def test_the_emulated_shell_says_whose_programs_run(container, runs):
    assert runs_programs(pod(**container)) is runs


@pytest.mark.parametrize(
    ("name", "runs"), [("run-seconds", False), ("run-seconds.c", False), ("run-seconds.d", True)]
)
def test_a_program_that_annotations_describe_does_not_run(name, runs):
    told = {f"emulate.controlplane/{name}": "3"}
    assert runs_programs(pod(command=["sleep", "5"], annotations=told)) is runs
