"""The methods that can be run, and the check of a submission against its method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from aiohttp import web

from aioanalysis import methods
from aioanalysis.aio import in_thread
from aioanalysis.api.context import CONTEXT, ApiContext
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import ERRORS_MAX
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import View
from aioanalysis.domain.method import Method, is_title
from aioanalysis.errors import Invalid, MethodFailure, NotFound


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


async def check_submission(
    context: ApiContext, title: str, params: Mapping[str, Any], frames: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Raises `Invalid` when there is no such method, or it does not take these params, of one frame too."""
    if context.methods_dir is None:
        return
    try:
        found = await methods.load_method(context.methods_dir, title)
    except MethodFailure as failure:
        raise Invalid("The method cannot be run.", [("/title", failure.text)]) from None
    places = await in_thread(_wrong_params, found.method, params, frames)
    if places:
        raise Invalid("The method does not take these parameters.", places)


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
