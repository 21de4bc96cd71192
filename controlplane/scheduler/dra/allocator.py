"""The search for devices: depth first, the first solution is taken.

Pools, slices and devices are tried in their order, claims and requests in theirs. What a step takes, its `undo` gives
back, with exceptions that are upstream's and that change decisions, so they are kept: counters stay taken when a later
check refuses a device, constraints and the device itself stay taken when its capacity is too small in the end, and
shares of a device never give counters back.
Upstream: structured/internal/{stable,incubating,experimental}/allocator_*.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from controlplane.api.device_selection import DeviceSelectorError, SelectDevice
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.capacity import Allocating, consumed_by, fits
from controlplane.scheduler.dra.constraints import Constraint, DistinctAttribute, MatchAttribute
from controlplane.scheduler.dra.counters import Available, Consumed, available_counters
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID
from controlplane.scheduler.dra.features import STABLE, Features, channel
from controlplane.scheduler.dra.pools import (
    NodeView,
    Pool,
    PoolError,
    Slice,
    Slices,
    gather_pools,
    node_matches,
)
from controlplane.scheduler.dra.recall import Answer, Question
from controlplane.scheduler.dra.requests import (
    ALL,
    EXACT_COUNT,
    Candidate,
    Request,
    RequestData,
    RequestKey,
    claim_name,
    keeps_off,
    requests_of,
)
from controlplane.scheduler.dra.results import Chosen, ResultError, allocation

__all__ = ["MAX_RESULTS", "AllocationError", "Allocator"]

MAX_RESULTS: Final = 32
"""Devices of a claim."""


class AllocationError(Exception):
    """A search that failed. The text is upstream's.

    Attributes:
        node_only: other nodes may do.
        aborted: the search took more steps than it may.
    """

    def __init__(self, text: str, *, node_only: bool = False, aborted: bool = False) -> None:
        super().__init__(text)
        self.node_only = node_only
        self.aborted = aborted


class _MaxSizeError(Exception):
    """The claim would get more devices than its status can hold; another alternative may need fewer."""


class Allocator:
    """Allocates claims on one node after the other. Counters are read once for all nodes.

    Attributes:
        channel: the implementation that upstream would run.
        steps: calls of the search so far, a measure of the work.
    """

    def __init__(
        self,
        features: Features,
        allocated: AllocatedState,
        classes: Mapping[str, Tree],
        slices: Slices,
        select: SelectDevice,
        new_share: Callable[[], str],
        most_steps: int | None = None,
        most_cost: int | None = None,
    ) -> None:
        """Prepare the allocation of claims.

        Args:
            features: the switches.
            allocated: devices that are allocated.
            classes: DeviceClasses by their names.
            slices: ResourceSlices in the order in which the informer lists them, read once for many allocators.
            select: answers selectors.
            new_share: returns the unique name of a new share of a device.
            most_steps: steps of the search for one node, None for no limit.
            most_cost: cost units of the selectors that are evaluated for one node, None for no limit.
        """
        self.features = features
        self.channel = channel(features)
        self.allocated = allocated
        self.classes = classes
        self.slices = slices
        self.select = select
        self.new_share = new_share
        self.most_steps = most_steps
        self.most_cost = most_cost
        self.available: dict[str, Available] = {}
        self.steps = 0
        self._recalls = not allocated.shared and not allocated.capacity
        self._texts: dict[int, tuple[Tree, str, tuple[Tree | None, ...]]] = {}
        self._asked: tuple[Sequence[Tree], Question] | None = None

    def allocate(self, node: NodeView, claims: Sequence[Tree]) -> list[Tree] | None:
        """Return an allocation for each claim; None if the node cannot have all of them.

        Raises:
            AllocationError: the claims, classes, slices or the node's pools are wrong.
        """
        known = self.known(node.name, node.labels, claims)
        if known is not None:
            return known.found
        found = self._search(node, claims, self._pools_of(node))
        asked = self._asked
        if asked is not None and not self._shared_any:
            self.slices.recall.keep(asked[1], node.name, node.labels, found)
        return found

    def known(self, node: str, labels: Mapping[str, str], claims: Sequence[Tree]) -> Answer | None:
        """Return what `allocate` answers without a search; None if it has to search."""
        if not self._recalls:
            return None
        asked = self._asked
        # Another allocator may have turned the memory to other devices meanwhile.
        current = self.slices.recall.devices is self.allocated.devices
        if asked is None or asked[0] is not claims or not current:
            asked = self._asked = (claims, self._question_of(claims))
        return asked[1].answer(node, labels)

    def _question_of(self, claims: Sequence[Tree]) -> Question:
        """Return what is known of the nodes' answers to these claims, with the devices in use now."""
        recall = self.slices.recall
        recall.turn_to(self.allocated.devices)
        texts = [self._text_of(claim) for claim in claims]
        limits = self.most_steps, self.most_cost
        key = (*(text for text, _ in texts), self.features, limits)
        return recall.question(key, tuple(each for _, trees in texts for each in trees))

    def _text_of(self, claim: Tree) -> tuple[str, tuple[Tree | None, ...]]:
        """Return what a search reads of a claim, as text, and the classes that it names."""
        known = self._texts.get(id(claim))
        if known is None:
            specs = [
                spec
                for request in requests_of(claim)
                for spec in (request.get("exactly") or {}, *(request.get("firstAvailable") or ()))
            ]
            classes = tuple(self.classes.get(spec.get("deviceClassName", "")) for spec in specs)
            # The claim is kept, so that its id cannot pass to another one.
            known = self._texts[id(claim)] = (claim, repr(claim.get("spec")), classes)
        return known[1], known[2]

    def _pools_of(self, node: NodeView) -> Sequence[Pool]:
        recall = self.slices.recall
        known = recall.pools(self.features, node.name, node.labels)
        if known is None:
            try:
                known = gather_pools(self.slices, node, self.features)
            except PoolError as error:
                raise AllocationError(f"gather pool information: {error}") from None
            recall.keep_pools(self.features, node.name, node.labels, known)
        return known

    def _search(
        self, node: NodeView, claims: Sequence[Tree], pools: Sequence[Pool]
    ) -> list[Tree] | None:
        self._shared_any = False
        search = _Search(self, node, claims, pools)
        search.prepare()
        try:
            done = search.next_claim(0)
        except _MaxSizeError:  # `next_request` turns it into a failure of its claim
            raise AllocationError("allocation max size exceeded") from None
        except RecursionError:  # several hundred devices at once: Go's stack has room for them
            text = "filter operation aborted: too many devices"
            raise AllocationError(text, aborted=True) from None
        if not done:
            if any(pool.invalid for pool in pools):
                raise AllocationError("invalid resource pools were encountered", node_only=True)
            return None
        try:
            return [
                allocation(number, claim, chosen, search.data, node.name, self.features)
                for number, (claim, chosen) in enumerate(zip(claims, search.chosen, strict=True))
            ]
        except ResultError as error:
            raise AllocationError(str(error)) from None

    def note_share(self) -> None:
        """The answer holds the name of a share, which is not to be given twice."""
        self._shared_any = True

    def counters_of(self, pool: Pool) -> Available:
        """Return the counters that are left in a pool."""
        found = self.available.get(pool.name)
        if found is None:
            state = self.allocated
            if self.channel == STABLE:  # it knows no shares
                state = AllocatedState(state.devices)
            found = self.available[pool.name] = available_counters(pool, state.has)
        return found


class _At(NamedTuple):
    """Where the search for the next device of a request begins."""

    pool: int = 0
    slice: int = 0
    device: int = 0


_START: Final = _At()


class _Search:
    """One search, for one node."""

    def __init__(
        self, owner: Allocator, node: NodeView, claims: Sequence[Tree], pools: Sequence[Pool]
    ) -> None:
        self.owner = owner
        self.features = owner.features
        self.is_stable = owner.channel == STABLE
        self.node = node
        self.claims = claims
        self.pools = pools
        self.data: dict[RequestKey, RequestData] = {}
        self.constraints: list[list[Constraint]] = []
        self.chosen: list[list[Chosen]] = [[] for _ in claims]
        self.selectable: dict[tuple[DeviceID, RequestKey], bool] = {}
        self.consumed = Consumed()
        self.allocating: dict[DeviceID, set[int]] = {}
        self.capacity = Allocating()
        self.steps = 0
        self.cost = 0

    # -- preparation -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Read the requests and constraints of the claims. AllocationError."""
        for number, claim in enumerate(self.claims):
            least = 0
            for index, request in enumerate(requests_of(claim)):
                least += self.read_request(number, index, claim, request)
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {claim_name(claim)}: number of requested devices {least} exceeds the claim limit of"
                    f" {MAX_RESULTS}"
                )
            self.constraints.append(self.read_constraints(claim))
        # Answers of the preparation are not kept (upstream clears them, too).
        self.selectable = {}

    def read_request(self, number: int, index: int, claim: Tree, request: Tree) -> int:
        """Note a request with its alternatives; return the fewest devices that it needs."""
        name, alternatives = request.get("name", ""), request.get("firstAvailable") or ()
        shown = f"claim {claim_name(claim)}, request {name}"
        if alternatives and not self.features.prioritized_list:
            raise AllocationError(
                f"{shown}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
        if not self.is_stable and not self.features.consumable_capacity:
            off = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            if (request.get("exactly") or {}).get("capacity") is not None:
                raise AllocationError(f"{shown}: {off}")
            for sub in alternatives:
                if sub.get("capacity") is not None:
                    sub_name = sub.get("name", "")
                    raise AllocationError(
                        f"claim {claim_name(claim)}, subrequest {sub_name}: {off}"
                    )
        if not alternatives:
            key = RequestKey(number, index)
            exact = Request(name, None, request.get("exactly") or {})
            self.data[key] = self.read(key, claim, exact)
            return self.data[key].count
        for place, sub in enumerate(alternatives):
            key = RequestKey(number, index, place)
            self.data[key] = self.read(key, claim, Request(sub.get("name", ""), name, sub))
        return min(
            self.data[RequestKey(number, index, place)].count for place in range(len(alternatives))
        )

    def read(self, key: RequestKey, claim: Tree, request: Request) -> RequestData:
        """Return what is known of a request. AllocationError."""
        shown = f"claim {claim_name(claim)}, request {request.name}"
        for place, selector in enumerate(request.selectors):
            if selector.get("cel") is None:
                raise AllocationError(
                    f"{shown}, selector #{place}: CEL expression empty (unsupported selector type?)"
                )
        if request.names_admin_access and not self.features.admin_access:
            raise AllocationError(
                f"{shown}: admin access is requested, but the feature is disabled"
            )
        wanted = request.spec.get("deviceClassName", "")
        if not wanted:
            raise AllocationError(f"{shown}: missing device class name (unsupported request type?)")
        found = self.owner.classes.get(wanted)
        if found is None:
            raise AllocationError(
                f"{shown}: could not retrieve device class {wanted}:"
                f' deviceclass.resource.k8s.io "{wanted}" not found'
            )
        data = RequestData(request, found)
        if request.mode == EXACT_COUNT:
            data.count = request.spec.get("count", 0)
        elif request.mode == ALL:
            self.find_all(key, data, shown)
            data.count = len(data.all_devices)
        else:
            raise AllocationError(f"{shown}: unsupported count mode {request.mode}")
        return data

    def find_all(self, key: RequestKey, data: RequestData, shown: str) -> None:
        """Note all devices of a request that asks for all."""
        for pool in self.pools:
            if not pool.usable:
                why = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"{shown}: asks for all devices, but resource pool {pool} is currently {why}"
                )
            for piece in pool.targeting:
                for device in piece.devices:
                    name = piece.id_of(device)
                    if self.is_selectable(key, data, piece, device) and self.has_capacity(
                        data.request, name, device
                    ):
                        data.all_devices.append(Candidate(name, device, piece, pool))

    def read_constraints(self, claim: Tree) -> list[Constraint]:
        """Return the constraints of a claim. AllocationError."""
        found: list[Constraint] = []
        lists = self.features.list_type_attributes
        for place, constraint in enumerate(claim["spec"]["devices"].get("constraints") or ()):
            if constraint.get("matchAttribute") is not None:
                found.append(MatchAttribute(constraint, lists=lists))
            elif constraint.get("distinctAttribute") is not None and not self.is_stable:
                found.append(DistinctAttribute(constraint, lists=lists))
            else:
                raise AllocationError(
                    f"claim {claim_name(claim)}, constraint #{place}: empty constraint (unsupported"
                    " constraint type?)"
                )
        return found

    # -- search ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Count a step. AllocationError after the last one that is allowed."""
        self.steps += 1
        self.owner.steps += 1
        if self.owner.most_steps is not None and self.steps > self.owner.most_steps:
            raise AllocationError("filter operation aborted: too many steps", aborted=True)

    def spend(self, cost: int) -> None:
        """Count the cost of a selector. AllocationError after more than is allowed."""
        self.cost += cost
        if self.owner.most_cost is not None and self.cost > self.owner.most_cost:
            raise AllocationError("filter operation aborted: selectors cost too much", aborted=True)

    def next_claim(self, number: int) -> bool:
        """Return whether this claim and those after it can be allocated."""
        if number >= len(self.claims):
            self.step()
            return True
        return self.next_request(number, 0)

    def next_request(self, number: int, index: int) -> bool:
        """Return whether this request and all that follows can be allocated. _MaxSizeError."""
        self.step()
        if index >= len(requests_of(self.claims[number])):
            try:
                return self.next_claim(number + 1)
            except _MaxSizeError:
                return False
        key = RequestKey(number, index)
        if self.data[key].request.parent is None:
            return self.next_device(key, 0, _START)
        return self.first_available(key)

    def first_available(self, key: RequestKey) -> bool:
        """Return whether one of the alternatives, the first that does, can be allocated with all that follows."""
        all_too_many = True
        place = 0
        while key._replace(sub=place) in self.data:
            self.step()
            try:
                done = self.next_device(key._replace(sub=place), 0, _START)
            except _MaxSizeError:
                place += 1
                continue
            all_too_many = False
            if done:
                self.data[key].selected = place
                return True
            place += 1
        if all_too_many:
            raise _MaxSizeError
        return False

    def next_device(self, key: RequestKey, place: int, start: _At) -> bool:
        """Return whether the device of this place in a request, and all that follows, can be allocated."""
        data = self.data[key]
        take_all = data.request.mode == ALL
        if take_all and not data.all_devices:
            return False
        if place >= data.count:
            return self.next_request(key.claim, key.request + 1)
        if len(self.chosen[key.claim]) + data.count - place > MAX_RESULTS:
            raise _MaxSizeError
        if take_all:
            undo = self.take(key, data.all_devices[place], must=True)
            return undo is not None and self.rest_or_undo(key, place, _START, undo)
        return self.next_of_pools(key, data, place, start)

    def rest_or_undo(
        self, key: RequestKey, place: int, start: _At, undo: Callable[[], None]
    ) -> bool:
        """Return whether the devices after this place can be allocated; give it back where they cannot."""
        done = False
        try:
            self.step()
            done = self.next_device(key, place + 1, start)
        finally:
            if not done:
                undo()
        return done

    def next_of_pools(self, key: RequestKey, data: RequestData, place: int, start: _At) -> bool:
        """Try the devices from a place in the pools on."""
        if self.is_stable:  # it tries every order of devices, not only one
            start = _START
        for pool_at in range(start.pool, len(self.pools)):
            pool = self.pools[pool_at]
            if not pool.usable:
                continue
            first = start.slice if pool_at == start.pool else 0
            for slice_at in range(first, len(pool.targeting)):
                piece = pool.targeting[slice_at]
                begin = start.device if (pool_at, slice_at) == start[:2] else 0
                for device_at in range(begin, len(piece.devices)):
                    undo = self.try_device(key, data, pool, piece, piece.devices[device_at])
                    following = _At(pool_at, slice_at, device_at + 1)
                    if undo is not None and self.rest_or_undo(key, place, following, undo):
                        return True
        return False

    def try_device(
        self, key: RequestKey, data: RequestData, pool: Pool, piece: Slice, device: Tree
    ) -> Callable[[], None] | None:
        """Take a device for a request; return what gives it back, None if it cannot be had."""
        name = piece.id_of(device)
        if data.request.admin_access:
            if key.claim in self.allocating.get(name, ()):
                return None
        elif self.in_use(name):
            return None
        if not self.is_selectable(key, data, piece, device):
            return None
        if not self.has_capacity(data.request, name, device):
            return None
        return self.take(key, Candidate(name, device, piece, pool), must=False)

    # -- devices ---------------------------------------------------------------------------------

    def in_use(self, device: DeviceID) -> bool:
        """Return whether a device belongs to a claim as a whole."""
        return device in self.owner.allocated.devices or bool(self.allocating.get(device))

    def is_selectable(self, key: RequestKey, data: RequestData, piece: Slice, device: Tree) -> bool:
        """Return whether selectors and node selection admit a device. AllocationError."""
        if not self.features.device_binding_and_status and device.get("bindingConditions"):
            return False
        name = piece.id_of(device)
        known = self.selectable.get((name, key))
        if known is None:
            known = self.selectable[name, key] = self.selects(key, data, piece, device)
        return known

    def selects(self, key: RequestKey, data: RequestData, piece: Slice, device: Tree) -> bool:
        found = data.device_class
        shown = f"class {(found.get('metadata') or {}).get('name', '')}"
        selectors = (found.get("spec") or {}).get("selectors") or ()
        if not self.match(selectors, shown, piece, device):
            return False
        shown = f"claim {claim_name(self.claims[key.claim])}"
        if not self.match(data.request.selectors, shown, piece, device):
            return False
        if not piece.spec.get("perDeviceNodeSelection"):
            return True
        try:
            return node_matches(self.node, device)
        except PoolError as error:
            raise AllocationError(str(error)) from None

    def match(self, selectors: Sequence[Tree], shown: str, piece: Slice, device: Tree) -> bool:
        """Return whether all selectors of a class or claim, as `shown` names it, match. AllocationError."""
        if self.is_stable and device.get("allowMultipleAllocations"):
            device = {**device, "allowMultipleAllocations": False}
        for place, selector in enumerate(selectors):
            expression = (selector.get("cel") or {}).get("expression", "")
            try:
                selection = self.owner.select(expression, piece.driver, device)
                self.spend(selection.cost)
                if not selection.selected:
                    return False
            except DeviceSelectorError as error:
                phase = "compile" if error.compiling else "runtime"
                text = f"{shown}: selector #{place}: CEL {phase} error: {error}"
                raise AllocationError(text) from None
        return True

    def has_capacity(self, request: Request, name: DeviceID, device: Tree) -> bool:
        """Return whether a device has the capacity that a request wants."""
        if not self.features.consumable_capacity:
            return True
        allocated = self.owner.allocated.capacity.get(name, {})
        capacity = device.get("capacity") or {}
        return fits(request.capacity, capacity, allocated, self.capacity.of(name))

    def take(
        self, key: RequestKey, candidate: Candidate, *, must: bool
    ) -> Callable[[], None] | None:
        """Take a device; return what gives it back, None if it cannot be had.

        Raises:
            AllocationError: a constraint is violated by a device that must be taken.
        """
        request, name, device = self.data[key].request, candidate.id, candidate.device
        shared = self.features.consumable_capacity and bool(device.get("allowMultipleAllocations"))
        if request.admin_access:
            if not shared and key.claim in self.allocating.get(name, ()):
                return None
        elif self.in_use(name):
            return None
        counted = bool(device.get("consumesCounters"))
        if counted and not self.take_counters(candidate, shared=shared):
            return None
        if self.features.device_taints and _is_tainted(device, request):
            return None
        if not self.constrain(key, candidate, must=must):
            return None
        holders = self.allocating.setdefault(name, set())
        if not shared:
            holders.add(key.claim)
        if not self.has_capacity(request, name, device):
            return None
        chosen = Chosen(request, candidate)
        if shared:
            consumed = consumed_by(request.capacity, device.get("capacity") or {})
            self.owner.note_share()
            chosen = Chosen(request, candidate, self.owner.new_share(), consumed)
            self.capacity.insert(name, consumed)
        self.chosen[key.claim].append(chosen)

        def undo() -> None:
            base, sub = _names(request)
            for constraint in self.constraints[key.claim]:
                constraint.remove(base, sub)
            holders.discard(key.claim)
            if not shared:
                if self.features.partitionable_devices and counted:
                    self.consumed.give_back(candidate.pool.name, device)
            elif chosen.consumed:
                self.capacity.remove(name, chosen.consumed)
            self.chosen[key.claim].pop()

        return undo

    def take_counters(self, candidate: Candidate, *, shared: bool) -> bool:
        """Take the counters of a device; of one that is shared already they are taken."""
        if not self.features.partitionable_devices:
            return False
        name, pool = candidate.id, candidate.pool
        if shared and (name in self.owner.allocated.capacity or name in self.capacity):
            return True
        return self.consumed.take(pool.name, candidate.device, self.owner.counters_of(pool))

    def constrain(self, key: RequestKey, candidate: Candidate, *, must: bool) -> bool:
        """Add a device to the constraints of its claim, or to none of them."""
        request = self.data[key].request
        base, sub = _names(request)
        constraints = self.constraints[key.claim]
        for place, constraint in enumerate(constraints):
            if constraint.add(base, sub, candidate.device, candidate.id):
                continue
            if must:
                raise AllocationError(
                    f"claim {claim_name(self.claims[key.claim])}, request {request.name}: cannot add device"
                    f" {candidate.id} because a claim constraint would not be satisfied"
                )
            for earlier in constraints[:place]:
                earlier.remove(base, sub)
            return False
        return True


def _names(request: Request) -> tuple[str, str]:
    """Return the names of the request and of its alternative, "" without one."""
    return (request.name, "") if request.parent is None else (request.parent, request.name)


def _is_tainted(device: Tree, request: Request) -> bool:
    """Return whether a taint keeps the request off."""
    return any(keeps_off(taint, request.tolerations) for taint in device.get("taints") or ())
