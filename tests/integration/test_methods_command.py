"""`aioanalysis methods`: what methods/README.md says is what happens."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from aioanalysis.settings import PREFIX

README = Path(__file__).parents[2] / "methods" / "README.md"
TEST = ("methods", "test", "mine", "--runtime", "process")


class Shell:
    """The command in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        ours = {f"{PREFIX}{name.upper()}": value for name, value in settings.items()}
        clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        command = [sys.executable, "-m", "aioanalysis", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env={**clean, **ours}, capture_output=True, text=True, timeout=120
        )

    def stage(self, number: int) -> Path:
        [script] = (self.folder / "methods/mine/stages").glob(f"{number}_*")
        return script


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = Shell(tmp_path)
    made = shell("methods", "new", "mine", "--label", 'My "first"')
    assert made.returncode == 0, made.stderr
    return shell


def test_what_the_readme_says_works_from_nothing_to_a_report(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(), re.DOTALL)
    lines = [line.split()[1:] for block in blocks for line in block.splitlines()]
    assert len(lines) == 5
    shell = Shell(tmp_path)
    for arguments in lines:
        done = shell(*arguments, runtime="process")
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        found = re.search(r"^report +(/.*analysis_report\.html)$", done.stdout, re.MULTILINE)
        assert bool(found) is ("test" in arguments)
        if found:
            assert "<svg" in Path(found[1]).read_text()
    assert "COI-5P\t4" in (tmp_path / ".aioanalysis/tests/my_method/counts.tsv").read_text()
    assert "Apis mellifera\t2" in (tmp_path / "my_test/counts.tsv").read_text()


def test_a_scaffold_runs_in_a_container_too(docker_engine: str, base_image: str, shell: Shell) -> None:
    done = shell(
        "methods", "test", "mine", "--json",
        runtime="docker", docker_host=docker_engine, base_image=base_image, build_network="none",
    )  # fmt: skip
    body = json.loads(done.stdout)
    assert (body["complete"], body["flaws"], len(body["stages"])) == (True, [], 5)


def test_a_failure_says_its_stage_and_what_it_printed(shell: Shell) -> None:
    shell.stage(3).write_text("raise SystemExit('no two sequences overlap')\n")
    done = shell(*TEST)
    assert done.returncode == 1
    assert "failed, stage: container exited with code 3" in done.stdout
    assert "no two sequences overlap" in done.stdout


@pytest.mark.parametrize(
    ("report", "flaw"),
    [
        ("", "is missing"),
        ("import os; os.symlink('/etc/hosts', 'analysis_report.html')", "no regular file"),
        (
            "open('page', 'w').write('p'); import os; os.symlink('page', 'analysis_report.html')",
            "no regular file",
        ),
        ("import os; os.mkfifo('analysis_report.html')", "no regular file"),
        ("open('analysis_report.html', 'w').write('<script src=\"https://x.org/a.js\">')", "from elsewhere"),
    ],
)
def test_a_report_that_is_missing_no_file_or_needs_a_network_is_a_fault(
    shell: Shell, report: str, flaw: str
) -> None:
    shell.stage(5).write_text(report)
    done = shell(*TEST)
    assert done.returncode == 1
    assert flaw in done.stdout
    assert "report  " not in done.stdout


def test_the_samples_parameters_are_for_the_sample_only(shell: Shell) -> None:
    sample = shell.folder / "methods/mine/sample"
    (sample / "params.json").write_text('{"field": "marker_code"}')
    for records, field in (((), "marker_code"), ((str(sample / "records.jsonl"),), "species")):
        done = shell(*TEST, *records, "--output", "out")
        assert done.returncode == 0, done.stdout
        assert json.loads((shell.folder / "out/params.json").read_text())["field"] == field


def test_check_names_what_is_wrong_in_each_method(shell: Shell) -> None:
    assert shell("methods", "check").stdout == "mine: ok\n"
    shell.stage(2).write_text("def\n")
    (shell.folder / "methods/mine/sample/params.json").write_text('{"top": 0}')
    shell("methods", "new", "other")
    (shell.folder / "methods/other/Dockerfile").unlink()
    done = shell("methods", "check", "--json")
    assert done.returncode == 1
    problems = json.loads(done.stdout)
    assert [text.partition(":")[0] for text in problems["mine"]] == [
        "stages/2_prepare.py",
        "sample/params.json/top",
    ]
    assert "Dockerfile is missing" in problems["other"][0]
    listed = json.loads(shell("methods", "list", "--local", "--json").stdout)
    assert [(method["title"], method["label"]) for method in listed] == [("mine", 'My "first"')]


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (("methods", "new", "a.b"), "cannot be a method's title", 1),
        (("methods", "new", "mine"), "is there already", 1),
        (("methods", "test", "nobody"), "no method 'nobody'", 1),
        ((*TEST, "-p", "fiel=x"), "did you mean field?", 2),
        (("methods", "test", "mine", "absent.jsonl"), "cannot be read", 1),
        ((*TEST, "--output", "methods"), "holds something else", 1),
    ],
)
def test_what_cannot_be_done_is_one_line(
    shell: Shell, arguments: tuple[str, ...], text: str, code: int
) -> None:
    done = shell(*arguments)
    assert done.returncode == code
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (shell.folder / "methods/mine/method.json").exists()
