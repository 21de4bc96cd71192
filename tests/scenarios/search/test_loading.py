"""A user's own file: loaded like a built-in scenario, and refused in one line when it is bad."""

from __future__ import annotations

import pytest

from controlplane.errors import UsageError
from controlplane.scenarios import Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import loading

GOOD = '''"""Nothing happens here."""
from controlplane.scenarios import Scenario, User

async def workload(user: User) -> None:
    await user.sleep(1)

SCENARIO = Scenario("quiet", workload=workload)
'''


def written(tmp_path, text, name="mine.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_file_is_a_scenario_like_those_that_come_with_the_package(tmp_path):
    path = written(tmp_path, GOOD)
    scenario = loading.from_file(path)
    assert isinstance(scenario, Scenario)
    assert scenario.title == "Nothing happens here."
    assert scenario.origin.address == path.as_posix()
    assert scenario.origin.digest == loading.digest(GOOD.replace("\n", "\r\n").encode())
    assert plan_of(scenario, nodes=5)["nodes"] == 5


def test_a_file_may_import_its_neighbours(tmp_path):
    written(tmp_path, "NAME = 'shared'\n", "its_neighbour.py")
    path = written(tmp_path, "from its_neighbour import NAME\n" + GOOD.replace('"quiet"', "NAME"))
    assert loading.from_file(path).name == "shared"


def test_one_scenario_under_two_names_is_one(tmp_path):
    assert loading.from_file(written(tmp_path, GOOD + "ALIAS = SCENARIO\n")).name == "quiet"


BAD = {
    "a missing file": (None, "mine.py: cannot be read: No such file"),
    "no Python": ("def broken(:\n", "mine.py:1: invalid syntax"),
    "a zero byte": ("x = '\0'\n", "mine.py:"),
    "an exception": ("x = 1\nraise KeyError('gone')\n", "mine.py:2: KeyError: 'gone'"),
    "a missing module": ("import no_such_module\n", "mine.py:1: ModuleNotFoundError: No module"),
    "no scenario": ("x = 1\n", "mine.py: expected one scenario, as in SCENARIO = Scenario(NAME"),
    "two scenarios": (
        GOOD + "OTHER = Scenario('loud', workload=workload)\n",
        "mine.py: expected one scenario, as in SCENARIO = Scenario(NAME, workload=...); found 'quiet', 'loud'",
    ),
    "a workload that is not async": (
        GOOD.replace("async def", "def").replace("await ", ""),
        "mine.py:7: Scenario 'quiet': workload: expected an `async def` that takes a user",
    ),
    "an unknown default": (
        GOOD.replace("workload=workload", "workload=workload, defaults={'colour': 1}"),
        "mine.py:7: scenario 'quiet': defaults: no common option 'colour'",
    ),
    "an invariant that is none": (
        GOOD.replace("workload=workload", "workload=workload, invariants=[print]"),
        "mine.py:7: scenario 'quiet': invariants: expected an Invariant, found <built-in",
    ),
    "an unknown argument": (
        GOOD.replace("workload=workload", "work=workload"),
        "mine.py:7: TypeError: ",
    ),
    "an option with a bad name": (
        GOOD.replace("import Scenario,", "import Option, Scenario,").replace(
            "workload=workload", "workload=workload, options=[Option('Not good')]"
        ),
        "mine.py:7: option 'Not good': a name is lower-case words",
    ),
    "an option that is common": (
        GOOD.replace("import Scenario,", "import Option, Scenario,").replace(
            "workload=workload", "workload=workload, options=[Option('seed')]"
        ),
        "mine.py:7: scenario 'quiet': option 'seed' is declared twice",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_told_in_one_line_with_file_and_line(name, tmp_path):
    text, message = BAD[name]
    path = tmp_path / "mine.py" if text is None else written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        loading.from_file(path)
    assert str(caught.value).startswith(f"{tmp_path}/{message}"), caught.value
    assert "\n" not in str(caught.value)


def test_nothing_of_a_file_runs_whose_source_is_another_than_expected(tmp_path):
    path = written(tmp_path, "raise SystemExit\n")
    with pytest.raises(UsageError, match="another one than that recorded"):
        loading.from_file(path, expected="0" * 32)
