"""From which address a request comes, also behind proxies that the settings trust."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from aiohttp import web

FORWARDED: Final = "X-Forwarded-For"
Address = IPv4Address | IPv6Address


class Addresses:
    """Believes `X-Forwarded-For` as far as a chain of trusted proxies has written it, and no further."""

    def __init__(self, trusted: str | None) -> None:
        """`trusted` are addresses or networks, comma separated."""
        self._networks = [ip_network(one.strip()) for one in (trusted or "").split(",") if one.strip()]

    def of(self, request: web.Request) -> str:
        """The nearest address that is no trusted proxy's; empty where there is none (a unix socket)."""
        hops = [hop for line in request.headers.getall(FORWARDED, []) for hop in line.split(",")]
        return self.nearest(request.remote or "", hops)

    def nearest(self, peer: str, hops: Iterable[str]) -> str:
        """`hops` as the header has them, the nearest last: what stands left of a stranger may be made up."""
        found = _parsed(peer)
        if found is None:
            return peer
        for hop in reversed(list(hops)):
            further = _parsed(hop)
            if further is None or not self._trusts(found):
                break
            found = further
        return str(found)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Address | None:
    """IPv4 in its IPv6 form is the same address."""
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


ADDRESSES: Final = web.AppKey("addresses", Addresses)
