"""Which containers have a log, and what kubectl prints for those that have none."""

import pytest

from controlplane.api.container_output import Line, Lines, Output
from controlplane.api.times import SECOND
from controlplane.apiserver.requests.pod_logs import check_has_log, first_shown, shown
from controlplane.apiserver.schema.status import ApiError

ENDED = {"terminated": {"exitCode": 1, "containerID": "containerd://1"}}
NEVER_MADE = {"terminated": {"exitCode": 137}}


def waiting(reason):
    return {"waiting": {"reason": reason}}


def pod(state, last=None, *, where="containerStatuses", initial=()):
    told = {"name": "c", "state": state, "lastState": last or {}}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c"}], "initContainers": list(initial)},
        "status": {where: [told]} if state is not None else {},
    }


@pytest.mark.parametrize(
    ("state", "last", "previous"),
    [
        ({"running": {}}, None, False),
        ({"running": {}}, ENDED, True),
        (ENDED, None, False),
        (NEVER_MADE, ENDED, False),
        (waiting("CrashLoopBackOff"), ENDED, False),
        (waiting("CrashLoopBackOff"), ENDED, True),
    ],
)
@pytest.mark.parametrize(
    "where", ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
)
def test_what_runs_or_ran_has_a_log(state, last, previous, where):
    check_has_log(pod(state, last, where=where), "c", previous=previous)


@pytest.mark.parametrize(
    ("state", "last", "previous", "message"),
    [
        ({"running": {}}, None, True, 'previous terminated container "c" in pod "p" not found'),
        (ENDED, None, True, 'previous terminated container "c" in pod "p" not found'),
        (NEVER_MADE, None, False, 'container "c" in pod "p" is terminated'),
        (
            waiting("CreateContainerConfigError"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: CreateContainerConfigError',
        ),
        (
            waiting("ErrImagePull"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            waiting("ImagePullBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
        (None, None, False, 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        ({}, None, False, 'container "c" in pod "p" is waiting to start - no logs yet'),
    ],
)
def test_what_never_ran_has_none_and_the_reason_is_told(state, last, previous, message):
    with pytest.raises(ApiError) as found:
        check_has_log(pod(state, last), "c", previous=previous)
    assert (found.value.code, found.value.message) == (400, message)


def test_a_pod_that_was_not_begun_waits_for_its_init_containers():
    with pytest.raises(ApiError, match="waiting to start: PodInitializing"):
        check_has_log(pod(None, initial=[{"name": "i"}]), "c")


class Counted(Lines):
    """Lines that count how many were made."""

    made = 0

    def __getitem__(self, at):
        self.made += 1
        return super().__getitem__(at)


def output(times=10_000):
    return Output(0, Counted([Line(0, "head")], ["{n}"], times=times, every=SECOND))


@pytest.mark.parametrize(
    ("query", "text", "most"),
    [
        ({"tailLines": "2"}, b"9999\n10000\n", 2),
        ({"limitBytes": "7"}, b"head\n1\n", 2),
        ({"limitBytes": "8"}, b"head\n1\n2", 3),
        ({"tailLines": "3", "limitBytes": "4"}, b"9998", 1),
        ({"sinceSeconds": "1"}, b"9999\n10000\n", 20),
        ({"tailLines": "0"}, b"", 0),
    ],
)
def test_only_the_lines_that_are_shown_are_made(query, text, most):
    found = output()
    first = first_shown(found, query, 9_999 * SECOND)
    assert shown(found, query, first) == text
    assert found.lines.made <= most


def test_lines_have_the_time_at_which_they_were_written():
    assert shown(output(1), {"timestamps": "true"}, 0) == (
        b"1970-01-01T00:00:00.000000000Z head\n1970-01-01T00:00:00.000000000Z 1\n"
    )
