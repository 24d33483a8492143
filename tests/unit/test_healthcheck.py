"""The health check: quick, of the standard library, and true."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from aioanalysis import healthcheck


@pytest.fixture
def answering(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(request.param if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield {"AIOANALYSIS_PORT": str(server.server_port), "AIOANALYSIS_HOST": "0.0.0.0"}
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("answering", [200], indirect=True)
def test_an_api_that_answers_is_well(answering: dict[str, str]) -> None:
    assert healthcheck.serve(answering) is None


@pytest.mark.parametrize("answering", [503], indirect=True)
def test_an_api_that_answers_otherwise_is_not(answering: dict[str, str]) -> None:
    assert healthcheck.serve(answering) == "/healthz answers 503"


def test_an_api_that_does_not_answer_is_not_well() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        assert "no answer" in (healthcheck.serve({"AIOANALYSIS_PORT": port}) or "")


def test_a_worker_is_well_while_its_own_sign_of_life_is_fresh(tmp_path: Path) -> None:
    environment = {"AIOANALYSIS_DATA_DIR": str(tmp_path), "AIOANALYSIS_SAMPLE_INTERVAL": "10"}
    assert "no worker" in (healthcheck.worker(environment) or "")
    for name, host in (("w", socket.gethostname()), ("w-2", "another")):
        folder = tmp_path / "worker" / name
        folder.mkdir(parents=True)
        (folder / "alive").write_text(host)
    assert healthcheck.worker(environment) is None
    own = tmp_path / "worker" / "w" / "alive"
    os.utime(own, (own.stat().st_mtime - 60,) * 2)
    assert "60 s ago" in (healthcheck.worker(environment) or "")


@pytest.mark.parametrize(("arguments", "code"), [(["worker"], 1), (["neither"], 2), (["serve", "worker"], 2)])
def test_the_exit_code_tells(tmp_path: Path, arguments: list[str], code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aioanalysis.healthcheck", *arguments],
        env={"AIOANALYSIS_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stdout or done.stderr
