"""Reads METHODS_DIR: the methods' definitions, and what their parameters accept."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from aioanalysis.aio import in_thread
from aioanalysis.buildcontext import Member, build_context, context_digest
from aioanalysis.domain.method import Limits, Method, is_title
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import MethodFailure, Misconfigured
from aioanalysis.interfaces import MethodDirectory

STAGES: Final = 5
DEFINITION_MAX_BYTES: Final = 1024 * 1024
MESSAGE_MAX_CHARACTERS: Final = 500
SETTLED_SECONDS: Final = 2.0  # a file changed more recently may change again within one tick of its clock
NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}

_loaded: dict[tuple[Path, str | None], tuple[object, MethodDirectory]] = {}
"""What was read, by directory and base image, with the signature of its files then."""


async def load_method(methods_dir: Path, title: str, *, base_image: str | None = None) -> MethodDirectory:
    """The method as deployed now; raises `MethodFailure` (reason `method`) with a sentence for people.

    `base_image` is the setting BASE_IMAGE: with another one the digest is another one. An unchanged
    directory costs its `stat` calls only.
    """
    return await in_thread(_load, methods_dir, title, base_image)


async def list_methods(
    methods_dir: Path, *, base_image: str | None = None
) -> tuple[list[MethodDirectory], dict[str, str]]:
    """All methods by title, and of those that cannot be used title -> what is wrong.

    Raises `Misconfigured` when METHODS_DIR cannot be read. Names that begin with `_` or `.` are no methods.
    """
    return await in_thread(_list, methods_dir, base_image)


def check_params(method: Method, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with `params`: (JSON pointer within them, message), in order; empty if nothing is."""
    validator = Draft202012Validator(dict(method.parameters), registry=Registry())
    errors = sorted(validator.iter_errors(dict(params)), key=lambda error: [str(p) for p in error.path])
    return [(_pointer(error.absolute_path), error.message[:MESSAGE_MAX_CHARACTERS]) for error in errors]


def with_defaults(method: Method, params: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `params` with the schema's defaults where a property is not given, in nested objects too."""
    return _filled(method.parameters, params)


def _list(methods_dir: Path, base_image: str | None) -> tuple[list[MethodDirectory], dict[str, str]]:
    methods, problems = [], {}
    try:
        names = sorted(path.name for path in methods_dir.iterdir() if path.is_dir())
    except OSError as error:
        raise Misconfigured(
            f"AIOANALYSIS_METHODS_DIR: {methods_dir} cannot be read: {error.strerror}"
        ) from None
    for name in names:
        if name.startswith(("_", ".")):
            continue
        try:
            methods.append(_load(methods_dir, name, base_image))
        except MethodFailure as failure:
            problems[name] = failure.text
    return methods, problems


def _load(methods_dir: Path, title: str, base_image: str | None) -> MethodDirectory:
    if not is_title(title):
        _fail(f"{title[:80]!r} cannot be a method's title: letters, digits, _ and - only, at most 64.")
    path = (methods_dir / title).absolute()
    if not path.is_dir():
        _fail(f"There is no method {title!r}: METHODS_DIR holds no directory of that name.")
    try:
        return _load_directory(path, title, base_image)
    except MethodFailure as failure:
        raise MethodFailure(failure.reason, f"Method {title!r}: {failure.text}") from None
    except OSError as error:
        text = f"Method {title!r}: {error.filename or path.name} cannot be read: {error.strerror}."
        raise MethodFailure(Reason.METHOD, text) from error


def _load_directory(path: Path, title: str, base_image: str | None) -> MethodDirectory:
    members = build_context(path)
    signature = tuple((member.name, member.mark) for member in members)
    known = _loaded.get((path, base_image))
    if known and known[0] == signature:
        return known[1]
    method = _definition(path / "method.json", title)
    _check_files(members)
    directory = MethodDirectory(method=method, path=path, digest=context_digest(members, base_image))
    changed_at = max(member.path.lstat().st_ctime for member in members)
    if time.time() - changed_at > SETTLED_SECONDS:
        _loaded[path, base_image] = (signature, directory)
    return directory


def _check_files(members: Sequence[Member]) -> None:
    files = {member.name: member for member in members if member.kind != "directory"}
    if "Dockerfile" not in files:
        _fail("Dockerfile is missing.")
    found: dict[int, list[str]] = {}
    for name in files:
        if match := re.fullmatch(r"stages/(\d+)_[^/]*", name):
            found.setdefault(int(match[1]), []).append(name)
    problems = [f"stages/{n}_* is missing" for n in range(1, STAGES + 1) if n not in found]
    for number, names in sorted(found.items()):
        if number not in range(1, STAGES + 1):
            problems.append(f"{names[0]} has no place among them")
        elif len(names) > 1:
            problems.append(f"stages/{number}_* is there {len(names)} times ({', '.join(names)})")
        elif not re.search(r"\.(py|sh|R)$", names[0]) and not files[names[0]].mode & 0o100:
            problems.append(f"{names[0]} is no .py, .sh or .R file and is not executable")
    if problems:
        _fail(f"There must be one script for each of {STAGES} stages; {'; '.join(problems)}.")


def _definition(path: Path, title: str) -> Method:
    body = _read_definition(path)
    for name in ("label", "description", "version"):
        if not isinstance(body.get(name), str) or not body[name].strip():
            _fail(f"method.json needs a {name!r}, a text that is not empty.")
    network = body.get("network", False)
    if not isinstance(network, bool):
        _fail("method.json: 'network' must be true or false.")
    return Method(
        title=title,
        label=body["label"],
        description=body["description"],
        version=body["version"],
        parameters=_parameters(body.get("parameters", NO_PARAMETERS)),
        limits=_limits(body.get("limits", {})),
        network=network,
    )


def _read_definition(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(DEFINITION_MAX_BYTES + 1)
    except FileNotFoundError:
        _fail("method.json is missing.")
    if len(data) > DEFINITION_MAX_BYTES:
        _fail(f"method.json is larger than {DEFINITION_MAX_BYTES} bytes.")
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        _fail(f"method.json is not JSON: {error}.")
    if not isinstance(body, dict):
        _fail("method.json must be a JSON object.")
    return body


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _limits(value: Any) -> Limits:
    if not isinstance(value, dict):
        _fail("method.json: 'limits' must be an object.")
    whole = {"memory_bytes", "output_bytes"}
    known = {field.name for field in fields(Limits)}
    for name, limit in value.items():
        if name not in known:
            _fail(f"method.json: there is no limit {name!r}; there are {', '.join(sorted(known))}.")
        number = isinstance(limit, int if name in whole else (int, float)) and not isinstance(limit, bool)
        if limit is not None and not (number and limit > 0):
            kind = "a whole number" if name in whole else "a number"
            _fail(f"method.json: limit {name!r} must be {kind} above 0.")
    return Limits(**value)


def _parameters(schema: Any) -> Mapping[str, Any]:
    if not isinstance(schema, dict) or schema.get("type") != "object":
        _fail("method.json: 'parameters' must be a JSON Schema of an object (type: object).")
    try:
        Draft202012Validator.check_schema(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    except SchemaError as error:
        where = _pointer(["parameters", *error.absolute_path])
        _fail(f"method.json: {where} is no JSON Schema: {error.message[:MESSAGE_MAX_CHARACTERS]}.")
    _check_references(schema)
    wrong = [
        f"{where}: {message}"
        for where, message in check_params(
            Method(title="", label="", description="", version="", parameters={**schema, "required": []}),
            _filled(schema, {}),
        )
    ]
    if wrong:
        _fail(f"method.json: a default does not fit its own schema; {'; '.join(wrong)}.")
    return schema


def _check_references(schema: dict[str, Any]) -> None:
    """Only references within the schema: nothing is ever fetched, and none may fail at a submission."""
    resource: Resource[Any] = Resource.from_contents(schema, default_specification=DRAFT202012)
    resolver = Registry().with_resource("", resource).resolver()
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            _fail(f"method.json: the reference {reference!r} in 'parameters' leads nowhere within it.")


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"$ref", "$dynamicRef"} and isinstance(inner, str):
                yield inner
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _filled(schema: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    filled = copy.deepcopy(dict(value))
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, inner in (properties or {}).items():
        if not isinstance(inner, Mapping):
            continue
        if name not in filled and "default" in inner:
            filled[name] = copy.deepcopy(inner["default"])
        if isinstance(filled.get(name), dict):
            filled[name] = _filled(inner, filled[name])
    return filled


def _pointer(path: Any) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def _fail(text: str) -> NoReturn:
    raise MethodFailure(Reason.METHOD, text)
