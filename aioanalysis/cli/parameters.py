"""A method's parameters as a command line gives them: NAME=VALUE, typed as the method's schema says."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from typer import BadParameter

TRUE: Final = frozenset({"true", "yes", "on", "1"})
FALSE: Final = frozenset({"false", "no", "off", "0"})
WORDS: Final = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list: a,b,c or JSON",
    "object": "a JSON object",
    "null": "null",
}


def parameters(
    pairs: Sequence[str], text: str | None, schema: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """NAME=VALUE pairs over a JSON object or @FILE. Raises `BadParameter`.

    With the method's `schema` a value is of the parameter's type, and a list may be given by several pairs or
    with commas; without one what is JSON is taken as such.
    """
    values = _whole(text)
    given: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise BadParameter(f"-p {pair}: write NAME=VALUE")
        given.setdefault(name, []).append(value)
    properties = (schema or {}).get("properties") or {}
    for name, texts in given.items():
        if name not in properties and properties and schema and schema.get("additionalProperties") is False:
            raise BadParameter(f"-p {name}: {_unknown(name, list(properties))}")
        of_name = properties.get(name) or {}
        if len(texts) > 1 and "array" not in types(of_name):
            raise BadParameter(f"-p {name} is given more than once")
        try:
            values[name] = (
                [typed(of_name.get("items") or {}, one) for one in texts]
                if len(texts) > 1
                else typed(of_name, texts[0])
            )
        except ValueError as error:
            raise BadParameter(f"-p {name}: must be {error}") from None
    return values


def _whole(text: str | None) -> dict[str, Any]:
    try:
        whole = Path(text[1:]).read_text(encoding="utf-8") if text and text.startswith("@") else text
        values = json.loads(whole) if whole else {}
    except (OSError, ValueError) as error:
        raise BadParameter(f"--params is not a JSON object: {error}") from None
    if not isinstance(values, dict):
        raise BadParameter("--params must be a JSON object")
    return values


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    instead = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"there is no such parameter; {instead}"


def types(schema: Mapping[str, Any]) -> list[str]:
    """JSON types that a schema allows, in its order; none if it does not say."""
    found = schema.get("type") or []
    names = [found] if isinstance(found, str) else list(found)
    for alternative in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        names += types(alternative)
    return list(dict.fromkeys(names))


def typed(schema: Mapping[str, Any], text: str) -> Any:
    """The value that `text` stands for; raises ValueError that says what it must be."""
    if "enum" in schema:
        for value in schema["enum"]:
            if text == (value if isinstance(value, str) else json.dumps(value)):
                return value
        raise ValueError(f"one of {', '.join(map(_shown, schema['enum']))}")
    names = types(schema)
    if not names:
        return _json(text, text)
    # What a text could be as well, before the text.
    for name in sorted(names, key=lambda name: name == "string"):
        try:
            return _of_type(name, schema, text)
        except ValueError:
            continue
    raise ValueError(" or ".join(WORDS.get(name, name) for name in names))


def _of_type(name: str, schema: Mapping[str, Any], text: str) -> Any:
    if name == "string":
        return text
    if name == "boolean" and text.lower() in TRUE | FALSE:
        return text.lower() in TRUE
    value = _json(text.strip(), None)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if name == "integer" and is_number and value == int(value):
        return int(value)
    if name == "number" and is_number:
        return value
    if name == "null" and text in {"", "null"}:
        return None
    if name == "object" and isinstance(value, dict):
        return value
    if name == "array":
        if isinstance(value, list):
            return value
        items = schema.get("items") or {}
        return [typed(items, part.strip()) for part in text.split(",")] if text else []
    raise ValueError(name)


def _json(text: str, otherwise: Any) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return otherwise


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
