"""Who makes a request: the holder of a key, of a browser's session, or of a signed link."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict, deque
from datetime import timedelta
from typing import Final

from aiohttp import web

from aioanalysis.api.addresses import ADDRESSES
from aioanalysis.api.context import CALLER, CONTEXT, Caller, job_store_time
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.links import LINK, is_linkable
from aioanalysis.api.problems import HttpProblem
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import Time, View
from aioanalysis.errors import AnalysisError, Forbidden, Unauthorized
from aioanalysis.interfaces import Role, Session, User

KEY: Final = re.compile(r"[!-~]{1,1024}")
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43}")
COOKIE: Final = "aioanalysis_session"
CSRF_HEADER: Final = "X-CSRF-Token"
SAFE: Final = frozenset({"GET", "HEAD"})
WINDOW_SECONDS: Final = 60.0
REMEMBERED: Final = 10_000


class Failures:
    """Sign-ins that failed, by address: one with too many of late has to wait, but for keys known as good."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._failed: OrderedDict[str, deque[float]] = OrderedDict()
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether there are any, of late or before."""
        return bool(self._failed)

    def check(self, address: str, key: str) -> None:
        """Raises `HttpProblem` (429)."""
        failed = self._failed.get(address)
        if failed is None or _digest(key) in self._good:
            return
        now = time.monotonic()
        while failed and failed[0] < now - WINDOW_SECONDS:
            failed.popleft()
        if len(failed) >= self._most:
            wait = max(1, round(failed[0] + WINDOW_SECONDS - now))
            raise HttpProblem(
                429, "Too many keys that nobody holds came from here.", headers={"Retry-After": str(wait)}
            )

    def failed(self, address: str, key: str) -> None:
        self._good.pop(_digest(key), None)
        self._failed.setdefault(address, deque(maxlen=self._most)).append(time.monotonic())
        self._failed.move_to_end(address)
        while len(self._failed) > REMEMBERED:
            self._failed.popitem(last=False)

    def succeeded(self, key: str) -> None:
        about = _digest(key)
        self._good[about] = None
        self._good.move_to_end(about)
        if len(self._good) > REMEMBERED:
            self._good.popitem(last=False)


FAILURES: Final = web.AppKey("failures", Failures)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


async def caller_of(request: web.Request) -> Caller:
    """Raises `Unauthorized`, `Forbidden` (a change by a session without its token), `HttpProblem` (429)."""
    key = _key(request)
    if key is None and request.method in SAFE and LINK in request.query and is_linkable(request):
        return Caller(user=User(name=""), key="", link=request.query[LINK])
    if key is None and COOKIE in request.cookies:
        return await _of_session(request, request.cookies[COOKIE])
    if key is None:
        raise Unauthorized("Give a key: Authorization: Bearer KEY, or X-API-Key: KEY.")
    return Caller(user=await _user(request, key), key=key)


async def still_holds(request: web.Request) -> bool:
    """Whether the session or key of a request that lasts is its caller's still, as far as it can be known."""
    context, caller = request.app[CONTEXT], request[CALLER]
    try:
        if caller.session is not None and await context.sessions.find(request.cookies[COOKIE]) is None:
            return False
        return await context.identity.identify(caller.key) == caller.user
    except AnalysisError:
        return False


async def _of_session(request: web.Request, token: str) -> Caller:
    session = None
    if TOKEN.fullmatch(token):
        async with job_store_time():
            session = await request.app[CONTEXT].sessions.find(token)
    if session is None:
        raise Unauthorized("The session has ended: sign in again.")
    shown = request.headers.get(CSRF_HEADER, "").encode("utf-8", "surrogateescape")
    if request.method not in SAFE and not hmac.compare_digest(shown, session.csrf.encode()):
        raise Forbidden(f"A change by a session must show its token in {CSRF_HEADER}.")
    return Caller(user=await _user(request, session.key), key=session.key, session=session)


async def _user(request: web.Request, key: str) -> User:
    app = request.app
    failures = app[FAILURES]
    if failures:
        failures.check(app[ADDRESSES].of(request), key)
    user = await app[CONTEXT].identity.identify(key) if KEY.fullmatch(key) else None
    if user is None:
        failures.failed(app[ADDRESSES].of(request), key)
        raise Unauthorized("Nobody holds this key.")
    failures.succeeded(key)
    return user


def _key(request: web.Request) -> str | None:
    headers = request.headers
    found = set(headers.getall("X-API-Key")) if "X-API-Key" in headers else set()
    for value in headers.getall("Authorization", ()):
        scheme, _, credentials = value.partition(" ")
        if scheme.lower() == "bearer":
            found.add(credentials.strip())
    if len(found) > 1:
        raise Unauthorized("Two different keys were given.")
    return found.pop() if found else None


# --- a browser's session ---


class SessionView(View):
    """Who is signed in; changes must show `csrf_token` in the header X-CSRF-Token. Null: not by a session."""

    user: str
    role: Role
    csrf_token: str | None
    expires_at: Time | None


async def sign_in(request: web.Request) -> web.StreamResponse:
    """With a key as in any other call; the cookie stands for it until it expires or is signed out."""
    context, caller = request.app[CONTEXT], request[CALLER]
    seconds = context.settings.session_seconds
    token = secrets.token_urlsafe(32)
    session = Session(
        key=caller.key,
        csrf=secrets.token_urlsafe(32),
        expires_at=context.operations.clock() + timedelta(seconds=seconds),
    )
    async with job_store_time():
        await context.sessions.open(token, session)
    response = _shown(caller.user, session)
    response.set_cookie(
        COOKIE,
        token,
        max_age=seconds,
        path="/",
        httponly=True,
        samesite="Strict",
        secure=request.secure or request.headers.get("X-Forwarded-Proto") == "https",
    )
    return response


async def show(request: web.Request) -> web.StreamResponse:
    return _shown(request[CALLER].user, request[CALLER].session)


async def sign_out(request: web.Request) -> web.StreamResponse:
    """Ends the session of the cookie, if there is one."""
    token = request.cookies.get(COOKIE, "")
    if TOKEN.fullmatch(token):
        async with job_store_time():
            await request.app[CONTEXT].sessions.close(token)
    response = web.Response(status=204)
    response.del_cookie(COOKIE, path="/", httponly=True, samesite="Strict")
    return response


def _shown(user: User, session: Session | None) -> web.Response:
    return answer(
        SessionView(
            user=user.name,
            role=user.role,
            csrf_token=session.csrf if session else None,
            expires_at=session.expires_at if session else None,
        )
    )


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/v1/session",
        handler=sign_in,
        summary="Sign a browser in",
        answer=SessionView,
        problems=(403,),
    ),
    Endpoint(method="GET", path="/v1/session", handler=show, summary="Who is signed in", answer=SessionView),
    Endpoint(
        method="DELETE",
        path="/v1/session",
        handler=sign_out,
        summary="Sign a browser out",
        answer=None,
        status=204,
        problems=(403,),
    ),
)
