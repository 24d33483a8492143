"""A job's parameters, checked against the method's own schema, with its defaults filled in."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

KINDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


class ParameterError(Exception):
    """A parameter that cannot be used; the text is for the user."""


def load_parameters(params: Path, method: dict[str, Any]) -> dict[str, Any]:
    """Of the schema in method.json: type, enum, minimum, maximum, minLength, maxLength and default count."""
    try:
        given = json.loads(params.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"params.json is not JSON: {error}.") from error
    if given is None:
        given = {}
    if not isinstance(given, dict):
        raise ParameterError("params.json holds no JSON object.")
    schemas: dict[str, dict[str, Any]] = method["parameters"]["properties"]
    unknown = sorted(set(given) - set(schemas))
    if unknown:
        raise ParameterError(f"Unknown parameter {', '.join(unknown)}; known are {', '.join(schemas)}.")
    return {
        name: check(name, given.get(name, schema.get("default")), schema) for name, schema in schemas.items()
    }


def check(name: str, value: Any, schema: dict[str, Any]) -> Any:
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        wanted = " or ".join(KINDS.get(kind, kind) for kind in kinds)
        raise ParameterError(f"{name} must be {wanted}, not {short(value)}.")
    if "enum" in schema and value not in schema["enum"]:
        raise ParameterError(
            f"{name} must be one of {', '.join(map(str, schema['enum']))}, not {short(value)}."
        )
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "integer" in kinds and isinstance(value, float):
            value = int(value)
        if value < schema.get("minimum", -math.inf) or value > schema.get("maximum", math.inf):
            low, high = schema.get("minimum", "any"), schema.get("maximum", "any")
            raise ParameterError(f"{name} must lie between {low} and {high}, not {value}.")
    if isinstance(value, str) and not schema.get("minLength", 0) <= len(value) <= schema.get(
        "maxLength", 10_000
    ):
        raise ParameterError(f"{name} is {len(value)} characters long, which is not allowed.")
    return value


def is_kind(value: Any, kind: str) -> bool:
    if kind == "null":
        return value is None
    if isinstance(value, bool) or value is None:
        return kind == "boolean" and isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "number":
        return isinstance(value, (int, float)) and math.isfinite(value)
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(kind, ()))


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
