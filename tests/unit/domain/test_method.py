"""Method titles and limits."""

from __future__ import annotations

import pytest

from aioanalysis.domain.method import Limits, Method, is_title


@pytest.mark.parametrize("text", ["a", "A-b_9", "0x", "x" * 64])
def test_a_title_is_a_directory_name_without_a_dot(text: str):
    assert is_title(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a.b", "-a", "_a", "a/b", "a b", "é", "a\n", "x" * 65])
def test_anything_else_is_no_title(text: str):
    assert not is_title(text)


HOST = Limits(run_seconds=100, silence_seconds=None, memory_bytes=1000, cpus=2, output_bytes=5000)


def test_a_method_without_limits_gets_the_hosts():
    assert Limits().capped(HOST) == HOST


def test_limits_within_the_hosts_stand_and_others_are_capped():
    wanted = Limits(run_seconds=10, silence_seconds=5, memory_bytes=2000, cpus=0.5, output_bytes=5000)
    assert wanted.capped(HOST) == Limits(
        run_seconds=10, silence_seconds=5, memory_bytes=1000, cpus=0.5, output_bytes=5000
    )


def test_a_method_has_no_network_unless_it_asks():
    method = Method(title="t", label="T", description="", version="1")
    assert (method.network, method.limits, dict(method.parameters)) == (False, Limits(), {})
