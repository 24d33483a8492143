"""Conversion of bytes, as a fixture."""

from __future__ import annotations

import pytest

from tests.support.converting import Convert, convert_bytes


@pytest.fixture
def convert() -> Convert:
    return convert_bytes
