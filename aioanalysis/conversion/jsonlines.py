"""JSON Lines of records, as stores and the portal send them: missing values out, types as BCDM has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aioanalysis.conversion import values
from aioanalysis.conversion.fields import RENAMED
from aioanalysis.conversion.findings import Findings
from aioanalysis.conversion.lines import Line
from aioanalysis.conversion.rows import Record, complete, reader_of


def records(lines: Iterator[Line], findings: Findings) -> Iterator[Record]:
    for number, text in lines:
        if not text.strip():
            continue
        try:
            value = json.loads(text, parse_constant=_refused)
        except (ValueError, RecursionError) as error:
            findings.add("not_json", number, value=text, detail=str(error))
            continue
        if not isinstance(value, dict):
            findings.add("not_json", number, value=text, detail="not an object")
            continue
        yield _record(value, number, findings)


def _record(given: dict[str, Any], line: int, findings: Findings) -> Record:
    record: Record = {}
    for name, value in given.items():
        field = RENAMED.get(name, name)
        if value is None or value == [] or (isinstance(value, str) and values.is_missing(value)):
            findings.count("missing", field)
            continue
        if field != name and given.get(field) is not None:
            field = name  # both are there: neither is lost
        elif field != name:
            findings.count("renamed", f"{name} → {field}")
        record[field] = _typed(field, value, line, findings)
        if record[field] is None:
            del record[field]
    complete(record, line, findings)
    return record


def _typed(field: str, value: Any, line: int, findings: Findings) -> Any:
    """Text that should be a number or a list, read as such; other types are as their author meant them."""
    if not isinstance(value, str):
        return value
    found, kind = reader_of(field)(value)
    if kind == "missing":
        findings.count(kind, field)
    elif kind is not None:
        findings.add(kind, line, field=field, value=value)
    return found


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
