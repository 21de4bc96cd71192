"""Real kubectls against our server: the recorded release, a very old one, and those around it."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from tests.golden import answer_kubectl_requests as adapter
from tests.golden.kubectl_text import named, named_tree, other_cases_rows
from tests.golden.kubectl_world import AT_ONCE, kubectl_of
from tests.golden.runner import DATA, Case, read_cases

CASES = DATA / "api" / "kubectl_requests.jsonl.xz"
OLD = "1.20"
DIFFERENCES = Path(__file__).parent / "kubectl_differences"
RELEASES = sorted(path.stem for path in DIFFERENCES.glob("*.txt"))
QUICK = ("kubectl/get_output", "kubectl/patch", "kubectl/delete_cascade")

needs_kubectl = pytest.mark.skipif(
    kubectl_of(adapter.RELEASE) is None, reason=f"there is no kubectl {adapter.RELEASE}"
)
needs_old_kubectl = pytest.mark.skipif(kubectl_of(OLD) is None, reason=f"there is no kubectl {OLD}")


def cases() -> dict[str, Case]:
    return {case.id: case for case in read_cases(CASES)}


def outcomes(program: str, case: Case) -> list[tuple[str, str]]:
    """Per command: which it is, and how it differs in exit status or output ("" if it does not)."""
    got = trio.run(adapter.run, program, case.input)
    found = []
    for number, (wanted, ours) in enumerate(zip(case.want["commands"], got, strict=True)):
        seen = {key: value for key, value in wanted.items() if key not in ("requests", "discovery")}
        command = f"{case.id} {number} {' '.join(ours['argv'])}"
        found.append((command, adapter.differs(seen, ours) or ""))
    return found


@pytest.mark.slow
@needs_kubectl
@pytest.mark.parametrize("name", QUICK)
def test_requests_and_output_are_those_of_the_recording(name: str) -> None:
    program = kubectl_of(adapter.RELEASE)
    assert program is not None
    case = cases()[name]
    got = {"commands": trio.run(adapter.run, program, case.input)}
    assert adapter.compare(case.want, got) is None


TRIES = 4


def marks(release: str) -> tuple[pytest.MarkDecorator, ...]:
    """Run the oldest release in CI, the newest nightly, and those between if all are wanted."""
    spared = release not in (RELEASES[0], RELEASES[-1]) and "ALL_KUBECTLS" not in os.environ
    reason = "between the oldest and the newest: ALL_KUBECTLS=1"
    when = pytest.mark.slow if release == RELEASES[0] else pytest.mark.nightly
    return when, pytest.mark.skipif(spared, reason=reason)


# Every command of the recordings, one process each.
@pytest.mark.parametrize("release", [pytest.param(each, marks=marks(each)) for each in RELEASES])
def test_a_kubectl_of_another_release_prints_the_same_but_for_what_it_changed_itself(
    release: str,
) -> None:
    program = kubectl_of(release)
    if program is None:
        pytest.skip(f"there is no kubectl {release}: see `dev.py kubectls`")
    listed = (DIFFERENCES / f"{release}.txt").read_text(encoding="utf-8").splitlines()
    known = {" ".join(line.split(" ")[:2]) for line in listed if not line.startswith("#")}

    def new(case: Case) -> list[str]:
        # kubectl prints some maps in whatever order they come: what differs is asked again.
        found: set[str] | None = None
        for _ in range(TRIES):
            differing = {
                f"{command}: {problem[:200]}"
                for command, problem in outcomes(program, case)
                if problem and " ".join(command.split(" ")[:2]) not in known
            }
            commands = {text.partition(": ")[0] for text in differing}
            found = (
                differing
                if found is None
                else {text for text in found if text.partition(": ")[0] in commands}
            )
            if not found:
                break
        return sorted(found or ())

    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = [line for lines in pool.map(new, cases().values()) for line in lines]
    assert not said, "\n".join(said)


@needs_old_kubectl
def test_an_old_kubectl_reads_our_openapi_document() -> None:
    """It validates before it sends, with the protobuf form of OpenAPI version 2."""
    program = kubectl_of(OLD)
    assert program is not None
    case = cases()["kubectl/create_validate"]
    case.input["commands"] = case.input["commands"][:1]
    (done,) = trio.run(adapter.run, program, case.input)
    assert 'unknown field "datax" in io.k8s.api.core.v1.ConfigMap' in done["stderr"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pod  3m12s  x", "pod  <age> x"),
        ("uid: 0a1b2c3d-0000-4000-8000-00000000000f", "uid: <uid>"),
        ("at 2031-01-02T03:04:05Z", "at <time>"),
        ("at 2020-01-01T00:00:00Z", "at 2020-01-01T00:00:00Z"),
        ("dial 127.0.0.1:10257", "dial <server>"),
        ('resourceVersion: "100123"', 'resourceVersion: "<rv>"'),
        ("/tmp/LIVE-123/v1.A", "/tmp/LIVE-<n>/v1.A"),
    ],
)
def test_volatile_parts_get_the_names_of_the_recordings(text: str, name: str) -> None:
    assert named(text) == name


def test_tokens_and_random_limits_of_requests_are_opaque() -> None:
    asked = {"continue": "abc", "timeoutSeconds": "417", "limit": "1"}
    assert named_tree(asked) == {
        "continue": "<continue>",
        "timeoutSeconds": "<random 300-599>",
        "limit": "1",
    }


def test_rows_of_other_cases_are_dropped() -> None:
    table = "NAMESPACE   NAME\nk-v-01      a\nk-v-02      a\nother       a\n"
    assert other_cases_rows(table, "k-v-02") == "NAMESPACE   NAME\nk-v-02      a\nother       a\n"
