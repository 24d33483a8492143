"""Signed links: one file of one job, for a short time, without a key."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Annotated, Final, Literal, Self
from urllib.parse import quote, urlencode

from aiohttp import web
from pydantic import Field, StringConstraints, model_validator

from aioanalysis.api.requests import Body
from aioanalysis.api.responses import job_path
from aioanalysis.api.runrequests import Whole
from aioanalysis.api.runviews import Time, View
from aioanalysis.domain.job import FRAMES_MAX, Job
from aioanalysis.settings import Settings

LINK: Final = "link"
PURPOSE: Final = b"aioanalysis links"
FORM: Final = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{43})")
Target = Literal["result", "failed-result", "report", "file", "metadata", "log"]
LINKABLE: Final = frozenset(
    f"/v1/jobs/{{id}}/{rest}"
    for rest in ("result", "failed-result", "report", "files/{path}", "metadata", "log")
)


class Links:
    """Signs and checks under a key derived from the secret that seals submitters' keys."""

    def __init__(self, settings: Settings) -> None:
        secret = settings.job_key_secret
        given = secret.get_secret_value().split(",") if secret else [secrets.token_hex(32)]
        self._keys = [hmac.digest(one.strip().encode(), PURPOSE, "sha256") for one in given]

    def sign(self, job: Job, path: str, query: list[tuple[str, str]], expires: int) -> str:
        return f"{expires}.{_signature(self._keys[0], job, path, query, expires)}"

    def opens(self, request: web.Request, job: Job, link: str, now: float) -> bool:
        """Whether `link` was signed for this very request on this job, and still holds."""
        match = FORM.fullmatch(link)
        if match is None or int(match[1]) < now:
            return False
        query = [(name, value) for name, value in request.query.items() if name != LINK]
        signatures = [_signature(key, job, request.path, query, int(match[1])) for key in self._keys]
        return any(hmac.compare_digest(one, match[2]) for one in signatures)


LINKS: Final = web.AppKey("links", Links)


def _signature(key: bytes, job: Job, path: str, query: list[tuple[str, str]], expires: int) -> str:
    signed = "\n".join((job.uid, quote(path), urlencode(sorted(query)), str(expires)))
    digest = hmac.digest(key, signed.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def is_linkable(request: web.Request) -> bool:
    resource = request.match_info.route.resource
    return resource is not None and resource.canonical in LINKABLE


class LinkRequest(Body):
    """What a link is to lead to; `path` is a member of the package, for `file`."""

    target: Target
    path: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None
    frame: Whole | None = Field(None, ge=1, le=FRAMES_MAX)
    seconds: Whole = Field(300, ge=1, description="How long it holds; the service has its own limit.")

    @model_validator(mode="after")
    def _path_of_a_file(self) -> Self:
        if (self.path is not None) != (self.target == "file"):
            raise ValueError("path is given for a file, and only for one")
        return self


class LinkView(View):
    """An address that needs no key until it expires."""

    link: str
    expires_at: Time


def signed(links: Links, job: Job, wanted: LinkRequest, expires: int) -> str:
    """The address, below the service's own."""
    rest = f"files/{wanted.path}" if wanted.target == "file" else wanted.target
    path = f"{job_path(job.id)}/{rest}"
    query = [("frame", str(wanted.frame))] if wanted.frame is not None else []
    return f"{quote(path)}?{urlencode([*query, (LINK, links.sign(job, path, query, expires))])}"
