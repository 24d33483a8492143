"""What may be a blob's name, its metadata and a lease: one rule for both backends, checked before any I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from aioanalysis.errors import Contested, Invalid
from aioanalysis.interfaces import BlobInfo, Condition

NAME_BYTES: Final = 1024
PART_BYTES: Final = 255
METADATA_BYTES: Final = 8 * 1024  # Azure's limit; Azurite takes more
_METADATA_KEY: Final = re.compile(r"[a-z_][a-z0-9_]*")


def check_name(name: str) -> str:
    """Return `name` if it names one blob on every backend; raises `Invalid`.

    Parts between slashes are not empty and neither begin nor end with a dot: no `..`, nothing absolute, no
    hidden file, and nothing that Azure would cut off. Backslashes (Azure turns them) and unprintable
    characters are out too.
    """
    parts = name.split("/")
    if (
        not name.isprintable()
        or "\\" in name
        or any(not part or part.startswith(".") or part.endswith(".") for part in parts)
    ):
        raise Invalid(f"not a name for a blob: {name[:100]!a}")
    if len(name.encode()) > NAME_BYTES or any(len(part.encode()) > PART_BYTES for part in parts):
        raise Invalid(f"too long for a blob's name: {name[:100]!a}")
    return name


def check_metadata(metadata: Mapping[str, str] | None, *, required: bool = False) -> dict[str, str]:
    """Return a copy of `metadata`; raises `Invalid` for what Azure refuses or changes on the way.

    Azure answers a non-ASCII value with a misleading 403, trims blanks, and takes a copy with no metadata as
    one that keeps the source's: there it is `required`.
    """
    checked = dict(metadata or {})
    if required and not checked:
        raise Invalid("a copy needs metadata of its own")
    for key, value in checked.items():
        if not _METADATA_KEY.fullmatch(key):
            raise Invalid(f"not a key for metadata: {key!a}")
        if not value or not value.isascii() or not value.isprintable() or value != value.strip():
            raise Invalid(f"metadata {key} must be printable ASCII, not empty, without blanks around it")
    if sum(len(key) + len(value) for key, value in checked.items()) > METADATA_BYTES:
        raise Invalid(f"metadata is larger than {METADATA_BYTES} bytes")
    return checked


def check_lease(lease: str, seconds: int = 15) -> str:
    """Return `lease` if it is a uuid and `seconds` a lease's length; raises `Invalid`."""
    try:
        UUID(lease)
    except ValueError:
        raise Invalid(f"a lease is named by a uuid, not by {lease[:50]!a}") from None
    if not 15 <= seconds <= 60:
        raise Invalid(f"a lease lasts 15 to 60 seconds, not {seconds}")
    return lease


def check_condition(name: str, condition: Condition | None, present: BlobInfo | None) -> None:
    """Raises `Contested` if `condition` does not hold for the blob as it is now."""
    if condition is None:
        return
    if condition.absent and present is not None:
        raise Contested(f"{name} is there already")
    if condition.etag is not None and (present is None or present.etag != condition.etag):
        raise Contested(f"{name} is not as expected: {'changed' if present else 'gone'}")
