"""The methods that can be run, and the check of a submission against its method."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from aiohttp import web

from aioanalysis import methods
from aioanalysis.aio import Batched, Tasks, in_thread
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import ERRORS_MAX
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import View
from aioanalysis.domain.method import Method, is_title
from aioanalysis.errors import Invalid, MethodFailure, NotFound

CHECKED_AT_ONCE: Final = 32


class LimitsView(View):
    """What a run may use; null means the analysis host's own setting."""

    run_seconds: float | None
    silence_seconds: float | None
    memory_bytes: int | None
    cpus: float | None
    output_bytes: int | None


class MethodView(View):
    """A method's definition; `parameters` is a JSON Schema, `digest` changes with any of its files."""

    title: str
    label: str
    description: str
    version: str
    parameters: dict[str, Any]
    limits: LimitsView
    network: bool
    digest: str

    @classmethod
    def of(cls, method: Method, digest: str) -> Self:
        limits = method.limits
        return cls(
            title=method.title,
            label=method.label,
            description=method.description,
            version=method.version,
            parameters=dict(method.parameters),
            limits=LimitsView(
                run_seconds=limits.run_seconds,
                silence_seconds=limits.silence_seconds,
                memory_bytes=limits.memory_bytes,
                cpus=limits.cpus,
                output_bytes=limits.output_bytes,
            ),
            network=method.network,
            digest=digest,
        )


class MethodList(View):
    """Methods by title; `unusable` says of those that cannot be run what is wrong with them."""

    methods: tuple[MethodView, ...]
    unusable: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """What a submission asks of a method."""

    title: str
    params: Mapping[str, Any]
    frames: Sequence[Mapping[str, Any]]


class Checks:
    """Checks submissions against the methods as they are deployed then; those of one moment together."""

    def __init__(self, methods_dir: Path | None, tasks: Tasks) -> None:
        self._methods_dir = methods_dir
        self._batched = Batched(self._check, tasks, name="check submissions", most=CHECKED_AT_ONCE)

    async def check(
        self, title: str, params: Mapping[str, Any], frames: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Raises `Invalid` when there is no such method, or it does not take these params, of a frame too."""
        if self._methods_dir is not None:
            wrong = await self._batched.get(_Asked(title, params, frames))
            if wrong is not None:
                raise wrong

    async def _check(self, asked: Sequence[_Asked]) -> Sequence[Exception | None]:
        found: dict[str, Method | MethodFailure] = {}
        for title in {one.title for one in asked}:
            try:
                found[title] = (await methods.load_method(self._methods_dir or Path(), title)).method
            except MethodFailure as failure:
                found[title] = failure
        return await in_thread(lambda: [_wrong(found[one.title], one) for one in asked])


CHECKS: Final = web.AppKey("checks", Checks)


async def checking(app: web.Application) -> AsyncIterator[None]:
    """For `cleanup_ctx`: submissions are checked for as long as the application lives."""
    async with Tasks() as tasks:
        app[CHECKS] = Checks(app[CONTEXT].methods_dir, tasks)
        yield


def _wrong(method: Method | MethodFailure, asked: _Asked) -> Exception | None:
    if isinstance(method, MethodFailure):
        return Invalid("The method cannot be run.", [("/title", method.text)])
    try:
        places = _wrong_params(method, asked.params, asked.frames)
    except Exception as error:  # of this one only: the others of the moment are none the worse
        return error
    return Invalid("The method does not take these parameters.", places) if places else None


def _wrong_params(
    method: Method, params: Mapping[str, Any], frames: Sequence[Mapping[str, Any]]
) -> Sequence[tuple[str, str]]:
    """What is wrong with `params`; of frames with each one's over them, told where the value came from."""
    if not frames:
        return [(f"/params{pointer}", message) for pointer, message in methods.check_params(method, params)]
    places: dict[tuple[str, str], None] = {}
    for number, frame in enumerate(frames):
        for pointer, message in methods.check_params(method, {**params, **frame}):
            name = pointer[1:].partition("/")[0].replace("~1", "/").replace("~0", "~")
            own = not pointer or name in frame
            places[f"/frames/{number}{pointer}" if own else f"/params{pointer}", message] = None
        if len(places) >= ERRORS_MAX:
            break
    return list(places)


async def listing(request: web.Request) -> web.StreamResponse:
    folder = request.app[CONTEXT].methods_dir
    if folder is None:
        return answer(MethodList(methods=(), unusable={}))
    found, problems = await methods.list_methods(folder)
    views = tuple(MethodView.of(one.method, one.digest) for one in found)
    return answer(MethodList(methods=views, unusable=problems))


async def show(request: web.Request) -> web.StreamResponse:
    title, folder = request.match_info["title"], request.app[CONTEXT].methods_dir
    if folder is None or not is_title(title):
        raise NotFound("There is no such method.")
    try:
        found = await methods.load_method(folder, title)
    except MethodFailure as failure:
        raise NotFound(failure.text) from None
    return answer(MethodView.of(found.method, found.digest))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/methods",
        handler=listing,
        summary="The methods' definitions",
        answer=MethodList,
    ),
    Endpoint(
        method="GET",
        path="/v1/methods/{title}",
        handler=show,
        summary="One method's definition",
        answer=MethodView,
        problems=(404,),
    ),
)
