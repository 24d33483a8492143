"""How long a client that takes little of a download is borne with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from aioanalysis.api import downloads
from aioanalysis.api.downloads import _Patience
from tests.support.waiting import eventually


class Waiting:
    """A transport: how much of what was written to it is still there, at one look after the other."""

    def __init__(self, left: Sequence[int]) -> None:
        self._left = list(left)
        self.looks = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return self._left[min(self.looks, len(self._left)) - 1]

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "WRITE_SECONDS", 0.002)
    monkeypatch.setattr(downloads, "LEAST_BYTES", 100)


@pytest.mark.parametrize(
    ("left", "looks"),
    [
        ([500], 2),
        ([500, 401, 302], 2),
        ([500, 400, 300, 200, 101], 5),
        ([0, 500, 450], 2),
    ],
)
async def test_a_client_is_given_up_once_it_has_taken_too_little_of_a_write(
    left: Sequence[int], looks: int
) -> None:
    transport = Waiting(left)
    with _Patience(cast(Any, transport)) as patience:
        patience.waits = 0
        await eventually(lambda: patience.over)
    assert (transport.looks, transport.aborted) == (looks, True)


async def test_a_client_that_takes_one_write_after_the_other_is_not_given_up() -> None:
    transport = Waiting([500])
    with _Patience(cast(Any, transport)) as patience:
        while transport.looks < 10:
            patience.waits = transport.looks
            await asyncio.sleep(0)
    assert not patience.over


async def test_a_source_that_is_slow_is_not_the_clients_fault_and_no_look_follows_the_end() -> None:
    transport = Waiting([500])
    with _Patience(cast(Any, transport)) as patience:
        await eventually(lambda: transport.looks >= 10)
    looks = transport.looks
    await asyncio.sleep(0.01)
    assert (patience.over, transport.looks) == (False, looks)
