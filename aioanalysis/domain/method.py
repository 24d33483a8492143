"""A method's definition: what its `method.json` promises and what it may use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

TITLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def is_title(text: str) -> bool:
    """Whether `text` can be a method's title: a directory name without a dot."""
    return TITLE.fullmatch(text) is not None


Number = TypeVar("Number", int, float)


def _lower(mine: Number | None, cap: Number | None) -> Number | None:
    return min((value for value in (mine, cap) if value is not None), default=None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a run may use; None means the host's own setting."""

    run_seconds: float | None = None
    silence_seconds: float | None = None
    memory_bytes: int | None = None
    cpus: float | None = None
    output_bytes: int | None = None

    def capped(self, host: Limits) -> Limits:
        """These limits where they are within the host's, the host's elsewhere."""

        return Limits(
            run_seconds=_lower(self.run_seconds, host.run_seconds),
            silence_seconds=_lower(self.silence_seconds, host.silence_seconds),
            memory_bytes=_lower(self.memory_bytes, host.memory_bytes),
            cpus=_lower(self.cpus, host.cpus),
            output_bytes=_lower(self.output_bytes, host.output_bytes),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """A method as its `method.json` defines it; `parameters` is a JSON Schema of an object."""

    title: str
    label: str
    description: str
    version: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    network: bool = False
