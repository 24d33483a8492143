"""The list of commands, without what they are made of; their times; and views that are drawn."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
import typer

from aioanalysis.cli.commands import COMMANDS
from aioanalysis.cli.jobs import age, moment
from aioanalysis.cli.lazy import LazyCommand
from aioanalysis.cli.top import Board, bar, draw

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("command", COMMANDS, ids=[str(command.name) for command in COMMANDS])
def test_the_list_says_of_a_command_what_it_says_itself(command: LazyCommand) -> None:
    assert " ".join(command.real.help.split("\n\n")[0].split()) == command.help
    assert command.real.name == command.name


def test_the_help_imports_no_command() -> None:
    code = (
        "import sys; from aioanalysis.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'aiohttp', 'pydantic', 'azure', 'redis', 'jsonschema'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Exit codes: 0 done" in done.stdout


def test_the_client_imports_no_more_than_it_needs() -> None:
    heavy = {"pydantic", "pydantic_settings", "structlog", "azure", "redis", "jsonschema", "aiodocker"}
    code = f"import sys, aioanalysis.cli.session; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("then", "text"),
    [
        ("2026-01-31T11:59:48.000Z", "12s"),
        ("2026-01-31T11:55:00.000Z", "5m"),
        ("2026-01-31T09:00:00.000Z", "3h"),
        ("2026-01-29T11:00:00.000Z", "2d"),
        ("2026-01-31T12:00:03.000Z", "0s"),
    ],
)
def test_an_age_is_one_number_and_its_unit(then: str, text: str) -> None:
    assert age(then, NOW) == text


def test_since_is_a_time_or_so_long_ago() -> None:
    assert moment("2026-01-31T12:00:00+02:00") == "2026-01-31T10:00:00Z"
    ago = datetime.fromisoformat(moment("2h") or "")
    assert 7100 < (datetime.now(UTC) - ago).total_seconds() < 7300
    for wrong in ("yesterday", "2w", "99999999999d"):
        with pytest.raises(typer.BadParameter):
            moment(wrong)


def job(**changes: Any) -> Any:
    return {
        "id": "abcdefgh",
        "title": "distance_summary",
        "state": "running",
        "submitted_at": "2026-01-31T11:55:00.000Z",
        "submitter": "ada",
        "frames": None,
        "error": None,
        "why": None,
        "progress": [],
        **changes,
    }


def told(**changes: Any) -> dict[str, Any]:
    return {
        "frame": None,
        "stage": 3,
        "stages": 5,
        "name": "3_x.py",
        "message": None,
        "fraction": 0.5,
        **changes,
    }


def test_top_shows_what_runs_first_and_how_far_it_is() -> None:
    waiting = job(id="waiting1", state="waiting", why={"text": "2 are ahead"})
    framed = job(
        id="framed11",
        state="failing",
        frames={"total": 4, "by_state": {"complete": 1, "failed": 1, "running": 2}},
    )
    ended = job(id="ended111", state="failed", error={"reason": "stage", "message": "exit 3"})
    board = Board(server="http://lab", unfinished=[waiting, job(), framed], ended=[ended])
    for width in (30, 60, 120):
        assert max(line.cell_len for line in draw(board, {}, width, NOW)) <= width
    text = [line.plain for line in draw(board, {"abcdefgh": told(message="tree")}, 140, NOW)]
    assert text[:2] == ["aioanalysis http://lab", "1 failing  1 running  1 waiting"]
    rows = [row.split() for row in text[4:]]
    assert [row[0] for row in rows] == ["abcdefgh", "framed11", "waiting1", "ended111"]
    assert rows[0][3:] == ["█████░░░░░", "3/5", "5m", "ada", "stage", "3", "of", "5,", "tree"]
    assert rows[1][3:5] == ["█████░░░░░", "2/4"]
    assert "2 are ahead" in text[6]
    assert "stage: exit 3" in text[7]


@pytest.mark.parametrize(
    ("workers", "text"),
    [
        ([], "no worker is alive"),
        (
            [
                {"alive": True, "running": [{}], "slots": 2},
                {"alive": True, "running": [], "slots": None},
                {"alive": False, "running": [{}], "slots": 4},
            ],
            "2 workers, 1 of 2 places taken",
        ),
    ],
)
def test_top_shows_an_administrator_the_workers(workers: Any, text: str) -> None:
    board = Board(server="http://lab", unfinished=[], ended=[], workers=workers)
    assert [line.plain for line in draw(board, {}, 80, NOW)][:3] == [
        "aioanalysis http://lab",
        "nothing to do",
        text,
    ]


def test_a_bar_stays_within_its_ten_cells() -> None:
    assert [bar(part) for part in (-1, 0, 0.5, 1, 2)] == [
        "░" * 10,
        "░" * 10,
        "█████░░░░░",
        "█" * 10,
        "█" * 10,
    ]
