"""Requests to the service: repeated while that is safe and may help, and their failures as errors of ours."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, TypeVar

import aiohttp
import tenacity

from aioanalysis.errors import AnalysisError, Damaged, Invalid, Unavailable

T = TypeVar("T")
Query = Sequence[tuple[str, str | None]]
Parts = Callable[[], AbstractAsyncContextManager[aiohttp.MultipartWriter]]
"""Opens a body of several parts, once for every try."""
OVERLOADED: Final = 429
PASSING: Final = frozenset({502, 503, 504})
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)


class ApiProblem(AnalysisError):
    """The service refused: its problem document, as attributes. `retry_after` is in seconds."""

    def __init__(self, status: int, problem: Mapping[str, Any], *, retry_after: float | None = None) -> None:
        self.status = status
        self.problem = dict(problem)
        self.retry_after = retry_after
        details = [
            f"{e.get('pointer') or e.get('parameter') or '/'}: {e.get('detail')}"
            for e in problem.get("errors") or ()
        ]
        text = str(problem.get("detail") or problem.get("title") or "no reason given")
        super().__init__(f"{text} ({'; '.join(details)})" if details else text)


class NotReached(Unavailable):
    """There was no answer. `sent`: the request may have arrived, and may have acted."""

    def __init__(self, text: str, *, sent: bool, passing: bool = True) -> None:
        super().__init__(text)
        self.sent = sent
        self.passing = passing


class Transport:
    """Sends requests to one service, and tries again for up to `patience` seconds.

    A request is repeated when it cannot have acted, or when it is `repeatable`: to do it twice is to do it
    once. `on_retry` is told what went wrong before each pause.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        server: str,
        *,
        patience: float,
        on_retry: Callable[[str], None] | None = None,
    ) -> None:
        self._session = session
        self._on_retry = on_retry
        self.server = server.rstrip("/")
        self.patience = patience

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parts: Parts | None = None,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
    ) -> Any:
        """The answer's JSON, None if it has none. Raises `ApiProblem`, `NotReached`, `Damaged`.

        By default all but POST is repeatable.
        """

        async def once() -> Any:
            async with self.opened(
                method, path, body=body, parts=parts, query=query, headers=headers
            ) as response:
                return None if response.status == 204 else self._parsed(await response.read())

        return await self.repeated(once, repeatable=method != "POST" if repeatable is None else repeatable)

    async def repeated(self, once: Callable[[], Awaitable[T]], *, repeatable: bool = True) -> T:
        """Call `once`, again after a failure that may pass."""
        attempts = tenacity.AsyncRetrying(
            stop=tenacity.stop_before_delay(self.patience),
            wait=_pause,
            retry=tenacity.retry_if_exception(lambda error: _may_pass(error, repeatable)),
            before_sleep=self._tell,
            reraise=True,
        )
        return await attempts(once)

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        parts: Parts | None = None,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request and its open answer; raises as `call` does, also when the answer is cut later."""
        try:
            async with (
                parts() if parts else nullcontext() as data,
                self._session.request(
                    method,
                    self.server + path,
                    params=[(name, value) for name, value in query if value is not None],
                    json=body,
                    data=data,
                    headers=headers,
                    timeout=timeout or TIMEOUT,
                ) as response,
            ):
                if response.status >= 400:
                    raise _problem(response, await response.read())
                yield response
        except aiohttp.InvalidURL as error:
            raise Invalid(f"{self.server} is no address of a service") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._not_reached(error) from error

    def _not_reached(self, error: Exception) -> NotReached:
        text = str(error) or "it does not answer in time"
        if isinstance(error, aiohttp.ClientConnectorError):
            text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or text
        return NotReached(
            f"the service at {self.server} cannot be reached: {text}",
            sent=not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError),
            passing=not isinstance(error, aiohttp.ClientSSLError),
        )

    def _parsed(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except ValueError:
            raise Damaged(
                f"{self.server} does not answer as this service does: is the address right?"
            ) from None

    def tell(self, error: BaseException) -> None:
        """Pass on what went wrong, before another try."""
        if self._on_retry is not None:
            self._on_retry(str(error))

    def _tell(self, state: tenacity.RetryCallState) -> None:
        if state.outcome is not None and (error := state.outcome.exception()) is not None:
            self.tell(error)


def passes(error: BaseException) -> bool:
    """Whether trying again later may help, if the request may be repeated at all."""
    if isinstance(error, ApiProblem):
        return error.status in {OVERLOADED, *PASSING} or error.retry_after is not None
    return isinstance(error, NotReached) and error.passing


def _may_pass(error: BaseException, repeatable: bool) -> bool:
    if isinstance(error, ApiProblem) and error.status in PASSING:
        return repeatable
    if isinstance(error, NotReached) and error.sent:
        return repeatable and error.passing
    return passes(error)


_grow = tenacity.wait_random_exponential(multiplier=FIRST_PAUSE, max=LONGEST_PAUSE)


def _pause(state: tenacity.RetryCallState) -> float:
    """Growing, and never shorter than the service has asked for."""
    error = state.outcome.exception() if state.outcome else None
    return max(_grow(state), getattr(error, "retry_after", None) or 0)


def _problem(response: aiohttp.ClientResponse, data: bytes) -> ApiProblem:
    try:
        problem = json.loads(data)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        problem = {"title": response.reason or "no reason given"}
    if "Content-Range" in response.headers:
        problem["content_range"] = response.headers["Content-Range"]
    after = response.headers.get("Retry-After", "")
    return ApiProblem(response.status, problem, retry_after=float(after) if after.isdecimal() else None)
