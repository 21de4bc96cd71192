"""Choice of CPUs: packed as closely as the machine allows, or spread evenly over NUMA nodes.

Upstream: pkg/kubelet/cm/cpumanager/cpu_assignment.go. "Free" sockets, cores and caches are found by
comparing with the machine's average size, as upstream does, although the whole element is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from controlplane.kubelet.cm.cpumanager.topology import CPUTopology, Masks
from controlplane.kubelet.cm.cpuset import CPUSet, bits

NO_BALANCE: Final = math.inf


class AssignmentError(ValueError):
    """There are not enough CPUs, or the search went wrong as upstream's does."""


class _Accumulator:
    """The CPUs that are still there, and those that were taken."""

    def __init__(self, topology: CPUTopology, available: CPUSet, needed: int) -> None:
        self.topology = topology
        self.free = available.mask & topology.all_cpus.mask
        self.needed = needed
        self.result = 0
        self.numa_first = topology.num_sockets >= len(topology.numas)

    @property
    def satisfied(self) -> bool:
        return self.needed < 1

    @property
    def failed(self) -> bool:
        return self.needed > self.free.bit_count()

    def take(self, mask: int) -> None:
        """A CPU that is taken twice counts twice: a socket that spans NUMA nodes is listed twice."""
        self.result |= mask
        self.free &= ~self.result
        self.needed -= mask.bit_count()

    def _ordered(self, elements: Masks, within: int) -> list[int]:
        """The elements with an available CPU in there: those with the fewest available first."""
        free = self.free
        inside = free & within
        found = [
            ((mask & free).bit_count(), element)
            for element, mask in elements.items()
            if mask & inside
        ]
        found.sort()
        return [element for _, element in found]

    def numas(self) -> list[int]:
        topology = self.topology
        if self.numa_first:
            return self._ordered(topology.numas, -1)
        return [
            numa
            for socket in self._ordered(topology.sockets, -1)
            for numa in self._ordered(topology.numas, topology.sockets[socket])
        ]

    def sockets(self) -> list[int]:
        topology = self.topology
        if not self.numa_first:
            return self._ordered(topology.sockets, -1)
        return [
            socket
            for numa in self._ordered(topology.numas, -1)
            for socket in self._ordered(topology.sockets, topology.numas[numa])
        ]

    def cores(self) -> list[int]:
        topology = self.topology
        if self.numa_first:
            outer, masks = self.sockets(), topology.sockets
        else:
            outer, masks = self.numas(), topology.numas
        return [core for each in outer for core in self._ordered(topology.cores, masks[each])]

    def uncores(self) -> list[int]:
        topology = self.topology
        return [
            uncore
            for numa in self.numas()
            for uncore in self._ordered(topology.uncores, topology.numas[numa])
        ]

    def cpus(self, *, spread: bool) -> Iterator[int]:
        """Single CPUs as bits, in the order in which they are to be taken."""
        if spread:
            listed, masks = self.sockets(), self.topology.sockets
        else:
            listed, masks = self.cores(), self.topology.cores
        free = self.free
        for element in listed:
            for cpu in bits(masks[element] & free):
                yield 1 << cpu

    def take_full(self, listed: Sequence[int], masks: Masks, size: int | None = None) -> None:
        """Takes all free elements that are not too large; `size` is what a free one has, None for all."""
        free = self.free
        whole = [
            masks[element]
            for element in listed
            if (masks[element] & free).bit_count()
            == (masks[element].bit_count() if size is None else size)
        ]
        for mask in whole:
            if self.needed >= mask.bit_count():
                self.take(mask)

    def take_full_numas(self) -> None:
        self.take_full(self.numas(), self.topology.numas)

    def take_full_sockets(self) -> None:
        self.take_full(self.sockets(), self.topology.sockets, self.topology.cpus_per_socket)

    def take_uncores(self) -> None:
        topology = self.topology
        for uncore in self.uncores():
            if self.needed >= topology.cpus_per_uncore:
                self.take_full(self.uncores(), topology.uncores)
            if self.satisfied:
                return
            self.take_partial_uncore(topology.uncores[uncore])
            if self.satisfied:
                return

    def take_partial_uncore(self, uncore: int) -> None:
        """From the first cores with an available CPU, and only if they give exactly what is needed."""
        topology = self.topology
        threads = topology.cpus_per_core or 1  # a machine that reports fewer CPUs than cores
        inside = uncore & self.free
        wanted = -(-self.needed // threads)
        found = 0
        for mask in topology.cores.values():
            if wanted and mask & inside:
                found |= mask & self.free
                wanted -= 1
        count = found.bit_count()
        if self.needed % 2 and threads > 1 and count > self.needed:
            found ^= 1 << (found.bit_length() - 1)
            count -= 1
        if count == self.needed:
            self.take(found)

    def checked(self) -> CPUSet | None:
        """The result when nothing is needed any more; None when there is work. Raises AssignmentError."""
        if self.satisfied:
            return CPUSet(self.result)
        if self.failed:
            raise AssignmentError(
                "not enough cpus available to satisfy request: "
                f"requested={self.needed}, available={self.free.bit_count()}"
            )
        return None


def take_packed(
    topology: CPUTopology,
    available: CPUSet,
    count: int,
    *,
    spread: bool = False,
    align_uncore: bool = False,
) -> CPUSet:
    """Whole NUMA nodes and sockets, then (if asked) caches, then cores, then single CPUs.

    `spread` leaves the cores out and takes single CPUs socket by socket. Raises AssignmentError.
    """
    taken = _Accumulator(topology, available, count)
    done = taken.checked()
    if done is not None:
        return done
    steps: list[Callable[[], None]] = [taken.take_full_numas, taken.take_full_sockets]
    if not taken.numa_first:
        steps.reverse()
    if align_uncore:
        steps.append(taken.take_uncores)
    if not spread:
        steps.append(lambda: taken.take_full(taken.cores(), topology.cores, topology.cpus_per_core))
    for step in steps:
        step()
        if taken.satisfied:
            return CPUSet(taken.result)
    for cpu in taken.cpus(spread=spread):
        taken.take(cpu)
        if taken.satisfied:
            return CPUSet(taken.result)
    raise AssignmentError("failed to allocate cpus")


def take_distributed(
    topology: CPUTopology, available: CPUSet, count: int, group: int, *, spread: bool = False
) -> CPUSet:
    """Evenly over as few NUMA nodes as possible, handed out in groups of `group` CPUs.

    What cannot be shared out evenly is packed. Raises AssignmentError; so does a search that never
    ends upstream (nodes with enough CPUs in sum but not in whole groups).
    """
    if count % group:
        return take_packed(topology, available, count, spread=spread)
    taken = _Accumulator(topology, available, count)
    done = taken.checked()
    if done is not None:
        return done
    numas = taken.numas()
    free = {numa: (topology.numas[numa] & taken.free).bit_count() for numa in numas}
    lowest, highest = _range_of_nodes(topology, count, group, len(set(numas)))
    for k in range(lowest, highest + 1):
        found = _best_combination(numas, free, k, count, group)
        if found is not None:
            _hand_out(taken, *found, group, spread=spread)
            return CPUSet(taken.result)
    return take_packed(topology, available, count, spread=spread)


def _range_of_nodes(
    topology: CPUTopology, count: int, group: int, available: int
) -> tuple[int, int]:
    """Return the smallest and the largest number of NUMA nodes that the CPUs need."""
    groups = (len(topology.all_cpus) - 1) // group + 1
    per_node = (groups - 1) // len(topology.numas) + 1
    needed = (count - 1) // group + 1
    return (needed - 1) // per_node + 1, min(needed, available)


def _hand_out(
    taken: _Accumulator, combination: list[int], rest_of: list[int], group: int, *, spread: bool
) -> None:
    """The even part from each node, then the rest in rounds."""
    topology = taken.topology
    count = taken.needed

    def take(numa: int, amount: int) -> None:
        inside = CPUSet(topology.numas[numa] & taken.free)
        with suppress(AssignmentError):  # upstream finds out below that the sums are wrong
            taken.take(take_packed(topology, inside, amount, spread=spread).mask)

    even = count // len(combination) // group * group
    for numa in combination:
        take(numa, even)
    rest = count - even * len(combination)
    while rest > 0:
        before = rest
        for numa in rest_of:
            if rest == 0:
                break
            if (topology.numas[numa] & taken.free).bit_count() >= group:
                take(numa, group)
                rest -= group
        if rest == before:
            raise _endless(rest)
    if taken.needed > 0:
        raise AssignmentError(
            f"accounting error, not enough CPUs allocated, remaining: {taken.needed}"
        )
    if taken.needed < 0:
        raise AssignmentError(
            f"accounting error, too many CPUs allocated, remaining: {taken.needed}"
        )


def _endless(rest: int) -> AssignmentError:
    return AssignmentError(
        f"no NUMA node has a whole group of CPUs left, remaining: {rest} (upstream does not end here)"
    )


class _Slice:
    """A Go slice: a view of an array that other slices may write into.

    The search keeps the best candidate as a slice, and appending to a slice with room writes into
    its array: a remembered candidate of 4, 6, 7 or 8 nodes ends like the last one that was visited.
    """

    __slots__ = ("array", "length")

    def __init__(self, array: list[int], length: int) -> None:
        self.array = array
        self.length = length

    def append(self, value: int) -> _Slice:
        array, length = self.array, self.length
        if length == len(array):
            array = [*array, *[0] * max(length, 1)]
        array[length] = value
        return _Slice(array, length + 1)

    def values(self) -> list[int]:
        return self.array[: self.length]


def _combinations(items: Sequence[int], k: int) -> Iterator[_Slice]:
    """All choices of k items in lexicographic order of positions."""

    def chosen(k: int, start: int, so_far: _Slice) -> Iterator[_Slice]:
        if k == 0:
            yield so_far
            return
        for i in range(start, len(items) - k + 1):
            yield from chosen(k - 1, i + 1, so_far.append(items[i]))

    if k >= 1:
        yield from chosen(k, 0, _Slice([], 0))


def _best_combination(
    numas: Sequence[int], free: Mapping[int, int], k: int, count: int, group: int
) -> tuple[list[int], list[int]] | None:
    """The k nodes after which the nodes' free CPUs differ least, and those that give the rest."""
    best = NO_BALANCE
    combination: _Slice | None = None
    rest_of: _Slice | None = None
    even = count // k // group * group
    rest = count - even * k
    for candidate in _combinations(numas, k):
        if best == 0:
            break
        nodes = candidate.values()
        sizes = [free[numa] for numa in nodes]
        if sum(sizes) < count or group * sum(size // group for size in sizes) < count:
            continue
        if min(sizes) < even:
            continue
        after = dict(free)
        for numa in nodes:
            after[numa] -= even
        if rest == 0:
            balance, subset = _deviation(after.values()), None
        else:
            balance, subset = _best_rest(nodes, after, rest, group)
        if balance < best:
            best, combination, rest_of = balance, candidate, subset
    if combination is None:
        return None
    return combination.values(), [] if rest_of is None else rest_of.values()


def _best_rest(
    nodes: Sequence[int], after: Mapping[int, int], rest: int, group: int
) -> tuple[float, _Slice | None]:
    """Return the nodes that should give the rest, and the resulting imbalance."""
    able = [numa for numa in nodes if after[numa] >= group]
    best = NO_BALANCE
    chosen: _Slice | None = None
    for k in range(len(able), 0, -1):
        for candidate in _combinations(able, k):
            subset = candidate.values()
            if sum(after[numa] for numa in subset) < rest:
                continue
            then = dict(after)
            left = rest
            while left > 0:
                before = left
                for numa in subset:
                    if left == 0:
                        break
                    if then[numa] >= group:
                        then[numa] -= group
                        left -= group
                if left == before:
                    raise _endless(left)
            balance = _deviation(then.values())
            if balance < best:
                best, chosen = balance, candidate
    return best, chosen


def _deviation(values: Iterable[int]) -> float:
    """Population standard deviation; mean and result are rounded to three places, as upstream does."""
    numbers = list(values)
    mean = _three_places(sum(numbers) / len(numbers))
    return _three_places(math.sqrt(sum((x - mean) * (x - mean) for x in numbers) / len(numbers)))


def _three_places(x: float) -> float:
    return math.floor(x * 1000 + 0.5) / 1000
