"""Keeps the images of methods within so many bytes: the longest unused go first, none that may be in use."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiodocker.exceptions import DockerError

from aioanalysis import logs
from aioanalysis.errors import Unavailable
from aioanalysis.runtime.engine import Engine, engine_time

KIND_LABEL: Final = "aioanalysis"
METHOD: Final = "method"
BASE_LABEL: Final = "aioanalysis.base"
TOUCH_SECONDS: Final = 300.0
RECENT_SECONDS: Final = 900.0  # above TOUCH_SECONDS: what a worker has just been given is never taken
UNFINISHED: Final = (
    "aioanalysis/unfinished"  # the repository that keeps in sight what builds left without a name
)
UNFINISHED_SECONDS: Final = 86_400.0  # how long that saves the next build the steps which went well

log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnImage:
    """An image of ours. `size` in bytes leaves out its base image, which is not ours to remove.

    `unfinished`: what a stage of a build ended with, of no image that has a name; its size is not known.
    """

    id: str
    size: int
    created: float
    dangling: bool
    unfinished: bool = False


class Leaves:
    """What the stages of a build ended with, read off what the engine prints of it."""

    def __init__(self) -> None:
        self._ended: list[str] = []
        self._last: str | None = None
        self._is_base = False

    def read(self, text: str) -> None:
        if re.match(r"Step \d+/\d+ : FROM ", text):
            self._ended, self._last, self._is_base = self.found(), None, True
        elif match := re.fullmatch(r" ---> ([0-9a-f]{12,64})\n", text):
            self._last, self._is_base = None if self._is_base else match[1], False

    def found(self) -> list[str]:
        """The images' ids, in short; a base image is none of them."""
        return [*self._ended, self._last] if self._last else self._ended


class Pruner:
    """Prunes one engine's images of methods, found by their label; any number of workers may do so at once.

    The time of its last tag says when an image was last used, for all of the engine's workers.
    """

    def __init__(self, engine: Engine, max_bytes: int | None) -> None:
        self._engine = engine
        self._max_bytes = max_bytes
        self._touched: dict[str, float] = {}

    async def touch(self, image: str, tag: str) -> None:
        """Note that an image is being used; at most one call to the engine every five minutes."""
        now = time.monotonic()
        if self._max_bytes is None or now - self._touched.get(image, -TOUCH_SECONDS) < TOUCH_SECONDS:
            return
        repository, _, name = tag.rpartition(":")
        try:
            await self._engine.call("POST", f"images/{image}/tag", params={"repo": repository, "tag": name})
        except (DockerError, Unavailable) as error:
            log.warning("image_not_touched", image=image, error=str(error))
        else:
            self._touched = {one: at for one, at in self._touched.items() if now - at < TOUCH_SECONDS}
            self._touched[image] = now

    async def keep(self, leaves: Sequence[str]) -> None:
        """Give a name to what has none: without one nobody could tell it from what is not ours."""
        for leaf in leaves if self._max_bytes is not None else ():
            try:
                facts = await self._engine.find(f"images/{leaf}/json")
                if facts is not None and not facts.get("RepoTags"):
                    name = {"repo": UNFINISHED, "tag": leaf}
                    await self._engine.call("POST", f"images/{leaf}/tag", params=name)
            except (DockerError, Unavailable) as error:
                log.warning("image_not_kept_in_sight", image=leaf, error=str(error))

    async def prune(self) -> list[str]:
        """Remove what is too much, and what has lost its name; the ids of what has gone. Never raises."""
        try:
            return await self._prune()
        except (DockerError, Unavailable) as error:
            log.warning("images_not_pruned", error=str(error))
            return []

    async def _prune(self) -> list[str]:
        if self._max_bytes is None:
            return []
        images = own_images(await self._engine.call("GET", "images/json") or [])
        excess = sum(image.size for image in images) - self._max_bytes
        if excess <= 0 and not any(image.dangling or image.unfinished for image in images):
            return []
        containers = await self._engine.call("GET", "containers/json", params={"all": "1"})
        in_use = {container.get("ImageID") for container in containers or []}
        ages = {image.id: await self._unused_seconds(image) for image in images if image.id not in in_use}
        idle = [image for image in images if ages.get(image.id, 0.0) > RECENT_SECONDS]
        gone = []
        for image in sorted(idle, key=lambda i: (not i.dangling, not i.unfinished, -ages[i.id])):
            old = image.unfinished and ages[image.id] > UNFINISHED_SECONDS
            if (excess > 0 or image.dangling or old) and await self._remove(image):
                excess -= image.size
                gone.append(image.id)
        return gone

    async def _unused_seconds(self, image: OwnImage) -> float:
        facts = await self._engine.find(f"images/{image.id}/json")
        tagged = engine_time(((facts or {}).get("Metadata") or {}).get("LastTagTime"))
        last = image.created if tagged is None or image.dangling else max(tagged.timestamp(), image.created)
        return time.time() - last

    async def _remove(self, image: OwnImage) -> bool:
        """Without force: the engine refuses what a container or another image has begun to use meanwhile."""
        try:
            await self._engine.call("DELETE", f"images/{image.id}")
        except DockerError as error:
            log.debug("image_kept", image=image.id, error=error.message)
            return error.status == 404
        log.info("image_pruned", image=image.id, bytes=image.size, dangling=image.dangling)
        return True


def own_images(listed: Sequence[Mapping[str, Any]]) -> list[OwnImage]:
    """Those of methods among all of an engine's images."""
    sizes = {str(image["Id"]): int(image.get("Size") or 0) for image in listed}
    found = []
    for image in listed:
        labels, tags = image.get("Labels") or {}, image.get("RepoTags") or []
        unfinished = any(tag.startswith(f"{UNFINISHED}:") for tag in tags)
        if labels.get(KIND_LABEL) != METHOD and not unfinished:
            continue
        base = sizes.get(labels.get(BASE_LABEL, ""), 0)
        found.append(
            OwnImage(
                id=str(image["Id"]),
                size=0 if unfinished else max(0, sizes[str(image["Id"])] - base),
                created=float(image.get("Created") or 0),
                dangling=not [tag for tag in tags if tag != "<none>:<none>"],
                unfinished=unfinished,
            )
        )
    return found
