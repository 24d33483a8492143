"""The BOLD portal's query ids: triplets and an extent, zlib-compressed, as base64 for URLs."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterable
from typing import Final

EXTENTS: Final = frozenset({"zero", "limited", "large", "full"})
MOST_BYTES: Final = 64 * 1024


def query_id(triplets: Iterable[str], extent: str = "full") -> str:
    """The id of a query, as the portal makes it; a triplet is `scope:subscope:value`."""
    terms = ";".join([*sorted(triplets), extent])
    return base64.urlsafe_b64encode(zlib.compress(terms.encode(), 1)).decode("ascii")


def triplets_of(token: str) -> tuple[list[str], str] | None:
    """The triplets and the extent that a query id holds; None when it cannot be read as one."""
    text = token.strip()
    if not re.fullmatch(r"[A-Za-z0-9_-]+={0,2}", text):
        return None
    text = text.rstrip("=")
    try:
        packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        inflater = zlib.decompressobj()
        terms = inflater.decompress(packed, MOST_BYTES).decode()
    except (ValueError, zlib.error):
        return None
    *triplets, extent = terms.split(";")
    if not inflater.eof or extent not in EXTENTS or not triplets:
        return None
    return triplets, extent


def with_all(token: str) -> str:
    """`token` with its extent widened to `full`; as it is when it cannot be read."""
    found = triplets_of(token)
    return query_id(found[0]) if found else token
