"""From a module or a user's file to a scenario; and from a recording's header back to the same one."""

from __future__ import annotations

import sys
import traceback
from hashlib import blake2b
from importlib import import_module
from pathlib import Path, PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any

from attrs import evolve

from controlplane.errors import UsageError, shown
from controlplane.scenarios.engine.scenario import Origin, Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.scenarios.engine.allowed_code import AllowedCode

BUILT_IN = "controlplane."
"""The prefix of the module names of scenarios that come with the package."""
SUFFIX = ".py"
ATTRIBUTE = "SCENARIO"
NAMED = {
    "autoscaler-churn": "controlplane.scenarios.churns.autoscaler_churn",
    "churn": "controlplane.scenarios.churns.scheduler_churn",
    "kubelet-churn": "controlplane.scenarios.churns.kubelet_churn",
    "controller-churn": "controlplane.scenarios.churns.controller_churn",
    "dra-churn": "controlplane.scenarios.churns.dra_churn",
    "gang-churn": "controlplane.scenarios.churns.gang_churn",
    "capacity-churn": "controlplane.scenarios.churns.capacity_churn",
    "coscheduling-churn": "controlplane.scenarios.churns.coscheduling_churn",
    "numa-churn": "controlplane.scenarios.churns.numa_churn",
    "kueue-churn": "controlplane.scenarios.churns.kueue_churn",
    "system-churn": "controlplane.scenarios.churns.system_churn",
    "kueue-jobs-churn": "controlplane.scenarios.churns.kueue_jobs_churn",
    "storage-churn": "controlplane.scenarios.churns.storage_churn",
    "storage-hazards": "controlplane.scenarios.churns.storage_hazards",
}
"""Scenarios that come with the package and may be named in place of a file."""
_MODULES = "controlplane_user_scenarios"


def from_module(name: str) -> Scenario:
    """The scenario that a module of this package holds as `SCENARIO`."""
    module = import_module(name)
    found: Scenario = getattr(module, ATTRIBUTE)
    assert module.__file__ is not None
    return evolve(found, origin=Origin(name, digest(Path(module.__file__).read_bytes())))


def from_file(path: Path, *, expected: str = "") -> Scenario:
    """The scenario in a user's file.

    With `expected`, a file whose source has another digest is refused before anything of it runs.
    Raises UsageError in one line that names the file, the line and what was expected.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    found_digest = digest(source)
    if expected and found_digest != expected:
        raise UsageError(f"{path}: the source is another one than that recorded")
    origin = Origin(PurePath(path).as_posix(), found_digest)
    if is_declared(path):
        from controlplane.scenarios.authoring.declared import scenario_in

        try:
            return evolve(scenario_in(source.decode("utf-8"), str(path)), origin=origin)
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: not UTF-8 text") from error
    module = _execute(path, source)
    scenarios = [value for value in vars(module).values() if isinstance(value, Scenario)]
    scenarios = [each for number, each in enumerate(scenarios) if each not in scenarios[:number]]
    if len(scenarios) != 1:
        held = ", ".join(repr(each.name) for each in scenarios) or "none"
        raise UsageError(
            f"{path}: expected one scenario, as in {ATTRIBUTE} = Scenario(NAME, workload=...); found {held}"
        )
    title = scenarios[0].title or _first_line(module.__doc__)
    return evolve(scenarios[0], origin=Origin(PurePath(path).as_posix(), found_digest), title=title)


def is_declared(path: PurePath) -> bool:
    """Return whether a file's name says that it holds a scenario in YAML; see `scenarios.declared`."""
    return path.suffix.lower() in (".yaml", ".yml")


def recorded(
    told: Mapping[str, Any],
    beside: Path,
    allowed: AllowedCode | None = None,
    *,
    changed: bool = False,
) -> Scenario:
    """The scenario that a recording names; its source must be what it was, unless it may have `changed`.

    A user's file is looked for where it lay, as seen from here, and beside the recording. One in Python must be
    `allowed` to run (None: any may, for a header of this very process). Raises UsageError.
    """
    name, address, source = told["name"], str(told["address"]), str(told["source"])
    if address.endswith(SUFFIX) or is_declared(PurePath(address)):
        places = [Path(address), beside.parent / PurePath(address).name]
        for place in places:
            if _is_file(place):
                if allowed is not None and not is_declared(place):
                    allowed.check(str(place), beside)
                return from_file(place, expected="" if changed else source)
        looked = " and ".join(shown(str(place)) for place in places)
        raise UsageError(f"{beside}: its scenario {shown(name)} is not here: looked for {looked}")
    if not address.startswith(BUILT_IN):
        raise UsageError(
            f"{beside}: scenario {shown(name)} stands in no file: replay it with the program that recorded it"
        )
    try:
        found = from_module(address)
    except (ImportError, AttributeError) as error:
        which = f"its scenario {shown(name)} ({shown(address)})"
        raise UsageError(f"{beside}: {which} does not exist") from error
    assert found.origin is not None
    if found.origin.digest != source and not changed:
        raise UsageError(
            f"{beside}: the source of scenario {name!r} ({address}) is another one than that recorded"
        )
    return found


def _is_file(place: Path) -> bool:
    """Return whether the file exists; False for a name that the operating system refuses."""
    try:
        return place.is_file()
    except OSError:
        return False


def digest(source: bytes) -> str:
    """Identifies a source; how its lines end does not matter."""
    return blake2b(source.replace(b"\r\n", b"\n"), digest_size=16).hexdigest()


def _execute(path: Path, source: bytes) -> ModuleType:
    """Run a user's file as a module. What it raises is reported in one line; the rest is the error's cause."""
    name = f"{_MODULES}.{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    here = str(path.parent.resolve())
    sys.path.insert(0, here)  # its neighbours, as for `python FILE`
    try:
        code = compile(source, str(path), "exec", dont_inherit=True)
        exec(code, vars(module))  # noqa: S102
    except SyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: {error.msg}") from error
    except ValueError as error:
        if not error.__traceback__ or error.__traceback__.tb_next is None:
            raise UsageError(f"{path}: not a Python file: {error}") from error
        raise _told(path, error) from error
    except Exception as error:
        raise _told(path, error) from error
    finally:
        sys.path.remove(here)
    return module


def _told(path: Path, error: Exception) -> UsageError:
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    text = " ".join(str(error).split())
    if isinstance(error, UsageError):
        return UsageError(f"{place}: {text}")
    return UsageError(f"{place}: {type(error).__name__}: {text}")


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
