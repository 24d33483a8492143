"""Whose request it is, with proxies before it that are trusted or not."""

from __future__ import annotations

import pytest

from aioanalysis.api.addresses import Addresses
from aioanalysis.settings import Settings

PROXIES = Addresses("10.0.0.0/8, 192.168.1.1,::1")


@pytest.mark.parametrize(
    ("peer", "hops", "found"),
    [
        ("203.0.113.5", [], "203.0.113.5"),
        ("203.0.113.5", ["198.51.100.9"], "203.0.113.5"),  # a stranger's word
        ("10.1.2.3", ["198.51.100.9"], "198.51.100.9"),
        ("10.1.2.3", ["1.1.1.1", " 198.51.100.9"], "198.51.100.9"),  # the client made up the first
        ("10.1.2.3", ["198.51.100.9", "192.168.1.1"], "198.51.100.9"),
        ("10.1.2.3", ["10.9.9.9"], "10.9.9.9"),
        ("10.1.2.3", [], "10.1.2.3"),
        ("10.1.2.3", ["198.51.100.9", "unknown"], "10.1.2.3"),
        ("10.1.2.3", [""], "10.1.2.3"),
        ("::1", ["2001:DB8::0:7"], "2001:db8::7"),
        ("::ffff:10.1.2.3", ["::ffff:198.51.100.9"], "198.51.100.9"),
        ("", ["198.51.100.9"], ""),
    ],
)
def test_the_address_is_the_nearest_that_is_no_trusted_proxys(peer: str, hops: list[str], found: str) -> None:
    assert PROXIES.nearest(peer, hops) == found


def test_without_proxies_nothing_is_believed() -> None:
    nobody = Addresses(Settings(_env_file=None).trusted_proxies)
    assert nobody.nearest("10.1.2.3", ["198.51.100.9"]) == "10.1.2.3"
