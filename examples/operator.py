"""An operator of one's own: for each Widget it makes one ConfigMap. Does a Widget ever get two?

controlplane explore examples/operator.py
controlplane explore examples/operator.py --careful

The operator looks into its cache before it creates. That cache may not show yet what it created a moment
ago: the second look at a Widget then makes a second ConfigMap. A name that follows from the Widget's makes
the server refuse it.
"""

from controlplane.cluster import ClusterConfig
from controlplane.controllers import (
    CONFIG_MAPS,
    ApiError,
    Controller,
    Handlers,
    Resource,
    Work,
    calls,
    controller_index,
    controller_keys,
    controller_reference,
    ignore,
    is_already_exists,
)
from controlplane.scenarios import Invariant, Option, Run, Scenario, Setting, User

WIDGETS = Resource("example.com", "v1", "widgets")
CAREFUL = Option("careful", type=bool, default=False, help="Name the ConfigMap after its Widget.")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}}
                        },
                    }
                },
            }
        ],
    },
}


class WidgetOperator(Controller):
    name = "widget-operator"
    careful = False

    def __init__(self, host, caches):
        super().__init__(host, caches)
        self.queue = host.queue("widgets")
        self.widgets = caches.of(WIDGETS)
        self.config_maps = caches.of(CONFIG_MAPS, controller=controller_index)

    def work(self):
        return (Work("widgets", self.sync),)

    def handlers(self):
        return {
            WIDGETS: Handlers(
                lambda widget: self.queue.add(widget.key),
                lambda _old, widget: self.queue.add(widget.key),
                ignore,
            )
        }

    def sync(self, key):
        widget = self.widgets.get(key)
        if widget is None or self.config_maps.by_index(
            "controller", controller_keys(widget.view)[0]
        ):
            return
        name = {"name": widget.name} if self.careful else {"generateName": f"{widget.name}-"}
        owners = [controller_reference(widget.view)]
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {**name, "ownerReferences": owners},
        }
        try:
            yield from calls.create(CONFIG_MAPS, widget.namespace, body)
        except ApiError as error:
            if not is_already_exists(error):
                raise


class CarefulOperator(WidgetOperator):
    careful = True


def build(setting: Setting) -> ClusterConfig:
    operator = CarefulOperator if setting["careful"] else WidgetOperator
    return ClusterConfig(
        nodes=(), controllers=False, kubelets=False, schedulers=0, own_controllers=[operator]
    )


async def workload(user: User) -> None:
    await user.create(DEFINITION)
    await user.sleep(2)
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"size": 1},
    }
    made = await user.client.create(WIDGETS, widget)
    await user.client.update(WIDGETS, {**made.tree, "spec": {"size": 2}})


def one_each(run: Run) -> str | None:
    found = [
        each.name
        for each in run.objects("/registry/configmaps/")
        if each.metadata.get("ownerReferences")
    ]
    return None if len(found) <= 1 else f"the widget has {len(found)}: {', '.join(found)}"


SCENARIO = Scenario(
    "widget operator",
    workload=workload,
    build=build,
    invariants=[Invariant("one config map each", one_each)],
    options=[CAREFUL],
)
