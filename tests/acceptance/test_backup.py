"""Backup and restore of Redis by the commands of the README: jobs go on from a dump of the running server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment
from tests.support.parts import require
from tests.support.servers import RedisServer
from tests.support.waiting import until

README = Path(__file__).parents[2] / "README.md"
QUICK = {"watch_interval": 0.5, "pass_interval": 2}


class RestoredRedis(RedisServer):
    """Started on a dump alone when `from_dump` is set."""

    from_dump = False

    def options(self) -> list[str]:
        options = super().options()
        if self.from_dump:
            options[options.index("--appendonly") + 1] = "no"
        return options

    def cli(self, *arguments: str) -> str:
        program = shutil.which("redis-cli") or "redis-cli"
        return subprocess.run(
            [program, "-p", str(self.port), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        ).stdout


@pytest.fixture
def own_redis() -> Iterator[RestoredRedis]:
    with RestoredRedis(require("redis-server")) as server:
        yield server


async def test_jobs_go_on_from_a_dump_and_rebuild_finds_those_that_ended_after_it(
    quick: Deployment, own_redis: RestoredRedis
) -> None:
    settings = {**QUICK, "redis_url": own_redis.url}
    api = quick.serve(**settings)
    quick.worker(sample_interval=1)
    dump = quick.folder / "backup.rdb"
    async with quick.client() as client:
        before = await client.wait((await client.submit("noop", recordset="DS-TWO"))["id"], timeout=60)
        held = await client.submit("noop", recordset="DS-TWO", hold=True)
        own_redis.cli("--rdb", str(dump))
        after = await client.wait((await client.submit("noop", recordset="DS-TWO"))["id"], timeout=60)
    api.kill()
    own_redis.kill()
    shutil.rmtree(own_redis.folder / "appendonlydir")

    shutil.copy(dump, own_redis.folder / "dump.rdb")
    own_redis.from_dump = True
    own_redis.start()
    own_redis.cli("config", "set", "appendonly", "yes")
    until(lambda: "aof_rewrite_in_progress:0" in own_redis.cli("info", "persistence"), within=30)
    own_redis.stop()
    own_redis.from_dump = False
    own_redis.start()

    quick.serve("api2", **settings)
    rebuild = quick.run("rebuild", "rebuild", "--json", **settings)
    assert rebuild.process.wait(60) == 0, rebuild.log
    told, _ = json.JSONDecoder().raw_decode(rebuild.log, rebuild.log.index("{\n"))  # its log stands around it
    assert told["made"] == [after["id"]]
    async with quick.client() as client:
        for job in (before, after):
            again = await client.wait(job["id"], timeout=60)
            assert (again["state"], again["submitter"]) == ("complete", "ada")
        assert (await client.job(held["id"]))["state"] == "blocked"
        await client.action(held["id"], "unblock")
        assert (await client.wait(held["id"], timeout=60))["state"] == "complete"


def test_the_readme_has_the_commands_of_this_test() -> None:
    text = README.read_text()
    for command in ("redis-cli --rdb", "redis-cli config set appendonly yes", "aioanalysis rebuild"):
        assert command in text
