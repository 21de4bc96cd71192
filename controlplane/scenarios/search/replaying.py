"""A recording again: the same scenario, options and answers; it stops at the first difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import Replay
from actors.recording import load as load_recording
from controlplane import __version__
from controlplane.errors import UsageError, shown
from controlplane.scenarios.engine.allowed_code import NO_CODE, AllowedCode
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of_header
from controlplane.scenarios.search import loading

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors import EventLog, Recording
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.engine.scenario import Scenario

RECORDING = "run.rec"
PARTS = ("scenario", "options", "inputs", "release", "gates")
_TOLD = ("name", "address", "source")
"""The scenario that a header names."""


def load(path: Path, *, any_version: bool = False) -> Recording:
    """Read a recording, or that of a folder of results: of this version of the package, unless of any.

    Raises RecordingError or UsageError.
    """
    if path.is_dir():
        path = path / RECORDING
    recording = load_recording(path, package=None if any_version else __version__)
    missing = [part for part in PARTS if part not in recording.header]
    if missing:
        raise UsageError(f"{path}: no recording of a scenario (its header has no {missing[0]!r})")
    problem = _misfit(recording.header)
    if problem:
        raise UsageError(f"{path}: damaged recording: its header's {problem}")
    return recording


def check_replayable(recording: Recording, path: Path) -> None:
    """Refuse what went on from a store whose content the recording does not hold. Raises UsageError."""
    has_file = recording.header["options"].get("store", "memory") != "memory"
    if has_file and not recording.header.get("store_state"):
        raise UsageError(
            f"{path}: recorded over a store that held objects before: cannot be replayed"
        )


def _misfit(header: Mapping[str, Any]) -> str:
    """The header field of the wrong form and the expected form; "" if all are right."""
    for part in ("scenario", "options", "inputs", "gates"):
        found = header[part]
        if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
            return f"{part} is {shown(found)}, expected a map with texts as keys"
        if part == "options":
            continue
        for key, value in found.items():
            if not isinstance(value, str):
                return f"{part} has {shown(key)}: {shown(value)}, expected a text"
    for key in _TOLD:
        if key not in header["scenario"]:
            return f"scenario has no {key!r}"
    if not isinstance(header["release"], str):
        return f"release is {shown(header['release'])}, expected a text"
    seed, key = header.get("seed"), header.get("token_key")
    if seed is not None and type(seed) is not int:
        return f"seed is {shown(seed)}, expected a whole number"
    if key is not None and not (isinstance(key, str) and _is_hexadecimal(key)):
        return "token_key is no hexadecimal number"
    for part in ("store_state", "admin_token"):
        state = header.get(part, "")
        if not isinstance(state, str):
            return f"{part} is {shown(state)}, expected a text"
    return ""


def _is_hexadecimal(text: str) -> bool:
    try:
        bytes.fromhex(text)
    except ValueError:
        return False
    return True


def plan_of_recording(
    recording: Recording,
    path: Path,
    scenario: Scenario | None = None,
    allowed: AllowedCode = NO_CODE,
    **changed: Any,
) -> Plan:
    """The plan that was recorded.

    Args:
        recording: the recording.
        path: where it lies, for messages and for files beside it.
        scenario: the recorded scenario; without it, that of the address in the recording, which must be what it was.
        allowed: the Python code that the recording may run.
        changed: options that replace the recorded ones.

    Raises UsageError.
    """
    check_replayable(recording, path)
    if scenario is None:
        scenario = loading.recorded(recording.header["scenario"], path, allowed)
    try:
        return plan_of_header(scenario, recording.header, allowed, **changed)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def plan_of_changed_code(
    recording: Recording, path: Path, allowed: AllowedCode | None = None
) -> Plan:
    """The plan of a recording over its scenario and its inputs as they are now. Raises UsageError.

    Args:
        recording: the recording.
        path: where it lies, for messages and for files beside it.
        allowed: the Python code that may run; all of it where None.
    """
    check_replayable(recording, path)
    scenario = loading.recorded(recording.header["scenario"], path, allowed, changed=True)
    header = {**recording.header, "inputs": {}}
    try:
        return plan_of_header(scenario, header, allowed)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def replayed(plan: Plan, recording: Recording, log: EventLog | None = None) -> Execution:
    """A run that will repeat a recording strictly, once it is executed; with its whole log unless one is given."""
    plan = plan.recorded_in(recording.header)
    strategy = Replay(recording.choices, marks=recording.marks)
    strategy.seed = recording.header.get("seed")  # what the log says of the run stays the same
    run = Execution(plan, strategy, log=log, inputs=recording.inputs)
    if recording.verdict == "stopped" and not recording.inputs:
        run.world.stop_after(recording.steps, recording.reason)
    return run


def note_of(header: Mapping[str, Any]) -> str:
    """The notice for a recording of a served session; "" if none."""
    key = header.get("token_key")
    if key is None:
        return ""
    if key:
        return "holds the key that signed the session's tokens: who reads it can make such tokens"
    return (
        "leaves out the key that signed the session's tokens: what serviceaccounts/token and tokenreviews"
        " answered cannot be repeated, all else can"
    )
