"""Faults are counted, whichever way they leave a part, and only faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from aioanalysis.counting import counted
from aioanalysis.errors import Missing, Unavailable


class Stream:
    info = 7

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"a"
        if self._error:
            raise self._error


class Part:
    kind = "real"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.closed = 0

    async def ask(self, value: int, *, more: int) -> int:
        if self.error:
            raise self.error
        return value + more

    async def names(self) -> AsyncGenerator[int, None]:
        try:
            yield 1
            yield 2
            if self.error:
                raise self.error
        finally:
            self.closed += 1

    @asynccontextmanager
    async def open(self, *, broken: bool = False) -> AsyncIterator[Stream]:
        if self.error and not broken:
            raise self.error
        try:
            yield Stream(self.error)
        finally:
            self.closed += 1


async def test_a_part_that_works_is_as_it_was() -> None:
    faults: Counter[str] = Counter()
    real = Part()
    part = counted(real, "storage", faults)
    assert part.kind == "real"
    assert await part.ask(1, more=2) == 3
    assert [name async for name in part.names()] == [1, 2]
    async with part.open() as stream:
        assert stream.info == 7
        assert [piece async for piece in stream.chunks()] == [b"a"]
    async with aclosing(part.names()) as names:
        assert await anext(names) == 1
    assert real.closed == 3
    assert not faults


@pytest.mark.parametrize(("error", "count"), [(Unavailable("away"), 4), (Missing("gone"), 0)])
async def test_each_fault_is_counted_once(error: Exception, count: int) -> None:
    faults: Counter[str] = Counter()
    real = Part(error)
    part = counted(real, "storage", faults)
    with pytest.raises(type(error)):
        await part.ask(1, more=2)
    with pytest.raises(type(error)):
        assert [name async for name in part.names()]
    with pytest.raises(type(error)):
        async with part.open():
            pytest.fail("opened")
    with pytest.raises(type(error)):
        async with part.open(broken=True) as stream:
            assert [piece async for piece in stream.chunks()]
    assert faults.total() == count
    assert real.closed == 2


async def test_what_its_user_raises_is_none_of_its_faults() -> None:
    faults: Counter[str] = Counter()
    part = counted(Part(), "storage", faults)
    with pytest.raises(Unavailable):
        async with part.open():
            raise Unavailable("another part")
    assert not faults
