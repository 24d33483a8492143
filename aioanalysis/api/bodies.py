"""Reads JSON bodies with suspicion: bounded in size, time and depth, and nothing in them that is no JSON."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, Final, NoReturn, TypeVar

from aiohttp import ClientError, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import BaseModel, ValidationError

from aioanalysis.api.problems import ERRORS_MAX, HttpProblem
from aioanalysis.errors import Invalid, TooLarge

PIECE_SECONDS: Final = 30.0
"""How long a client may take for the next piece of its body."""

DEPTH_MAX: Final = 64
INTEGER_MAX: Final = 2**63 - 1
INTEGER_DIGITS: Final = 20
POINTER_CHARACTERS: Final = 200

M = TypeVar("M", bound=BaseModel)


def loads(data: bytes) -> Any:
    """`data` as JSON that can be used and written again; raises `HttpProblem` (400).

    Refused: what is no UTF-8 or no JSON, NaN and infinities, numbers out of range, keys given twice, halves
    of surrogate pairs, and what is nested too deep.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=_no_constant,
            parse_int=_integer,
            parse_float=_number,
            object_pairs_hook=_object,
        )
        _check_depth(value)
        if rb"\u" in data:
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise HttpProblem(
            400, f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except UnicodeDecodeError as error:
        raise HttpProblem(400, f"The body is not UTF-8 at byte {error.start + 1}.") from None
    except UnicodeEncodeError:
        raise HttpProblem(400, "The body holds half a surrogate pair, which is no character.") from None
    except RecursionError:
        raise HttpProblem(400, f"The body is nested deeper than {DEPTH_MAX} levels.") from None
    except ValueError as error:
        raise HttpProblem(400, f"The body is not JSON that can be used: {error}.") from None
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _integer(text: str) -> int:
    if len(text) > INTEGER_DIGITS or abs(value := int(text)) > INTEGER_MAX:
        raise ValueError("an integer has more than 64 bits")
    return value


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _check_depth(value: Any) -> None:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise RecursionError


async def read_body(request: web.Request, model: type[M]) -> M:
    """The JSON body as `model`; raises `HttpProblem` (400, 408, 415), `TooLarge`, `Invalid`."""
    _check_type(request)
    return parse(model, loads(await _read(request, request.client_max_size)))


def parse(model: type[M], value: Any) -> M:
    """`value` as `model`; raises `Invalid` with a pointer to each wrong place."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise Invalid("The body is not as it should be.", _places(error)) from None


def _check_type(request: web.Request) -> None:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise HttpProblem(
            415, "A body must not be compressed as a whole.", headers={"Accept-Encoding": "identity"}
        )
    charset = (request.charset or "utf-8").lower()
    if request.content_type != "application/json" or charset not in {"utf-8", "utf8"}:
        raise HttpProblem(
            415, "The body must be application/json in UTF-8.", headers={"Accept-Post": "application/json"}
        )


async def _read(request: web.Request, limit: int) -> bytes:
    """The whole body, given up as soon as it is known to be over `limit`."""
    if (request.content_length or 0) > limit:
        raise TooLarge(f"A body may have {limit} bytes at most.")
    body = bytearray()
    try:
        while True:
            async with asyncio.timeout(PIECE_SECONDS):
                piece = await request.content.readany()
            if not piece:
                return bytes(body)
            body += piece
            if len(body) > limit:
                raise TooLarge(f"A body may have {limit} bytes at most.")
    except TimeoutError:
        raise HttpProblem(408, "The body did not come in time.", headers={"Connection": "close"}) from None
    except (ClientError, HttpProcessingError, ConnectionError) as error:
        raise HttpProblem(400, "The body broke off.", headers={"Connection": "close"}) from error


def _places(error: ValidationError) -> list[tuple[str, str]]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [(_pointer(one["loc"]), one["msg"].removeprefix("Value error, ")) for one in found[:ERRORS_MAX]]


def _pointer(place: tuple[int | str, ...]) -> str:
    text = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in place)
    return text[:POINTER_CHARACTERS]
