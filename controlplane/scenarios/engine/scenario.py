"""The one description of a run: the cluster, its users, the faults, the invariants.

`run`, `serve`, `race`, `explore`, `bench` and the tests differ only in the scenario they run and
the source of its choices.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from controlplane.controllers.common.selection import names_of
from controlplane.errors import UsageError, unknown_name
from controlplane.scenarios.engine.common_options import COMMON

if TYPE_CHECKING:
    from controlplane.cluster import Cluster, ClusterConfig
    from controlplane.scenarios.engine.option import Option
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting, Tree
    from controlplane.scenarios.engine.user import User

    Main = Callable[[User], Coroutine[Any, Any, Any]]
    Check = Callable[[Run], str | None]
    Window = tuple[float, float] | None

LIVELOCK_LIMIT = 20_000
"""Steps in one instant after which a run counts as a livelock."""


def _whole_cluster(_setting: Setting) -> ClusterConfig:
    """Return a cluster with every component."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig()


def _is_async(owner: Any, attribute: Any, value: Any) -> None:
    mains = value.values() if isinstance(value, Mapping) else (value,)
    for main in mains:
        if not inspect.iscoroutinefunction(main):
            raise UsageError(
                f"{type(owner).__name__} {owner.name!r}: {attribute.name}: expected an `async def` that takes"
                f" a user, found {main!r}"
            )


def _takes_the_run(invariant: Invariant, _attribute: Any, value: Any) -> None:
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise UsageError(
            f"invariant {invariant.name!r}: check: expected a plain function of the run, found {value!r}"
        )


@frozen
class Invariant:
    """Something that must hold.

    `check(run)` answers None, or says in one line what is wrong. It is asked after every step of
    the actors named in `after`; with none named, once the run has settled. With `looks_at`, only
    after those steps after which `looks_at(run)` is another value than when it was asked last.
    `begin(run)` is called before the run starts.
    """

    name: str
    check: Check = field(validator=_takes_the_run)
    after: tuple[str, ...] = ()
    begin: Callable[[Run], None] | None = field(default=None, kw_only=True)
    looks_at: Callable[[Run], Any] | None = field(default=None, kw_only=True)


@frozen
class Sometimes:
    """Something that should happen in some run of a search; a search that never meets it says nothing.

    `reached(run)` is asked at the end of each run.
    """

    name: str
    reached: Callable[[Run], bool]


@frozen
class Fault:
    """Something that may go wrong, and when: an actor that does it. Ready-made ones stand in `scenarios.faults`."""

    name: str
    main: Main = field(validator=_is_async)


@frozen
class Origin:
    """The origin of a scenario: the module's dotted name or the file's path, and a digest of the source."""

    address: str
    digest: str


def _all_are(cls: type, word: str) -> Callable[[Scenario, Any, Any], None]:
    def check(scenario: Scenario, attribute: Any, value: Any) -> None:
        if callable(value):
            return
        for each in value:
            if not isinstance(each, cls):
                raise UsageError(
                    f"scenario {scenario.name!r}: {attribute.name}: expected {word}, found {each!r}"
                )

    return check


def _options_are_new(scenario: Scenario, _attribute: Any, value: Sequence[Option]) -> None:
    keys = [option.key for option in (*COMMON, *value)]
    twice = [key for key in keys if keys.count(key) > 1]
    if twice:
        raise UsageError(f"scenario {scenario.name!r}: option {twice[0]!r} is declared twice")


def _defaults_are_known(scenario: Scenario, _attribute: Any, value: Mapping[str, Any]) -> None:
    known = [option.key for option in COMMON]
    for key in value:
        if key not in known:
            raise UsageError(
                f"scenario {scenario.name!r}: defaults: {unknown_name('common option', key, known)}"
            )


def _controllers_are_known(scenario: Scenario, _attribute: Any, value: Sequence[str]) -> None:
    if not value:
        return
    from controlplane.controllers.loops import manager

    manager.check_names(value, f"scenario {scenario.name!r}: controllers")


@frozen
class Scenario:
    """A scenario.

    Args:
        name: what it is called, in a few words.
        workload: `async def` that takes a `User`; or several by the names of their actors, which
            begin at the same time.
        build: the world, as the configuration of a cluster; what the options say about gates,
            release and numbers of processes is put in afterwards. Every component unless given.
        nodes: the nodes, as a function of the setting; by default those of the configuration that `build` returns, and
            where that names none, those of the options --nodes (2), --node-cpu and --node-memory. An empty sequence
            means no nodes.
        controllers: controllers besides the standard ones ("statefulset, job", "*"), as in `--controllers`, which
            takes their place.
        faults: what may fail.
        invariants: what must hold; or a function of the setting that gives them.
        sometimes: what should happen in some run of a search.
        options: its own, besides the common ones.
        defaults: of common options, where they differ, by key. told: texts in the help for
            defaults that are not values, by key.
        title: what it is about, in one line; the first line of its file's docstring by default.
        prepare: reads and checks what the options name, once, before anything runs; what it gives
            is `setting.given`. Raises UsageError.
        reads_log: whether an invariant reads the log, which then is kept in every run.
        explored: the virtual seconds between which choices are explored; before and after they take
            their default, and so do jitters. None: all of the run. Or a function of the setting that gives it.
        live: whether clients use the cluster from outside while it runs; then its log begins before its trace is
            known, and is named after its header.
        make: the class of the cluster. livelock_limit, step_limit, eager_time: as `actors.World`.
    """

    name: str
    workload: Main | Mapping[str, Main] = field(kw_only=True, validator=_is_async)
    build: Callable[[Setting], ClusterConfig] = field(default=_whole_cluster, kw_only=True)
    nodes: Callable[[Setting], Sequence[Tree]] | None = field(default=None, kw_only=True)
    faults: Sequence[Fault] = field(default=(), kw_only=True, validator=_all_are(Fault, "a Fault"))
    controllers: Sequence[str] = field(
        default=(), kw_only=True, converter=names_of, validator=_controllers_are_known
    )
    invariants: Sequence[Invariant] | Callable[[Setting], Sequence[Invariant]] = field(
        default=(), kw_only=True, validator=_all_are(Invariant, "an Invariant")
    )
    sometimes: Sequence[Sometimes] = field(default=(), kw_only=True)
    options: Sequence[Option] = field(default=(), kw_only=True, validator=_options_are_new)
    defaults: Mapping[str, Any] = field(factory=dict, kw_only=True, validator=_defaults_are_known)
    told: Mapping[str, str] = field(factory=dict, kw_only=True)
    title: str = field(default="", kw_only=True)
    prepare: Callable[[Setting], Any] | None = field(default=None, kw_only=True)
    reads_log: bool = field(default=False, kw_only=True)
    explored: Window | Callable[[Setting], Window] = field(default=None, kw_only=True)
    live: bool = field(default=False, kw_only=True)
    make: Callable[..., Cluster] | None = field(default=None, kw_only=True)
    livelock_limit: int = field(default=LIVELOCK_LIMIT, kw_only=True)
    step_limit: int | None = field(default=None, kw_only=True)
    eager_time: bool = field(default=False, kw_only=True)
    origin: Origin | None = field(default=None, kw_only=True, eq=False)
    """Set by `scenarios.loading`; without it a recording is no use to others."""

    @property
    def all_options(self) -> tuple[Option, ...]:
        """Its own, then the common ones."""
        return (*self.options, *COMMON)

    def default(self, option: Option) -> Any:
        """The defaults of the options."""
        return self.defaults.get(option.key, option.default)

    def window(self, setting: Setting) -> Window:
        """Between which virtual seconds choices are explored; None: in all of the run."""
        return self.explored(setting) if callable(self.explored) else self.explored

    def mains(self) -> dict[str, Main]:
        """All users of the cluster, by actor name."""
        return (
            dict(self.workload) if isinstance(self.workload, Mapping) else {"user": self.workload}
        )
