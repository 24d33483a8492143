"""The orchestrator as a child process, over small methods made on the spot."""

import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aioanalysis import orchestrator

SCRIPT = Path(orchestrator.__file__)
DEADLINE = 20.0


class Bench:
    """A job directory and a method directory, and the run of one in the other."""

    def __init__(self, root: Path) -> None:
        self.job, self.method = root / "job", root / "method"
        (self.method / "stages").mkdir(parents=True)
        self.job.mkdir()
        for name in ("params.json", "records.jsonl"):
            (self.job / name).write_text("{}\n", encoding="utf-8")
        for number in range(1, 6):
            self.stage(f"{number}_step.sh", f"echo stage {number}")

    def stage(self, name: str, text: str) -> Path:
        for old in (self.method / "stages").glob(f"{name[0]}_*"):
            old.unlink()
        path = self.method / "stages" / name
        path.write_text(text + "\n", encoding="utf-8")
        return path

    def start(
        self, *, python: tuple[str, ...] = (sys.executable,), **environment: str
    ) -> subprocess.Popen[bytes]:
        variables = {**os.environ, "JOB_DIR": str(self.job), "METHOD_DIR": str(self.method), **environment}
        command = [*python, str(SCRIPT)]
        return subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *, python: tuple[str, ...] = (sys.executable,), **environment: str) -> tuple[int, str]:
        process = self.start(python=python, **environment)
        printed, _ = process.communicate(timeout=DEADLINE)
        return process.returncode, printed.decode(errors="replace")

    def read(self, name: str) -> dict[str, object]:
        value = json.loads((self.job / name).read_text(encoding="utf-8"))
        assert isinstance(value, dict)
        return value

    def error(self) -> dict[str, object]:
        value = self.read("error.json")
        assert set(value) == {"script", "error"}
        return value


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@contextlib.contextmanager
def started(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE)


def test_five_stages_run_in_order_in_the_job_directory(bench: Bench) -> None:
    bench.stage("2_where.py", "import os; print('at', os.getcwd(), os.environ['JOB_DIR'])")
    code, printed = bench.run()
    expected = f"stage 1\nat {bench.job} {bench.job}\nstage 3\nstage 4\nstage 5\n"
    assert (code, printed) == (0, expected)
    assert (bench.job / "job.log").read_text() == expected
    status = bench.read("status.json")
    assert (status["exit_code"], status["reason"]) == (0, "complete")
    names = ["1_step.sh", "2_where.py", "3_step.sh", "4_step.sh", "5_step.sh"]
    stages = status["stages"]
    assert isinstance(stages, list)
    assert [stage["script"] for stage in stages] == names
    assert all(stage["exit_code"] == 0 and stage["max_rss_bytes"] > 0 for stage in stages)
    assert all(stage["started_at"] <= stage["finished_at"] for stage in stages)
    assert not (bench.job / "error.json").exists()


def test_a_relative_pythonpath_is_meant_from_where_the_run_was_started(bench: Bench) -> None:
    bench.stage("1_path.py", "import os; print(os.environ['PYTHONPATH'])")
    assert bench.run(PYTHONPATH=f"some/where{os.pathsep}")[1].startswith(f"{Path.cwd()}/some/where\n")


def test_a_job_directory_holds_nothing_else_afterwards(bench: Bench) -> None:
    bench.run()
    expected = {"params.json", "records.jsonl", "job.log", "progress.json", "status.json"}
    assert {path.name for path in bench.job.iterdir()} == expected


@pytest.mark.parametrize("missing", [["params.json"], ["records.jsonl"], ["params.json", "records.jsonl"]])
def test_an_incomplete_package_exits_with_404_before_any_stage(bench: Bench, missing: list[str]) -> None:
    for name in missing:
        (bench.job / name).unlink()
    code, printed = bench.run()
    assert code == 404 & 0xFF == 148
    assert "stage 1" not in printed
    error = bench.error()
    assert error["script"] is None
    assert all(name in str(error["error"]) for name in missing)
    assert bench.read("status.json")["exit_code"] == 404


def test_an_input_that_is_a_link_or_a_directory_is_missing(bench: Bench) -> None:
    (bench.job / "params.json").unlink()
    (bench.job / "params.json").symlink_to("records.jsonl")
    assert bench.run()[0] == 148
    (bench.job / "params.json").unlink()
    (bench.job / "params.json").mkdir()
    assert bench.run()[0] == 148


@pytest.mark.parametrize("number", [1, 3, 5])
def test_a_failing_stage_ends_the_job_with_its_number(bench: Bench, number: int) -> None:
    bench.stage(f"{number}_bad.sh", "echo to stdout; echo to stderr >&2; exit 77")
    code, printed = bench.run()
    assert code == number
    assert bench.error() == {"script": f"{number}_bad.sh", "error": "to stdout\nto stderr\n"}
    assert f"stage {number + 1}" not in printed
    status = bench.read("status.json")
    assert (status["exit_code"], status["reason"]) == (number, "stage")
    assert isinstance(status["stages"], list)
    assert status["stages"][-1]["exit_code"] == 77


def test_a_silent_failure_says_its_code(bench: Bench) -> None:
    bench.stage("2_bad.sh", "exit 9")
    assert bench.run()[0] == 2
    assert bench.error()["error"] == "exited with code 9 and printed nothing"


def test_a_killed_stage_says_its_signal(bench: Bench) -> None:
    bench.stage("4_bad.sh", "echo so far; kill -9 $$")
    assert bench.run()[0] == 4
    assert bench.error()["error"] == "so far\nkilled by signal 9 (SIGKILL)"


LOUD = """
import os, re, sys
for n in range(40):
    sys.stdout.write("x" * (1 << 20))
print("end", flush=True)
with open(f"/proc/{os.getppid()}/status") as status, open("peak", "w") as peak:  # the orchestrator's, in KiB
    peak.write(re.search(r"VmHWM:\\s+(\\d+)", status.read())[1])
sys.exit(1)
"""


def test_only_the_last_mebibyte_is_kept_and_memory_stays_flat(bench: Bench) -> None:
    bench.stage("3_loud.py", LOUD)
    code, printed = bench.run()
    assert code == 3
    text = str(bench.error()["error"])
    assert len(text) == 1 << 20
    assert text.endswith("xend\n")
    assert (bench.job / "job.log").stat().st_size > 40 << 20
    assert len(printed) < (1 << 20) + 1000
    assert int((bench.job / "peak").read_text()) < 60 << 10


def test_output_that_is_no_utf8_is_told_all_the_same(bench: Bench) -> None:
    bench.stage("1_bytes.py", "import os, sys; os.write(1, b'caf\\xe9 \\x00\\n'); sys.exit(1)")
    assert bench.run()[0] == 1
    assert bench.error()["error"] == "caf� \x00\n"


def test_a_reader_that_stops_reading_stops_nothing(bench: Bench) -> None:
    bench.stage("1_loud.py", "print('x' * 500_000)")
    with started(bench.start()) as process:
        assert process.wait(timeout=DEADLINE) == 0  # our end of the pipe is never read


@pytest.mark.parametrize("way", ["sleep 300 &", "setsid sleep 300 &", "(setsid sh -c 'sleep 300' &)"])
def test_background_children_do_not_outlive_their_stage(bench: Bench, way: str) -> None:
    marker = f"{300 + os.getpid() / 1e6:f}"
    bench.stage("2_leaves.sh", way.replace("300", marker))
    began = time.monotonic()
    assert bench.run()[0] == 0
    assert time.monotonic() - began < 5
    running = [p for p in Path("/proc").glob("[0-9]*/cmdline") if marker.encode() in _quietly(p)]
    assert running == []


def _quietly(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_sigterm_reaches_the_stage_and_ends_the_run_with_143(bench: Bench) -> None:
    bench.stage("2_waits.sh", "trap 'echo tidied; exit 0' TERM; touch ready; while :; do sleep 0.05; done")
    with started(bench.start()) as process:
        wait_for((bench.job / "ready").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=DEADLINE) == 143
    assert bench.read("status.json")["reason"] == "terminated"
    assert bench.error()["script"] == "2_waits.sh"
    assert "tidied" in str(bench.error()["error"])


def test_a_stage_deaf_to_sigterm_is_killed(bench: Bench) -> None:
    bench.stage("2_deaf.sh", "trap '' TERM; echo $$ > ready; while :; do sleep 0.05; done")
    with started(bench.start(TERM_SECONDS="0.2")) as process:
        wait_for(lambda: (bench.job / "ready").exists() and (bench.job / "ready").read_text())
        stage = int((bench.job / "ready").read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=DEADLINE) == 143
    assert not lives(stage)


def test_a_stage_dies_with_a_killed_orchestrator(bench: Bench) -> None:
    bench.stage("2_waits.py", "import os, time; open('ready', 'w').write(str(os.getpid())); time.sleep(300)")
    with started(bench.start()) as process:
        wait_for(lambda: (bench.job / "ready").exists() and (bench.job / "ready").read_text())
        stage = int((bench.job / "ready").read_text())
        process.kill()
        process.wait(timeout=DEADLINE)
    wait_for(lambda: not lives(stage))


def test_a_run_without_a_sign_of_life_ends_with_75(bench: Bench) -> None:
    bench.stage("2_waits.sh", "echo working; sleep 300")
    (bench.job / ".alive").touch()
    assert bench.run(ALIVE_TIMEOUT_SECONDS="0.3")[0] == 75
    status = bench.read("status.json")
    assert (status["exit_code"], status["reason"]) == (75, "lease")
    assert str(bench.error()["error"]).startswith("working\nThe worker gave no sign of life")


def test_a_sign_of_life_keeps_the_run_going(bench: Bench) -> None:
    bench.stage("2_waits.sh", "touch ready; while [ ! -e enough ]; do sleep 0.02; done")
    alive = bench.job / ".alive"
    with started(bench.start(ALIVE_TIMEOUT_SECONDS="0.4")) as process:
        wait_for((bench.job / "ready").exists)
        until = time.monotonic() + 1.0

        def touched_long_enough() -> bool:
            alive.touch()
            return time.monotonic() > until

        wait_for(touched_long_enough)
        (bench.job / "enough").touch()
        assert process.wait(timeout=DEADLINE) == 0


def test_an_old_sign_of_life_is_judged_by_changes_and_not_by_its_date(bench: Bench) -> None:
    (bench.job / ".alive").touch()
    os.utime(bench.job / ".alive", (0, 0))
    assert bench.run(ALIVE_TIMEOUT_SECONDS="10")[0] == 0


def test_a_stage_reports_its_records(bench: Bench) -> None:
    said = '{"records_done": 7, "records_total": 20, "message": "aligning", "stage": 99}'
    bench.stage("2_says.sh", f"echo '{said}' > progress.stage.json; while [ ! -e go ]; do sleep 0.02; done")
    with started(bench.start(ALIVE_TIMEOUT_SECONDS="2")) as process:

        def progress() -> dict[str, object]:
            return bench.read("progress.json") if (bench.job / "progress.json").exists() else {}

        wait_for(lambda: progress().get("records_done") == 7)
        now = progress()
        for number in range(20):
            (bench.job / ".alive").write_text(str(number))
        (bench.job / "go").touch()
        assert process.wait(timeout=DEADLINE) == 0
    assert (now["stage"], now["stages"], now["script"]) == (2, 5, "2_says.sh")
    assert (now["records_total"], now["message"]) == (20, "aligning")
    assert progress()["records_done"] is None  # stage 5 said nothing


@pytest.mark.parametrize(
    "said", ["{", "[1]", '{"records_done": "many", "message": 3}', '{"records_done": -1}']
)
def test_nonsense_about_progress_is_ignored(bench: Bench, said: str) -> None:
    bench.stage("5_says.sh", f"echo '{said}' > progress.stage.json")
    assert bench.run()[0] == 0
    assert bench.read("progress.json")["records_done"] is None


def test_a_progress_file_that_is_a_pipe_hangs_nothing(bench: Bench) -> None:
    bench.stage("5_says.sh", "mkfifo progress.stage.json")
    assert bench.run()[0] == 0


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda stages: (stages / "3_step.sh").unlink(), "stages/3_* is missing"),
        (lambda stages: (stages / "3_too.py").touch(), "3_step.sh, 3_too.py"),
        (lambda stages: (stages / "6_more.sh").touch(), "stages/6_more.sh has no place"),
        (lambda stages: (stages / "3_step.sh").rename(stages / "3_step.txt"), "3_step.txt"),
    ],
)
def test_a_faulty_method_is_told_before_any_stage(
    bench: Bench, change: Callable[[Path], object], told: str
) -> None:
    change(bench.method / "stages")
    code, printed = bench.run()
    assert code == 70
    assert "stage 1" not in printed
    assert told in str(bench.error()["error"])
    assert bench.read("status.json")["reason"] == "method"


def test_a_missing_stages_directory_is_a_fault_of_the_method(bench: Bench) -> None:
    assert bench.run(METHOD_DIR=str(bench.job))[0] == 70
    assert "stages/1_* is missing" in str(bench.error()["error"])


def test_an_executable_without_a_known_ending_runs_and_a_broken_one_is_told(bench: Bench) -> None:
    bench.stage("1_step", "#!/bin/sh\necho by itself").chmod(0o755)
    assert bench.run()[1].startswith("by itself\n")
    bench.stage("1_step", "#!/no/such/program").chmod(0o755)
    assert bench.run()[0] == 70
    assert bench.error()["script"] == "1_step"


def test_helper_files_beside_the_stages_are_left_alone(bench: Bench) -> None:
    (bench.method / "stages" / "common.py").write_text("raise SystemExit(1)")
    assert bench.run()[0] == 0


def test_what_an_earlier_run_left_is_gone(bench: Bench) -> None:
    for name in ("error.json", "status.json", "progress.json"):
        (bench.job / name).write_text("old")
    (bench.job / "job.log").symlink_to(bench.method / "target")
    assert bench.run()[0] == 0
    assert not (bench.job / "error.json").exists()
    assert not (bench.method / "target").exists()


def test_a_missing_job_directory_is_told(bench: Bench) -> None:
    code, printed = bench.run(JOB_DIR=str(bench.job / "none"))
    assert code == 73
    assert printed.startswith("orchestrator: the job directory cannot be used")


def test_a_wrong_setting_is_told(bench: Bench) -> None:
    code, printed = bench.run(ALIVE_TIMEOUT_SECONDS="soon")
    assert code == 70
    assert "ALIVE_TIMEOUT_SECONDS" in printed


def test_the_status_counts_the_memory_and_time_of_a_short_stage(bench: Bench) -> None:
    bench.stage("3_uses.py", "held = b'x' * (200 << 20)\nsum(range(2_000_000))")
    assert bench.run()[0] == 0
    stages = bench.read("status.json")["stages"]
    assert isinstance(stages, list)
    assert stages[2]["max_rss_bytes"] > 200 << 20
    assert stages[2]["cpu_seconds"] > 0.01
    assert stages[1]["max_rss_bytes"] < 60 << 20


def test_it_runs_isolated_and_imports_the_standard_library_only(bench: Bench) -> None:
    assert bench.run(python=(sys.executable, "-I", "-S"))[0] == 0
    nodes = list(ast.walk(ast.parse(SCRIPT.read_text(encoding="utf-8"))))
    names = {
        alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {str(node.module).split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 9))
