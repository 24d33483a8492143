"""Images of methods: one a build context, tagged by its digest, built only when it is not there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any, Final

from aiodocker.exceptions import DockerError
from aiohttp import ClientResponse

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.buildcontext import build_context
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import MethodFailure, Unavailable
from aioanalysis.interfaces import Image, MethodDirectory
from aioanalysis.methods import load_method
from aioanalysis.runtime.context import ContextChanged, ContextStream
from aioanalysis.runtime.engine import ENDLESS, Engine
from aioanalysis.runtime.pruning import BASE_LABEL, KIND_LABEL, METHOD, Leaves, Pruner

DIGEST_LABEL: Final = "aioanalysis.digest"
OUTPUT_BYTES: Final = 64 * 1024
BUILD_SECONDS: Final = 3600.0
ROUNDS: Final = 3  # for a directory that changes while it is built

log = logs.get()


def image_tag(directory: MethodDirectory) -> str:
    """The tag of this very content: a rebuild that fails can never leave an older image under it."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.method.title.lower()).strip("-")
    return f"aioanalysis/{name}:{directory.digest[:32]}"


class Images:
    """Finds or builds images. `network` is what a build's RUN steps get (None: the engine's default).

    After a build, images beyond `max_bytes` are pruned. Dockerfiles are trusted code: their steps run as
    root, with that network and without a run's limits.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        base_image: str | None = None,
        network: str | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._engine = engine
        self._pruner = Pruner(engine, max_bytes)
        self._base_image = base_image
        self._network = network
        self._builds: dict[str, _SharedBuild] = {}

    async def build(self, directory: MethodDirectory) -> Image:
        """As `Runtime.build`. A directory that changes meanwhile is built as what it has become."""
        for _ in range(ROUNDS):
            image = await self._present(directory)
            if image is not None:
                await self._pruner.touch(image.id, image_tag(directory))
                return image
            try:
                return await self._build_once(directory)
            except ContextChanged:
                title = directory.method.title
                directory = await load_method(directory.path.parent, title, base_image=self._base_image)
        raise MethodFailure(Reason.METHOD, f"Method {title!r} keeps changing; no image can be built of it.")

    async def newest(self, count: int) -> list[str]:
        """The ids of the images of methods that were made last, whichever methods they are."""
        filters = json.dumps({"label": [f"{KIND_LABEL}={METHOD}"]})
        try:
            found = await self._engine.call("GET", "images/json", params={"filters": filters})
        except DockerError as error:
            raise Unavailable(f"The engine does not list its images: {error.message}") from error
        made = sorted(found or [], key=lambda image: int(image["Created"]), reverse=True)
        return [str(image["Id"]) for image in made[:count]]

    async def _build_once(self, directory: MethodDirectory) -> Image:
        shared = self._builds.get(directory.digest)
        if shared is None or shared.given_up:
            shared = self._builds[directory.digest] = _SharedBuild(self._make(directory), directory.digest)
        try:
            return await shared.result()
        finally:
            if shared.given_up and self._builds.get(directory.digest) is shared:
                del self._builds[directory.digest]

    async def _present(self, directory: MethodDirectory) -> Image | None:
        """The image of this digest, if it is on the present base image; None when one is to be built."""
        image, base = await asyncio.gather(self._built(directory), self._base())
        return None if image and image.base and base is not None and base != image.base else image

    async def _built(self, directory: MethodDirectory) -> Image | None:
        """The image of this digest, on whatever base image; None when there is none."""
        facts = await self._engine.find(f"images/{image_tag(directory)}/json")
        labels = ((facts or {}).get("Config") or {}).get("Labels") or {}
        if facts is None or labels.get(DIGEST_LABEL) != directory.digest:
            return None
        return Image(id=facts["Id"], digest=directory.digest, base=labels.get(BASE_LABEL) or None)

    async def _base(self) -> str | None:
        """The id of BASE_IMAGE; None when that is not set, or not here (the build then fetches it)."""
        if self._base_image is None:
            return None
        facts = await self._engine.find(f"images/{self._base_image}/json")
        return str(facts["Id"]) if facts else None

    async def _make(self, directory: MethodDirectory) -> Image:
        title = directory.method.title
        members = await in_thread(build_context, directory.path)
        context = ContextStream(members, digest=directory.digest, base_image=self._base_image)
        output, leaves = bytearray(), Leaves()
        log.info("image_build", method=title, digest=directory.digest)
        try:
            async with asyncio.timeout(BUILD_SECONDS):
                error = await self._send(directory, context, output, leaves)
        except TimeoutError:
            error = f"it was not done within {BUILD_SECONDS:g} s"
        except DockerError as refusal:
            error = refusal.message
        except Unavailable as fault:
            if context.changed:
                raise ContextChanged(title) from None
            error = _dockerfile_fault(fault)
            if error is None:
                raise
        await self._pruner.keep(leaves.found())
        if error is not None:
            await self._pruner.prune()
            log.warning("image_failed", method=title, digest=directory.digest, error=error)
            text = f"The image of method {title!r} does not build: {error}"
            raise MethodFailure(Reason.IMAGE, text, _plain(output))
        image = await self._built(directory)  # the base image may have changed meanwhile: next time
        if image is None:
            log.warning("image_broken_off", method=title, digest=directory.digest)
            raise Unavailable(f"The Docker engine broke off the build of method {title!r}.")
        log.info("image_built", method=title, digest=directory.digest, image=image.id)
        await self._pruner.prune()
        return replace(image, built=True)

    async def _send(
        self, directory: MethodDirectory, context: ContextStream, output: bytearray, leaves: Leaves
    ) -> str | None:
        """Build; the engine's words if it failed. The end of what the build prints is left in `output`."""
        labels = {
            KIND_LABEL: METHOD,
            "aioanalysis.title": directory.method.title,
            DIGEST_LABEL: directory.digest,
            BASE_LABEL: await self._base() or "",
        }
        params = {"t": image_tag(directory), "rm": "1", "forcerm": "1", "labels": json.dumps(labels)}
        if self._base_image is not None:
            params["buildargs"] = json.dumps({"BASE_IMAGE": self._base_image})
        if self._network is not None:
            params["networkmode"] = self._network
        error: str | None = None
        async with self._engine.request(
            "POST",
            "build",
            params=params,
            body=context.chunks(),
            headers={"Content-Type": "application/x-tar"},
            patience=ENDLESS,
        ) as response:
            async for said in _messages(response):
                text = said.get("stream") or said.get("error") or ""
                output += str(text).encode("utf-8", "replace")
                leaves.read(str(text))
                if len(output) > 4 * OUTPUT_BYTES:
                    del output[:-OUTPUT_BYTES]
                if "error" in said:
                    error = str(said["error"])
        return error


class _SharedBuild:
    """One build that several wait for; it is given up when none does any more."""

    def __init__(self, work: Coroutine[Any, Any, Image], digest: str) -> None:
        self._task = asyncio.create_task(work, name=f"build {digest[:12]}")
        self._waiting = 0
        self.given_up = False

    async def result(self) -> Image:
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.given_up = True
                self._task.cancel()


async def _messages(response: ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON lines of a build's answer, whatever their length; what is none is passed over."""
    rest = b""
    async for piece in response.content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if isinstance(message, dict):
                yield message


def _plain(output: bytearray) -> str:
    """The end of a build's output, without the colours that the engine gives to standard error."""
    return re.sub(r"\x1b\[[0-9;]*m", "", output[-OUTPUT_BYTES:].decode("utf-8", "replace"))


def _dockerfile_fault(fault: Unavailable) -> str | None:
    """What is wrong with the Dockerfile, where the engine calls that an error of its own (5xx)."""
    cause = fault.__cause__
    if isinstance(cause, DockerError) and cause.status == 500 and "dockerfile" in cause.message.lower():
        return cause.message
    return None
