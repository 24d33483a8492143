"""The records of a zip, as bytes: what stands before and behind a member, and at the end.

ZIP64 only where a field would be full. Names are UTF-8. Format: PKWARE APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import datetime
from typing import Final

END: Final = struct.Struct("<L4H2LH")
LOCATOR: Final = struct.Struct("<2LQL")
END64: Final = struct.Struct("<LQ2H2L4Q")
ENTRY: Final = struct.Struct("<L6H3L5H2L")
LOCAL: Final = struct.Struct("<L5H3L2H")
DESCRIPTOR: Final = struct.Struct("<4L")
DESCRIPTOR64: Final = struct.Struct("<2L2Q")
UNIX_TIME: Final = struct.Struct("<2HBl")

END_MARK: Final = 0x06054B50
LOCAL_MARK: Final = 0x04034B50
ENTRY_MARK: Final = 0x02014B50
LOCATOR_MARK: Final = 0x07064B50
END64_MARK: Final = 0x06064B50
DESCRIPTOR_MARK: Final = 0x08074B50
ZIP64_FIELD: Final = 0x0001
UNIX_TIME_FIELD: Final = 0x5455

FULL16: Final = 0xFFFF
FULL32: Final = 0xFFFFFFFF
LATEST: Final = 0x7FFFFFFF
ENCRYPTED: Final = 0x0001
STREAMED: Final = 0x0008
UTF8: Final = 0x0800
STORED: Final = 0
DEFLATED: Final = 8

PLAIN_VERSION: Final = 20
ZIP64_VERSION: Final = 45
MADE_BY: Final = (3 << 8) | ZIP64_VERSION  # Unix, for the permissions
FILE: Final = 0o100644


@dataclass(kw_only=True, slots=True)
class Member:
    """A member and where its local header stands.

    `streamed`: CRC and sizes are not known before its bytes, a descriptor follows them; `large` says whether
    it may reach 4 GiB. `unix_time` also gives the time to the second and in UTC, up to 2038.
    """

    name: str
    at: datetime
    mode: int = FILE
    method: int = STORED
    streamed: bool = False
    large: bool = False
    unix_time: bool = False
    crc: int = 0
    compressed: int = 0
    size: int = 0
    offset: int = 0

    def local(self) -> bytes:
        """What stands before its bytes."""
        large = self.large if self.streamed else max(self.size, self.compressed) >= FULL32
        crc, size, compressed = (0, 0, 0) if self.streamed else (self.crc, self.size, self.compressed)
        wide = b""
        if large:
            wide = struct.pack("<2H2Q", ZIP64_FIELD, 16, size, compressed)
            size = compressed = FULL32
        name, extra = self.name.encode(), wide + self._time()
        version = ZIP64_VERSION if large else PLAIN_VERSION
        how = (version, self._flags(), self.method, *_dos_time(self.at))
        return LOCAL.pack(LOCAL_MARK, *how, crc, compressed, size, len(name), len(extra)) + name + extra

    def descriptor(self) -> bytes:
        """What stands behind the bytes of a streamed one."""
        form = DESCRIPTOR64 if self.large else DESCRIPTOR
        return form.pack(DESCRIPTOR_MARK, self.crc, self.compressed, self.size)

    def entry(self) -> bytes:
        """Its entry in the central directory."""
        size, compressed, offset, wide = self.size, self.compressed, self.offset, b""
        if max(size, compressed) >= FULL32:
            wide = struct.pack("<2Q", size, compressed)
            size = compressed = FULL32
        if offset >= FULL32:
            wide, offset = wide + struct.pack("<Q", offset), FULL32
        extra = (struct.pack("<2H", ZIP64_FIELD, len(wide)) + wide if wide else b"") + self._time()
        name, version = self.name.encode(), ZIP64_VERSION if wide or self.large else PLAIN_VERSION
        how = (MADE_BY, version, self._flags(), self.method, *_dos_time(self.at))
        lengths = (len(name), len(extra), 0, 0, 0)
        head = ENTRY.pack(ENTRY_MARK, *how, self.crc, compressed, size, *lengths, self.mode << 16, offset)
        return head + name + extra

    def _flags(self) -> int:
        return UTF8 | (STREAMED if self.streamed else 0)

    def _time(self) -> bytes:
        seconds = int(self.at.timestamp())
        if not self.unix_time or seconds > LATEST:
            return b""
        return UNIX_TIME.pack(UNIX_TIME_FIELD, 5, 1, seconds)


def end(count: int, start: int, length: int) -> bytes:
    """The end of a zip whose directory of `count` entries has `length` bytes from `start`."""
    wide = b""
    if count >= FULL16 or max(start, length) >= FULL32:
        fields = (MADE_BY, ZIP64_VERSION, 0, 0, count, count, length, start)
        wide = END64.pack(END64_MARK, END64.size - 12, *fields)
        wide += LOCATOR.pack(LOCATOR_MARK, 0, start + length, 1)
        count, length, start = min(count, FULL16), min(length, FULL32), min(start, FULL32)
    return wide + END.pack(END_MARK, 0, 0, count, count, length, start, 0)


def _dos_time(at: datetime) -> tuple[int, int]:
    """(time, date), to two seconds; the format knows no zone and nothing before 1980."""
    date = (max(at.year, 1980) - 1980) << 9 | at.month << 5 | at.day
    return at.hour << 11 | at.minute << 5 | at.second // 2, date
