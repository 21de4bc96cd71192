"""One API server with the store to itself: each resource's watch cache moves on by itself."""

from actors import RandomWalk
from controlplane.client.loops.clientset import Client
from controlplane.client.loops.informer import Informer
from tests.apiserver.loops.test_parts_in_a_world import CONFIG_MAPS, Resource, cluster, config_map

SECRETS = Resource("", "v1", "secrets")
EACH = 4


def secret(name):
    return {**config_map(name), "kind": "Secret"}


def written_and_told(seed):
    """The names in the order in which they were written, and in which their caches took them in."""
    made = cluster(RandomWalk(seed))
    seen, told = [], []

    async def observing(ctx, resource):
        informer = Informer(ctx, resource)
        informer.add_handler(lambda event: seen.append(event.new.name), "test")
        informer.start()
        await informer.wait_synced()

    async def writing(ctx):
        client = Client(ctx)
        for resource in (CONFIG_MAPS, SECRETS):
            await observing(ctx, resource)
        for number in range(EACH):
            await client.create(CONFIG_MAPS, config_map(f"c{number}"))
            await client.create(SECRETS, secret(f"s{number}"))

    made.user("user", writing)
    assert made.world.run("bare").verdict == "quiescent"
    for event in made.world.log:
        if event.actor == "apiserver" and event.event == "apiserver.write":
            told.append(event.data["verb"].split()[-1])
        elif event.actor == "apiserver" and (event.task or "").startswith("cache "):
            told.append(event.task)
    return seen, told


def overtaken(told):
    """Whether secrets were told of while configmaps, written before, were not."""
    waiting = False
    for step in told:
        if step == "configmaps":
            waiting = True
        elif step == "cache configmaps":
            waiting = False
        elif step == "cache secrets" and waiting:
            return True
    return False


def test_what_was_written_of_two_resources_is_told_in_either_order():
    both = {overtaken(written_and_told(seed)[1]) for seed in range(30)}
    assert both == {True, False}


def test_each_resources_own_events_come_in_the_order_of_writing():
    orders = set()
    for seed in range(30):
        seen, _ = written_and_told(seed)
        for letter in "cs":
            mine = [name for name in seen if name.startswith(letter)]
            assert mine == [f"{letter}{number}" for number in range(EACH)]
        orders.add(tuple(seen))
    assert len(orders) > 1


def test_a_resource_that_is_not_read_from_a_cache_moves_nothing():
    _, told = written_and_told(0)
    assert {step for step in told if step.startswith("cache ")} == {
        "cache configmaps",
        "cache secrets",
    }
