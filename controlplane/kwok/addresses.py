"""Addresses of pods on nodes of KWOK: a pool per network, from which each rendering takes one.

As upstream, an address is taken when a template is rendered, also where its patch is then left out, and the pool runs
past the network's end. Upstream: pkg/kwok/controllers/utils.go (`ipPool`).
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network

__all__ = ["Pool"]


class Pool:
    """The addresses of one network, such as 10.0.0.0/24; the first is the network's own with 1 added."""

    def __init__(self, network: str) -> None:
        self._network = ip_network(network, strict=False)
        self._next = 0
        self._used: set[str] = set()
        self._free: list[str] = []

    def take(self) -> str:
        """Return an address that is not in use."""
        if self._free:
            found = self._free.pop(0)
            self._used.add(found)
            return found
        while True:
            self._next += 1
            found = str(ip_address(int(self._network.network_address) + self._next))
            if found not in self._used:
                self._used.add(found)
                return found

    def use(self, address: str) -> None:
        """Note that an address is in use; one of another network is ignored."""
        if self._has(address):
            self._used.add(address)

    def give_back(self, address: str) -> None:
        """Note that an address is free again."""
        if self._has(address) and address in self._used:
            self._used.discard(address)
            self._free.append(address)

    def _has(self, address: str) -> bool:
        try:
            return ip_address(address) in self._network
        except ValueError:
            return False
