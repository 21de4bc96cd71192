"""Filters that choose among the options of a scale-up.

Upstream: `expander/{waste,mostpods,leastnodes,price,priority}`, `expander/factory/chain.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from controlplane.api import yaml_text
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.api.quantity import Quantity
from controlplane.apiserver.schema.go_regexp import Pattern, PatternError, compiled
from controlplane.autoscaler.arithmetic import ratio
from controlplane.autoscaler.groups import ZERO, Option, Template, gpu_resource
from controlplane.decisions import Choose, Decision

_GIB: Final = 1 << 30
_STABILIZING_CPU: Final = 0.5
"""Cores of the imagined pod that dampens the ratio of prices."""
_STABILIZING_MEMORY: Final = 500 << 20
_GPU_UNFITNESS: Final = 1000.0
_SUPPRESSION: Final = 15.0

Options = Sequence[Option]
Filter = Callable[["Market", Options], list[Option]]


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices per hour: of the node of each group, of a core and of a GiB that pods request."""

    nodes: Mapping[str, float] = field(default_factory=dict)
    core: float = 0.0
    gib: float = 0.0
    preferred_cores: int = 4

    def of_requests(self, cores: float, memory: int) -> float:
        """Return the price of an hour of requests; memory in bytes."""
        return cores * self.core + float(memory) / _GIB * self.gib

    def of_pod(self, pod: Pod) -> float:
        """Return the price of an hour of a pod."""
        wanted = pod_requests(pod)
        cpu, memory = wanted.get("cpu", ZERO), wanted.get("memory", ZERO)
        return self.of_requests(float(cpu.milli_value()) / 1000.0, memory.value())


def preferred_cores(nodes: int) -> int:
    """Return the preferred cores of a node in a cluster of this size: double for each threefold size."""
    for cores, most in ((1, 2), (2, 6), (4, 20), (8, 60), (16, 200)):
        if nodes <= most:
            return cores
    return 32


@dataclass(frozen=True, slots=True)
class Market:
    """The input of the filters besides the options: templates by group, prices, priorities.

    `priorities` is the text of the key `priorities` of the ConfigMap, None where there is none.
    """

    templates: Mapping[str, Template]
    prices: Prices = field(default_factory=Prices)
    priorities: str | None = None
    gpu_label: str = ""


def least_waste(market: Market, options: Options) -> list[Option]:
    """Keep the options that leave the least share of CPU and memory unused."""
    least, best = 0.0, list[Option]()
    for option in options:
        template = market.templates.get(option.group)
        if template is None:
            continue
        score = _waste(template.node, option)
        if score == least:
            best.append(option)
        if not best or score < least:
            least, best = score, [option]
    return best


def _waste(node: Node, option: Option) -> float:
    wanted = [pod_requests(pod) for pod in option.pods]
    capacity = node.status.capacity
    cpu = capacity.get("cpu", ZERO).milli_value() * option.node_count
    memory = capacity.get("memory", ZERO).value() * option.node_count
    used_cpu = _total(wanted, "cpu").milli_value()
    used_memory = _total(wanted, "memory").value()
    return ratio(float(cpu - used_cpu), float(cpu)) + ratio(
        float(memory - used_memory), float(memory)
    )


def _total(requests: Sequence[Mapping[str, Quantity]], name: str) -> Quantity:
    total = ZERO
    for each in requests:
        total = total + each.get(name, ZERO)
    return total


def most_pods(_market: Market, options: Options) -> list[Option]:
    """Keep the options that place the most pods."""
    most = max((len(option.pods) for option in options), default=0)
    return [option for option in options if len(option.pods) == most]


def least_nodes(_market: Market, options: Options) -> list[Option]:
    """Keep the options that add the fewest nodes; one that adds none does not count."""
    least = min((option.node_count for option in options if option.node_count), default=0)
    return [option for option in options if option.node_count and option.node_count == least]


def cheapest(market: Market, options: Options) -> list[Option]:
    """Keep the options with the best price, weighed by how far their nodes are from the preferred size."""
    best, lowest = list[Option](), 0.0
    for option in options:
        template = market.templates.get(option.group)
        price = market.prices.nodes.get(option.group)
        if template is None or price is None:
            continue
        score = _price_score(market, option, template.node, price)
        if not best or score == lowest:
            best.append(option)
            lowest = score
        elif lowest > score:
            best, lowest = [option], score
    return best


def _price_score(market: Market, option: Option, node: Node, price: float) -> float:
    prices = market.prices
    stabilizing = prices.of_requests(_STABILIZING_CPU, _STABILIZING_MEMORY)
    pods = 0.0
    for pod in option.pods:
        pods += prices.of_pod(pod)
    score = ratio(price * float(option.node_count) + stabilizing, pods + stabilizing)
    if gpu_resource(node, market.gpu_label):
        return _GPU_UNFITNESS * score
    cpu = float(node.status.capacity.get("cpu", ZERO).milli_value())
    preferred = prices.preferred_cores * 1000.0
    unfitness = max(ratio(preferred, cpu), ratio(cpu, preferred))
    calm = 1.0 - math.tanh(float(option.node_count - 1) / _SUPPRESSION)
    return ((unfitness - 1.0) * calm + 1.0) * score


def by_priority(market: Market, options: Options) -> list[Option]:
    """Keep the options of the highest priority in the ConfigMap; all of them where it says nothing of use."""
    table = read_priorities(market.priorities)
    if table is None:
        return list(options)
    highest, best = -1, list[Option]()
    for option in options:
        for priority, patterns in table.items():
            if priority < highest or not any(each.search(option.group) for each in patterns):
                continue
            if priority > highest:
                highest, best = priority, []
            if option not in best:
                best.append(option)
    return best or list(options)


def read_priorities(text: str | None) -> dict[int, list[Pattern]] | None:
    """Return the patterns of group names by priority, lowest first; None where the text cannot be used."""
    if not text:
        return None
    try:
        read = yaml_text.load(text)
    except yaml.YAMLError:
        return None
    if not isinstance(read, dict):
        return None
    try:
        return {
            int(key): [compiled(_word(each)) for each in read[key] or ()]
            for key in sorted(read, key=int)
        }
    except (PatternError, ValueError, TypeError):
        return None


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r}: a pattern is expected")
    return str(value)


FILTERS: Final[Mapping[str, Filter]] = {
    "least-waste": least_waste,
    "most-pods": most_pods,
    "least-nodes": least_nodes,
    "price": cheapest,
    "priority": by_priority,
}


def narrowed(names: Sequence[str], market: Market, options: Options) -> list[list[Option]]:
    """Apply filters in turn until one option is left; return what is left after each.

    A name that is no filter (`random`) filters nothing. Upstream draws among the options left at the end.
    """
    left, steps = list(options), list[list[Option]]()
    for name in names:
        chosen = FILTERS.get(name)
        if chosen is None:
            continue
        left = chosen(market, left)
        steps.append(left)
        if len(left) == 1:
            break
    return steps


def best_option(
    names: Sequence[str], market: Market, options: Options
) -> Decision[Choose, Option | None]:
    """Return the option to carry out; among those that stay equal the choice is the run's, by default the first."""
    steps = narrowed(names, market, options)
    left = steps[-1] if steps else list(options)
    if len(left) < 2:
        return left[0] if left else None
    at = yield Choose("autoscaler.expander", len(left), "group to grow")
    return left[at or 0]
