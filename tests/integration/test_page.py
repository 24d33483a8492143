"""The page as the API serves it: its files, their caching, and what a browser is told not to do."""

from __future__ import annotations

import re

import pytest

from aioanalysis.api.page import FOLDER, INDEX, PRELOAD, SCRIPTS, TYPES, assets
from tests.support.apiserver import Api

IMPORT = re.compile(r'(?:from|import) "(\.[^"]+)"')


async def test_every_file_of_the_page_is_served_with_its_type_and_a_strict_policy(api: Api) -> None:
    files = {name: (FOLDER / name).read_bytes() for name in assets()}
    modules = re.findall(r'<link rel="modulepreload" href="page/([^"]+)">', assets()[INDEX].body.decode())
    assert set(modules) == {name for name in files if name.endswith(".js")} - SCRIPTS
    links = "".join(f'<link rel="modulepreload" href="page/{name}">' for name in modules)
    files[INDEX] = files[INDEX].replace(PRELOAD, links.encode())
    for name, asset in assets().items():
        reply = await api.get(f"/page/{name}", by=None)
        assert reply.status == 200
        assert reply.body == files[name]
        assert reply.headers["Content-Type"] == asset.media_type
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert (await api.get("/", by=None)).body == files[INDEX]


async def test_a_file_that_has_not_changed_is_not_sent_again(api: Api) -> None:
    first = await api.get("/page/app.js", by=None)
    again = await api.get("/page/app.js", by=None, headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    other = await api.get("/page/app.js", by=None, headers={"If-None-Match": '"another"'})
    assert other.status == 200


@pytest.mark.parametrize(
    "path", ["/page/nothing.js", "/page/..%2fapi%2fpage.py", "/page/%2e%2e/errors.py", "/page//etc/passwd"]
)
async def test_nothing_but_the_pages_files_is_served(api: Api, path: str) -> None:
    assert (await api.get(path, by=None)).status == 404


def test_the_page_asks_for_nothing_outside_and_has_no_inline_script() -> None:
    for name in assets():
        text = (FOLDER / name).read_text()
        for match in IMPORT.finditer(text):
            target = (FOLDER / name).parent / match[1]
            assert target.is_file(), f"{name} imports {match[1]}"
        if not name.startswith("vendor/"):
            outside = set(re.findall(r"https?://[^\s\"'`)]+", text)) - {"http://www.w3.org/2000/svg"}
            assert not outside, name
    index = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script>|<style|style=| on\w+=", index)


def test_every_file_of_the_page_is_of_a_type_that_is_served() -> None:
    assert {path.suffix for path in FOLDER.rglob("*") if path.is_file()} <= TYPES.keys()
