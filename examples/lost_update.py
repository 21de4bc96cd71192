"""Two users count visitors in a ConfigMap: read, add one, write back. Does a visitor ever go missing?

controlplane explore examples/lost_update.py
controlplane explore examples/lost_update.py --careful
"""

from controlplane.scenarios import Invariant, Option, Run, Scenario, User
from controlplane.scenarios.authoring.workloads import config_map

CAREFUL = Option(
    "careful", type=bool, default=False, help="Write only if no other write came first."
)


async def count(user: User) -> None:
    done = False
    while not done:
        found = await user.get("ConfigMap", "visitors")
        changed = {**found.tree, "data": {"count": str(int(found.tree["data"]["count"]) + 1)}}
        if not user.options["careful"]:
            changed["metadata"] = {"name": "visitors", "namespace": "default"}
        done = await user.attempt(user.update(changed))


async def workload(user: User) -> None:
    await user.create(config_map("visitors", count="0"))
    for task in [user.spawn(count), user.spawn(count)]:
        await user.join(task)


def no_visitor_is_missing(run: Run) -> str | None:
    [visitors] = [each for each in run.objects("/registry/configmaps/") if each.name == "visitors"]
    counted = visitors.tree["data"]["count"]
    return None if counted == "2" else f"2 came, {counted} counted"


SCENARIO = Scenario(
    "lost update",
    workload=workload,
    invariants=[Invariant("no visitor is missing", no_visitor_is_missing)],
    options=[CAREFUL],
)
