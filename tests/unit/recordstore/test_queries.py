"""Query ids of the BOLD portal: made and read as the portal does."""

from __future__ import annotations

import base64
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.recordstore.queries import query_id, triplets_of, with_all

KNOWN = "eAFLysyzKi3KtHLy93GxcnQOtDQys7TOyczNLElNAQCEUgkr"


def packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def test_an_id_is_the_portals_own():
    assert query_id(["bin:uri:BOLD:ACQ9269"], "limited") == KNOWN
    assert triplets_of(KNOWN) == (["bin:uri:BOLD:ACQ9269"], "limited")


def test_triplets_are_sorted_so_that_equal_queries_have_one_id():
    two = ["tax:species:Homo sapiens", "geo:country/ocean:Canada"]
    assert query_id(two) == query_id(reversed(two))
    assert triplets_of(query_id(two)) == (sorted(two), "full")


def test_an_extent_is_widened_to_full():
    assert with_all(KNOWN) == query_id(["bin:uri:BOLD:ACQ9269"])
    assert with_all(query_id(["a:b:c"])) == query_id(["a:b:c"])


@pytest.mark.parametrize(
    "token",
    [
        "",
        "nonsense",
        KNOWN[:-6],
        packed(b"not zlib"),
        packed(zlib.compress(b"bin:uri:X;huge")),
        packed(zlib.compress(b"full")),
        packed(zlib.compress(b"\xff;full")),
        packed(zlib.compress(b"a:b:c;" * 200_000 + b"full")),
        KNOWN + "é",
        "a b",
        "=",
    ],
)
def test_what_is_no_query_id_stays_as_it_is(token: str):
    assert triplets_of(token) is None
    assert with_all(token) == token


def test_padding_may_be_missing():
    token = query_id(["recordsetcode:code:DS-ANIC"])
    assert token.endswith("=")
    assert with_all(token.rstrip("=")) == token


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters=";"), min_size=1), min_size=1))
def test_any_triplets_come_back(triplets: list[str]):
    assert triplets_of(query_id(triplets)) == (sorted(triplets), "full")
