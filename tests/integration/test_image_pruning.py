"""Pruning of methods' images, on the real engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiodocker.exceptions import DockerError

from aioanalysis.errors import MethodFailure
from aioanalysis.methods import load_method
from aioanalysis.runtime import pruning
from aioanalysis.runtime.engine import Engine, open_engine
from aioanalysis.runtime.images import Images, image_tag
from aioanalysis.runtime.pruning import UNFINISHED, Leaves, Pruner, own_images
from tests.support.runs import DOCKERFILE, remove_images, write_method

FILL = "RUN head -c 2000000 /dev/urandom > /fill\n"


@pytest.fixture
async def engine(docker_engine: str) -> AsyncIterator[Engine]:
    async with open_engine(docker_engine) as engine:
        yield engine


class OnlyOurs(Engine):
    """An engine that shows the images of one test only: others work on the same engine."""

    def __init__(self, engine: Engine, title: str) -> None:
        super().__init__(engine._docker)
        self._title = title

    async def call(self, method: str, path: str, **options):  # type: ignore[no-untyped-def]
        answer = await super().call(method, path, **options)
        if (method, path) != ("GET", "images/json"):
            return answer
        ours = [i for i in answer if self._is_ours(i)]
        bases = {(i.get("Labels") or {}).get("aioanalysis.base") for i in ours}
        return ours + [i for i in answer if i["Id"] in bases]

    def _is_ours(self, image: dict[str, Any]) -> bool:
        return bool((image.get("Labels") or {}).get("aioanalysis.title") == self._title)


class OnlyThese(OnlyOurs):
    """An engine that shows these images only."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, "")
        self.shown: list[str] = []

    def _is_ours(self, image: dict[str, Any]) -> bool:
        return image["Id"] in self.shown


async def test_images_beyond_the_limit_go_longest_unused_first_and_never_one_in_use(
    engine: Engine, base_image: str, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(pruning, "TOUCH_SECONDS", 0.0)
    ours = OnlyOurs(engine, unique)
    images = Images(ours, base_image=base_image, network="none", max_bytes=1 << 40)
    ids = []
    container = None
    try:
        for number in range(4):
            write_method(tmp_path, unique, {1: f"print({number})\n"}, dockerfile=DOCKERFILE + FILL)
            directory = await load_method(tmp_path, unique, base_image=base_image)
            ids.append((await images.build(directory)).id)
            if number == 1:
                second = image_tag(directory)
        created = await engine.call("POST", "containers/create", body={"Image": ids[0]})
        container = created["Id"]
        await Pruner(ours, 1 << 40).touch(ids[1], second)  # used again: the third is now the oldest
        sizes = {image.id: image.size for image in own_images(await ours.call("GET", "images/json"))}
        assert all(2_000_000 <= sizes[one] < 3_000_000 for one in ids)
        assert await Pruner(ours, 1 << 40).prune() == []
        assert await Pruner(ours, 3 * max(sizes.values())).prune() == [ids[2]]
        assert await Pruner(ours, 1).prune() == [ids[3], ids[1]]
        assert [i.id for i in own_images(await ours.call("GET", "images/json"))] == [ids[0]]
        assert await engine.find(f"images/{base_image}/json") is not None
    finally:
        if container:
            await engine.call("DELETE", f"containers/{container}", params={"force": "1"})
        await remove_images(engine, unique)


async def test_an_image_that_lost_its_name_goes_and_a_recent_one_stays_whatever_the_limit(
    engine: Engine, base_image: str, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = OnlyOurs(engine, unique)
    images = Images(ours, base_image=base_image, network="none", max_bytes=1)
    try:
        write_method(tmp_path, unique)
        directory = await load_method(tmp_path, unique, base_image=base_image)
        built = await images.build(directory)
        assert (await images.build(directory)).id == built.id  # one byte is too little, but it is in use
        tag = image_tag(directory)
        repository, _, name = tag.rpartition(":")
        await engine.call("POST", f"images/{base_image}/tag", params={"repo": repository, "tag": name})
        assert await Pruner(ours, 1 << 40).prune() == []
        monkeypatch.setattr(pruning, "RECENT_SECONDS", -1.0)
        assert await Pruner(ours, 1 << 40).prune() == [built.id]
        await engine.call("DELETE", f"images/{tag}")
    finally:
        await remove_images(engine, unique)


STAGES = """\
ARG BASE_IMAGE
FROM $BASE_IMAGE AS first
RUN echo {name} > /first
FROM $BASE_IMAGE
RUN echo {name} > /second
RUN false
"""


async def test_what_a_failed_build_left_serves_the_next_and_goes_after_a_day_or_for_want_of_room(
    engine: Engine, base_image: str, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    these = OnlyThese(engine)
    images = Images(these, base_image=base_image, network="none", max_bytes=1 << 40)
    write_method(tmp_path, unique, dockerfile=STAGES.format(name=unique))
    directory = await load_method(tmp_path, unique, base_image=base_image)
    with pytest.raises(MethodFailure):
        await images.build(directory)
    left = await unfinished(engine, unique)
    assert len(left) == 2  # one a stage
    with pytest.raises(MethodFailure) as failure:
        await images.build(directory)
    assert failure.value.output.count("Using cache") == 2
    assert await unfinished(engine, unique) == left
    these.shown = sorted(left)
    assert {image.unfinished for image in own_images(await these.call("GET", "images/json"))} == {True}
    assert await Pruner(these, 1 << 40).prune() == []
    monkeypatch.setattr(pruning, "UNFINISHED_SECONDS", -1.0)
    assert await Pruner(these, 1 << 40).prune() == []  # it may be built upon at this moment
    monkeypatch.setattr(pruning, "RECENT_SECONDS", -1.0)
    assert set(await Pruner(these, 1 << 40).prune()) == left
    assert await unfinished(engine, unique) == set()
    assert await engine.find(f"images/{base_image}/json") is not None


async def unfinished(engine: Engine, name: str) -> set[str]:
    """Those whose last step names `name`: others build on the same engine."""
    found = set()
    for image in await engine.call("GET", "images/json"):
        if any(tag.startswith(UNFINISHED) for tag in image.get("RepoTags") or []):
            with suppress(DockerError):  # pruned meanwhile
                history = await engine.call("GET", f"images/{image['Id']}/history")
                if name in history[0]["CreatedBy"]:
                    found.add(image["Id"])
    return found


def test_leaves_are_what_each_stage_ended_with_and_never_a_base_image() -> None:
    leaves = Leaves()
    assert leaves.found() == []
    for text in (
        *("Step 1/5 : FROM base AS first", "\n", " ---> 0123456789ab\n", "Step 2/5 : RUN x"),
        *(
            " ---> Running in 111111111111\n",
            " ---> aaaaaaaaaaaa\n",
            "Step 3/5 : FROM base",
            " ---> 0123456789ab\n",
        ),
    ):
        leaves.read(text)
    assert leaves.found() == ["aaaaaaaaaaaa"]
    for text in (
        "Step 4/5 : RUN y",
        " ---> Using cache\n",
        " ---> bbbbbbbbbbbb\n",
        "Step 5/5 : RUN false",
        "cut",
    ):
        leaves.read(text)
    assert leaves.found() == ["aaaaaaaaaaaa", "bbbbbbbbbbbb"]
