"""A scenario with its options: all that an execution needs except a strategy."""

from __future__ import annotations

from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field, frozen

from controlplane.controllers.common.selection import STANDARD
from controlplane.errors import UsageError, shown
from controlplane.gates import FixGates, check_release, fix_gates, from_header
from controlplane.scenarios.engine.allowed_code import source_of
from controlplane.scenarios.engine.common_options import VERSIONS
from controlplane.scenarios.engine.option import ANY
from controlplane.scenarios.engine.setting import Setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios.engine.allowed_code import AllowedCode
    from controlplane.scenarios.engine.scenario import Invariant, Scenario

Tree = dict[str, Any]
Settings = tuple[tuple[str, str], ...]
"""Values of varied options, by key."""
_OF_EACH_RUN = ("fair_after", "seed", "strategy")
_ELSEWHERE = {option.key for option in VERSIONS if option.key != "feature_gates"} | {*_OF_EACH_RUN}
"""Options that the header has in another form, or that each run has apart."""
_GATES: Final = frozenset(("release", "fix", "without_fix"))
"""Options that say which repairs are in force. A plan from a recording's header has gates, and not these."""
_UNSET: Final[tuple[Any, ...]] = (None, ())
"""Values of an option that leave everything to the scenario."""


@frozen(kw_only=True)
class Plan(Setting):
    """The description of a run. Make one with `plan_of`, or from a recording's header with `plan_of_header`.

    `inputs` are digests of the files that the options name. `token_key` signed the tokens of a served
    session, as a hexadecimal number: "" when it is left out of its recording, None without a session. `store_state`
    is what the file of its store held when it began (`apiserver.storage.store_state`), "" without a file.
    `admin_token` is the digest of the token that the session accepted, "" without one.
    """

    scenario: Scenario
    inputs: Mapping[str, str] = field(factory=dict)
    token_key: str | None = field(default=None, repr=False)
    store_state: str = field(default="", repr=False)
    admin_token: str = field(default="", repr=False)
    found: dict[str, Any] = field(factory=dict, init=False, eq=False, repr=False)
    """Values computed once for all runs of this plan, by name."""

    def invariants(self) -> Sequence[Invariant]:
        """The invariants of these runs."""
        found = self.scenario.invariants
        return found(self) if callable(found) else found

    def with_options(self, **asked: Any) -> Plan:
        """The same with other options; its gates stay unless they are asked for. Raises UsageError."""
        if not asked.keys().isdisjoint(_GATES):
            return plan_of(self.scenario, **{**self.options, **asked})
        options = _checked(self.scenario, {**self.options, **asked})
        return _prepared(self.scenario, options, self.gates, _digests(self.scenario, options))

    def variants(self) -> tuple[Settings, ...]:
        """All settings of the varied options that are left to the search; one without a value if there are none."""
        left = [
            [(option.key, value) for value in option.variants]
            for option in self.scenario.all_options
            if option.varied and self.options[option.key] == ANY
        ]
        return tuple(product(*left))

    def under(self, settings: Settings) -> Plan:
        """The same with these values of varied options; one object for all runs with them."""
        if not settings:
            return self
        known = self.found.setdefault("variants", {})
        if settings not in known:
            known[settings] = self.with_options(**dict(settings), plan=())
        plan: Plan = known[settings]
        return plan.with_lines(self.options["plan"]) if self.options["plan"] else plan

    def with_lines(self, lines: Sequence[str]) -> Plan:
        """The same under another perturbation plan; what is known of the scenario stays known."""
        return self.changed({"plan": tuple(lines)})

    def changed(self, options: Mapping[str, Any]) -> Plan:
        """The same with other values of options that `prepare` does not read; what it gave stays."""
        changed = evolve(self, options={**self.options, **options})
        object.__setattr__(changed, "found", self.found)
        return changed

    def settled(self) -> Plan:
        """The plan of a single run: of what is left to a search, the first variant."""
        return self.under(self.variants()[0])

    def recorded_in(self, header: Mapping[str, Any]) -> Plan:
        """The same with what a served session's recording keeps beside its options: key, store, digest of its token."""
        state, token = header.get("store_state", ""), header.get("admin_token", "")
        key = header.get("token_key")
        return evolve(self, token_key=key, store_state=state, admin_token=token)

    def header(self) -> dict[str, Any]:
        """The recording's description of the run; the seed and the strategy belong to each run."""
        origin = self.scenario.origin
        return {
            "scenario": {
                "name": self.scenario.name,
                "address": "" if origin is None else origin.address,
                "source": "" if origin is None else origin.digest,
            },
            "options": {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in self.options.items()
                if key not in _ELSEWHERE and value not in (None, ())
            },
            "inputs": dict(self.inputs),
            "release": self.release,
            "gates": self.gates.to_header(),
            **({} if self.token_key is None else {"token_key": self.token_key}),
            **({"store_state": self.store_state} if self.store_state else {}),
            **({"admin_token": self.admin_token} if self.admin_token else {}),
        }

    def configure(self) -> ClusterConfig:
        """The cluster of one run: as the scenario builds it, with what the options say."""
        options = self.options
        config = self.scenario.build(self)
        if self.scenario.nodes is not None:
            config = evolve(config, nodes=tuple(self.scenario.nodes(self)))
        elif config.nodes is None:
            config = evolve(config, nodes=self.nodes())
        if self.scenario.controllers:
            config = evolve(config, enabled_controllers=(*STANDARD, *self.scenario.controllers))
        changes: dict[str, Any] = {}
        for option in self.scenario.all_options:
            value = options[option.key]
            if option.sets and value is not None:
                changes[option.sets] = value
            if option.apply is not None and value not in _UNSET:
                changes.update(option.apply(evolve(config, **changes), self))
        if self.token_key:
            changes["token_key"] = bytes.fromhex(self.token_key)
        if self.admin_token:
            changes["admin_token"] = self.admin_token
        return evolve(config, gates=self.gates, release=self.release, **changes)


def _checked(scenario: Scenario, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option, those asked for checked one by one."""
    options = {option.key: option for option in scenario.all_options}
    for key in asked:
        if key not in options:
            raise UsageError(
                f"scenario {scenario.name!r} has no option {shown(key)}; it has {', '.join(options)}"
            )
    return {
        key: option.check(asked.get(key, scenario.default(option)))
        for key, option in options.items()
    }


def plan_of(scenario: Scenario, **asked: Any) -> Plan:
    """The scenario with these options, by key; what is not named is as by default.

    Raises UsageError, in one line, before anything runs.
    """
    options = _checked(scenario, asked)
    gates = fix_gates(options["release"], options["without_fix"], options["fix"])
    return _prepared(scenario, options, gates, _digests(scenario, options))


def plan_of_header(
    scenario: Scenario,
    header: Mapping[str, Any],
    allowed: AllowedCode | None = None,
    **changed: Any,
) -> Plan:
    """The plan that a recording was made with; options in `changed` replace the recorded ones.

    Args:
        scenario: the recorded scenario.
        header: the recording's.
        allowed: the code that the recording may run; all of it where None (a header of this very process).
        changed: options that replace the recorded ones.

    Raises UsageError when it cannot be had: an option that is gone, files of another content, code that is not allowed.
    """
    check_release(header["release"])
    recorded = {**header["options"], "release": header["release"], **changed}
    options = _checked(scenario, recorded)
    if allowed is not None:
        for option in scenario.all_options:
            for name in options[option.key] or () if option.names_code else ():
                allowed.check(name, "options")
    digests = _digests(scenario, options)
    for key, digest in header["inputs"].items():
        if digests.get(key) != digest:
            names = options.get(key)
            shown = names if isinstance(names, str) else " ".join(names or ())
            raise UsageError(f"recorded with another content of {key} ({shown or 'none'})")
    plan = _prepared(scenario, options, from_header(header["gates"]), digests)
    return plan.recorded_in(header)


def _prepared(
    scenario: Scenario, options: Mapping[str, Any], gates: FixGates, digests: Mapping[str, str]
) -> Plan:
    plan = Plan(scenario=scenario, options=options, gates=gates, inputs=digests)
    parsed = {
        option.key: option.parse(plan)
        for option in scenario.all_options
        if option.parse is not None and options[option.key] not in _UNSET
    }
    plan = evolve(plan, parsed=parsed)
    if scenario.prepare is not None:
        plan = evolve(plan, given=scenario.prepare(plan))
    return plan


def _digests(scenario: Scenario, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the digest of the files and of the code that each option names. Raises UsageError."""
    found: dict[str, str] = {}
    for option in scenario.all_options:
        value = options[option.key]
        if value and (option.names_files or option.names_code):
            names = [value] if isinstance(value, str) else value
            found[option.key] = code_digest(names) if option.names_code else digest(names)
    return found


def difference(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first thing in which two headers differ, but for seed, strategy and where files lie; "" if none."""
    files = [*recorded["inputs"], *now["inputs"]]
    for part in ("options", "inputs"):
        then, here = recorded[part], now[part]
        for key in dict.fromkeys((*here, *then)):
            if (part == "inputs" or key not in files) and then.get(key) != here.get(key):
                return f"recorded with another {key}: {then.get(key)!r}, now {here.get(key)!r}"
    for key in ("release", "gates"):
        if recorded[key] != now[key]:
            return f"recorded with another {key}: {recorded[key]!r}, now {now[key]!r}"
    return ""


def digest(files: Sequence[str]) -> str:
    """Identifies the content of files and folders, wherever they lie. Raises UsageError.

    Only regular files are read: a device or a pipe that a recording names could go on for ever.
    """
    made = blake2b(digest_size=16)
    count = size = 0
    for name in files:
        if name == "-":
            from controlplane.scenarios.inputs.manifests import standard_input

            _add(made, standard_input().encode())
            continue
        path = Path(name)
        for part in _parts(path):
            count += 1
            try:
                size += part.stat().st_size
                if count > _MOST_FILES or size > _MOST_BYTES:
                    raise UsageError(
                        f"{name}: more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20:,} MiB"
                    )
                _add(made, part.read_bytes())
            except FileNotFoundError as error:
                raise UsageError(f"{part}: no such file or directory") from error
            except OSError as error:
                raise UsageError(f"{part}: cannot be read: {error.strerror}") from error
    return made.hexdigest()


_MOST_FILES = 100_000
_MOST_BYTES = 1 << 30


def _parts(path: Path) -> Iterator[Path]:
    """Return a file, or the files of a folder in order."""
    if path.is_dir():
        yield from sorted(each for each in path.rglob("*") if each.is_file())
    elif path.exists() and not path.is_file():
        raise UsageError(f"{path}: expected a file or a folder, found a device or a pipe")
    else:
        yield path


def code_digest(names: Sequence[str]) -> str:
    """Identifies the source of files and modules of Python code. Raises UsageError."""
    made = blake2b(digest_size=16)
    for name in names:
        _add(made, source_of(name).replace(b"\r\n", b"\n"))
    return made.hexdigest()


def _add(made: blake2b, content: bytes) -> None:
    made.update(len(content).to_bytes(8, "big"))
    made.update(content)
