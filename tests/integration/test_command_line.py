"""The command line as processes, with pipes and in terminals, against the API over a real Redis."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from aioanalysis.api.events import HUB
from aioanalysis.domain.exchange import Container, attempt_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from tests.support.apiserver import Api, make_zip
from tests.support.faultproxy import FaultProxy
from tests.support.terminal import Ended, Terminal, command, terminal
from tests.support.waiting import eventually

PACKAGE = make_zip(
    {
        "analysis_report.html": b"<h1>report</h1>",
        "tables/summary.tsv": b"a\tb\n1\t2\n",
        "noise": random.Random(2).randbytes(4_000_000),
    }
)
SHA256 = hashlib.sha256(PACKAGE).hexdigest()


@dataclass(kw_only=True)
class Shell:
    """A user's shell in an empty folder of its own, signed in as ann by the environment."""

    api: Api
    folder: Path
    settings: dict[str, str]

    async def run(self, *words: str, typed: bytes | None = None, **settings: str) -> Ended:
        ended = await command(*words, settings={**self.settings, **settings}, folder=self.folder, typed=typed)
        assert "Traceback" not in ended.err + ended.out
        assert self.api.keys["ann"] not in ended.err + ended.out
        return ended

    def terminal(
        self, *words: str, columns: int = 80, **settings: str
    ) -> AbstractAsyncContextManager[Terminal]:
        return terminal(*words, settings={**self.settings, **settings}, folder=self.folder, columns=columns)


@pytest.fixture
def shell(api: Api, tmp_path: Path) -> Shell:
    folder = tmp_path / "home"
    folder.mkdir()
    settings = {
        "AIOANALYSIS_SERVER": api.url,
        "AIOANALYSIS_KEY": api.keys["ann"],
        "XDG_CONFIG_HOME": str(folder / "config"),
    }
    return Shell(api=api, folder=folder, settings=settings)


async def failed_job(api: Api) -> Job:
    text = "the record store refuses them, for a reason that takes many words to tell to the end"
    error = JobError(reason=Reason.RECORDS, message=text)
    return await api.add_job(state=State.FAILED, error=error)


# --- results ---


async def test_results_reports_and_files_are_saved(api: Api, shell: Shell) -> None:
    job = await api.complete_job(PACKAGE)
    saved = await shell.run("result", job.id, "--json")
    assert json.loads(saved.out) == {
        "path": f"{job.title}.{job.id}.zip",
        "size": len(PACKAGE),
        "sha256": SHA256,
        "verified": True,
        "resumed_at": 0,
    }
    assert (shell.folder / f"{job.title}.{job.id}.zip").read_bytes() == PACKAGE
    (shell.folder / "out").mkdir()
    report = await shell.run("report", job.id, "-o", "out")
    assert report.out.strip() == f"out/{job.title}.{job.id}.html"
    assert (shell.folder / report.out.strip()).read_text() == "<h1>report</h1>"
    listed = await shell.run("files", job.id)
    assert [line.split()[0] for line in listed.out.splitlines()[1:]] == [
        "analysis_report.html",
        "tables/summary.tsv",
        "noise",
    ]
    assert (await shell.run("files", job.id, "tables/summary.tsv", "-o", "-")).out == "a\tb\n1\t2\n"
    assert (await shell.run("files", job.id, "tables/summary.tsv")).code == 0
    assert (shell.folder / "summary.tsv").read_text() == "a\tb\n1\t2\n"


async def test_the_package_of_an_earlier_attempt_is_saved(api: Api, shell: Shell) -> None:
    job = await api.add_job(state=State.RUNNING, attempt=2)
    name = attempt_name(f"{job.title}.{job.id}", 1, ".failed.zip")
    await api.storage.write(Container.RESULTS, name, PACKAGE, metadata={"uid": job.uid, "attempt": "1"})
    assert (await shell.run("result", job.id, "--attempt", "1")).code == 0
    assert (shell.folder / name.rpartition("/")[2]).read_bytes() == PACKAGE
    missing = await shell.run("result", job.id, "--attempt", "7")
    assert (missing.code, "no package of attempt 7 was kept" in missing.err) == (1, True)


async def test_a_link_needs_no_key(api: Api, shell: Shell) -> None:
    job = await api.complete_job(PACKAGE)
    file = (await shell.run("link", job.id, "tables/summary.tsv")).out.strip()
    report = json.loads((await shell.run("link", job.id, "--to", "report", "--seconds", "60", "--json")).out)
    for address, body in ((file, b"a\tb\n1\t2\n"), (report["link"], b"<h1>report</h1>")):
        reply = await api.get(address.removeprefix(api.url), by=None)
        assert (reply.status, reply.body) == (200, body)


async def test_an_administrator_sees_figures_and_orphans(api: Api, shell: Shell) -> None:
    job = await failed_job(api)
    await api.storage.write(Container.RESULTS, "stranger", b"x")
    root = {"AIOANALYSIS_KEY": api.keys["root"]}
    told = (await shell.run("statistics", **root)).out
    assert told.splitlines()[0] == "jobs     1: 1 failed"
    assert {job.title, "records", job.submitter} <= set(told.split())
    assert json.loads((await shell.run("statistics", "--json", **root)).out)["jobs"] == 1
    assert (await shell.run("orphans", **root)).code == 0
    assert (await shell.run("orphans", "--sweep", **root)).out == "removed  0 files, 0 bytes\n"
    assert (await shell.run("orphans", "--reason", "expired", **root)).code == 2
    refused = await shell.run("statistics")
    assert (refused.code, "administrators" in refused.err) == (1, True)


async def test_a_download_stopped_by_ctrl_c_goes_on_with_the_same_command(api: Api, shell: Shell) -> None:
    job = await api.complete_job(PACKAGE)
    target = shell.folder / "r.zip"

    def part() -> int:
        return sum(path.stat().st_size for path in shell.folder.glob("r.zip.*.part"))

    async with FaultProxy((api.host, api.port), "http") as proxy:
        through = {"AIOANALYSIS_SERVER": f"http://127.0.0.1:{proxy.port}"}
        cut = proxy.cut_reply("^GET .*/result", after=2_500_000)
        proxy.black_hole("^GET .*/result")
        async with shell.terminal("result", job.id, "-o", "r.zip", **through) as running:
            await eventually(lambda: sum("/result" in line for line in proxy.requests) == 2, within=30)
            assert cut.hits == 1
            assert "trying" in running.text
            running.type(b"\x03")
            assert await running.end() == 130
            assert "goes on with it" in running.text
            assert "Traceback" not in running.text
        assert not target.exists()
        came = part()
        assert came > 0
        await proxy.heal()
        ended = await shell.run("result", job.id, "-o", "r.zip", **through)
    assert (ended.code, f"went on at {came}" in ended.out, "verified" in ended.out) == (0, True, True)
    assert target.read_bytes() == PACKAGE
    assert part() == 0


async def test_a_wrong_checksum_is_refused_in_one_line(api: Api, shell: Shell) -> None:
    job = await api.add_job(state=State.COMPLETE)
    await api.add_result(job, PACKAGE, sha256="0" * 64)
    ended = await shell.run("result", job.id, "-o", "r.zip")
    assert (ended.code, len(ended.err.splitlines()), "checksum" in ended.err) == (1, 1, True)
    assert list(shell.folder.iterdir()) == []


# --- tables and live views ---


@pytest.mark.parametrize("columns", [30, 60, 100])
async def test_the_table_of_jobs_fits_the_terminal(api: Api, shell: Shell, columns: int) -> None:
    jobs = [await failed_job(api) for _ in range(3)]
    async with shell.terminal("jobs", columns=columns) as running:
        assert await running.end() == 0
    lines = running.text.rstrip().splitlines()
    assert [line.split()[0] for line in lines] == ["id", *(job.id for job in reversed(jobs))]
    assert max(len(line) for line in lines) <= columns
    assert ("records: the" in running.text) == (columns > 50)


async def test_live_views_follow_the_jobs_until_ctrl_c(api: Api, shell: Shell) -> None:
    async with (
        shell.terminal("jobs", "--watch") as watching,
        shell.terminal("top") as top,
        shell.terminal("jobs", "--watch", "--json") as lines,
    ):
        for view in (watching, top):
            await eventually(lambda view=view: "state" in view.text, within=30)  # type: ignore[misc]
        await eventually(lambda: api.app[HUB].listeners == 3, within=30)
        made = await api.call("POST", "/v1/jobs", json={"title": "slow", "recordset": "DS-ONE"})
        job = made.json()["id"]
        for view in (watching, top, lines):
            await eventually(lambda view=view: job in view.text, within=30)  # type: ignore[misc]
            view.type(b"\x03")
            assert await view.end() == 130
            assert "aioanalysis: stopped" in view.text
            assert "Traceback" not in view.text
    assert '"kind": "created"' in lines.text


async def test_waiting_for_a_job_is_stopped_by_ctrl_c_and_the_job_goes_on(api: Api, shell: Shell) -> None:
    async with shell.terminal("submit", "slow", "--recordset", "DS-ONE", "--hold", "--wait") as running:
        await eventually(lambda: "blocked" in running.text, within=30)
        running.type(b"\x03")
        assert await running.end() == 130
    [job] = (await api.get("/v1/jobs")).json()["jobs"]
    assert f"the job goes on: aioanalysis watch {job['id']}" in running.text
    assert "Traceback" not in running.text


# --- what goes wrong ---


async def test_errors_are_one_line_and_the_exit_code_says_whose_they_are(api: Api, shell: Shell) -> None:
    job = await failed_job(api)
    nobody = {"AIOANALYSIS_SERVER": "http://127.0.0.1:1"}
    tries: list[tuple[int, str, Ended]] = [
        (1, "aioanalysis jobs", await shell.run("show", "nothere1")),
        (1, "aioanalysis methods list", await shell.run("methods", "show", "nothere")),
        (1, "of one job\n", await shell.run("action", "nothere", job.id)),
        (1, "failed has no result", await shell.run("result", job.id)),
        (1, "aioanalysis login", await shell.run("jobs", AIOANALYSIS_KEY="wrong")),
        (1, "records: the record store", await shell.run("watch", job.id)),
        (2, "did you mean slow?", await shell.run("submit", "slwo", "--recordset", "DS-ONE", "-p", "a=1")),
        (2, "No such option", await shell.run("jobs", "--no-such-option")),
        (2, "needs a terminal", await shell.run("top")),
        (2, "no folder", await shell.run("result", job.id, "-o", "no/such/folder.zip")),
        (2, "aioanalysis login", await shell.run("jobs", AIOANALYSIS_SERVER="", AIOANALYSIS_KEY="")),
        (3, "cannot be reached: Connection refused", await shell.run("rm", job.id, **nobody)),
    ]
    for code, says, ended in tries:
        said = ended.err or ended.out
        assert (ended.code, says in said) == (code, True), ended
        assert len(ended.err.splitlines()) <= 1, ended


async def test_serve_says_which_part_it_misses_and_what_helps(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "methods").mkdir()
    settings = {
        "AIOANALYSIS_REDIS_URL": "redis://127.0.0.1:1/0",
        "AIOANALYSIS_JOB_KEY_SECRET": Fernet.generate_key().decode(),
        "AIOANALYSIS_STORAGE_DIRECTORY": str(tmp_path / "storage"),
        "AIOANALYSIS_SYSTEM_TOKEN": "s" * 40,
        "AIOANALYSIS_METHODS_DIR": str(tmp_path / "methods"),
    }
    ended = await shell.run("serve", "--port", "0", **settings)
    assert ended.code == 3
    said = ended.err.splitlines()[-1]
    assert said.startswith("aioanalysis: the job store cannot be used now")
    assert said.endswith("`aioanalysis doctor` says how to mend it")


async def test_what_is_no_service_of_ours_is_named(shell: Shell) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\n<hi/>")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended = await shell.run("jobs", AIOANALYSIS_SERVER=address)
    assert (ended.code, len(ended.err.splitlines())) == (1, 1)
    assert "does not answer as this service does" in ended.err


async def test_a_service_whose_parts_are_away_is_told_by_the_exit_code(shell: Shell) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        problem = b'{"status": 503, "detail": "The job store cannot be used now."}'
        writer.write(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(problem), problem)
        )
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended = await shell.run("jobs", AIOANALYSIS_SERVER=address)
    assert (ended.code, ended.err) == (3, "aioanalysis: The job store cannot be used now\n")


# --- profiles ---


async def test_a_user_signs_in_works_and_signs_out(api: Api, shell: Shell) -> None:
    nothing = {"AIOANALYSIS_SERVER": "", "AIOANALYSIS_KEY": ""}
    refused = await shell.run("login", api.url, typed=b"wrong\n", **nothing)
    assert (refused.code, "Nobody holds this key" in refused.err) == (1, True)
    async with shell.terminal("login", api.url, "--name", "lab", **nothing) as running:
        await eventually(lambda: "key:" in running.text, within=30)
        running.type(api.keys["ann"].encode() + b"\n")
        assert await running.end() == 0
    assert f"signed in to {api.url} as ann (user); profile lab" in running.text
    assert api.keys["ann"] not in running.text
    file = shell.folder / "config" / "aioanalysis" / "profiles.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert (await shell.run("jobs", "--json", **nothing)).out == "[]\n"
    told = json.loads((await shell.run("profiles", "--json", **nothing)).out)
    assert told == {
        "current": "lab",
        "profiles": {"lab": api.url},
        "in_use": {"server": api.url, "by": "the profile lab"},
    }
    assert (await shell.run("logout", **nothing)).code == 0
    assert api.keys["ann"] not in file.read_text()
    assert (await shell.run("jobs", **nothing)).code == 2


async def test_a_shell_completes_commands_methods_and_jobs(api: Api, shell: Shell) -> None:
    job = await failed_job(api)

    async def offered(line: str) -> list[str]:
        ended = await shell.run(
            _AIOANALYSIS_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(line.split(" ")) - 1)
        )
        return ended.out.split()

    assert await offered("aioanalysis lo") == ["log", "login", "logout"]
    assert await offered("aioanalysis submit sl") == ["slow"]
    assert job.id in await offered("aioanalysis show ")
    assert await offered("aioanalysis action k") == ["kill"]
