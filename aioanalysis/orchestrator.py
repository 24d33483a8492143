"""Runs a method's five stages in a job directory; standard library only, Python 3.9 and later.

Environment:
    JOB_DIR                the job's directory, default /job; every stage runs there
    METHOD_DIR             the directory that holds stages/, default: where this file lies
    ALIVE_TIMEOUT_SECONDS  off when unset; else the worker must touch JOB_DIR/.alive at least that often
    TERM_SECONDS           default 3: on SIGTERM, what the running stage has before it is killed

Written into JOB_DIR:
    job.log        what the stages print, stdout and stderr in one
    progress.json  stage, stages, script, started_at, updated_at, records_done, records_total, message;
                   the last three are what the running stage last left in progress.stage.json
    error.json     script, error; of a run that failed
    status.json    the completion file, last: exit_code, reason, started_at, finished_at, oom_kills, stages
                   [{script, exit_code, started_at, finished_at, max_rss_bytes, cpu_seconds}];
                   a stage's exit code below 0 is the signal that killed it

Exit codes, with the reason in status.json:
    0 complete; 1 to 5 stage, the one that failed; 404 input, no params.json or records.jsonl (a process
    status keeps 148); 70 method, a fault of its directory, or internal, one of this file; 73 the job
    directory cannot be written; 75 lease, no sign of life from the worker; 143 terminated.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any, NoReturn

STAGES = 5
WANTED = range(1, STAGES + 1)
KEPT_BYTES = 1 << 20  # of what a stage printed, for error.json
ECHO_BYTES = 1 << 20  # passed on to our own stdout in one run; job.log has the rest
LOG_BYTES = 256 << 20  # of job.log, so that a chatty stage cannot fill the disk
END_SECONDS = 5.0  # for what was killed to be gone
DRAIN_SECONDS = 1.0  # for a pipe that is still held after its stage and all we could kill have ended
INPUTS = ("params.json", "records.jsonl")
EXIT_INPUT, EXIT_METHOD, EXIT_UNWRITABLE, EXIT_LEASE, EXIT_TERMINATED = 404, 70, 73, 75, 143
INTERPRETERS = {".py": (sys.executable or "python3",), ".sh": ("bash", "sh"), ".R": ("Rscript",)}


class Stopped(Exception):
    """The run ends here; `remark` is ours, `text` what error.json says (with what the stage printed)."""

    def __init__(self, code: int, reason: str, remark: str, script: str | None = None) -> None:
        super().__init__(remark)
        self.code, self.reason, self.remark, self.text, self.script = code, reason, remark, remark, script


def fault(text: str, script: str | None = None) -> Stopped:
    return Stopped(EXIT_METHOD, "method", text, script)


def timestamp() -> str:
    """Now, RFC 3339 in UTC to the millisecond."""
    now = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def clock() -> float:
    """Seconds that also pass while the machine sleeps, and that no change of the date moves."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def write_json(path: Path, value: object) -> None:
    """Write beside and rename, so that a reader sees the old file or the new one, whole."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
        json.dump(value, file, ensure_ascii=False)
    beside.replace(path)


def read_small(path: Path, limit: int = 65536) -> bytes | None:
    """A regular file's content, or None when it is absent, too large, a link or a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            return None
        return file.read(limit)


def is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def find_stages(method: Path) -> list[tuple[Path, list[str]]]:
    """The five scripts in order, each with the command that runs it."""
    folder = method / "stages"
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        number = re.match(r"(\d+)_", path.name)
        if number and path.is_file():
            found.setdefault(int(number[1]), []).append(path)
    faults = [f"stages/{number}_* is missing" for number in WANTED if number not in found]
    for place, paths in found.items():
        if place not in WANTED:
            faults.append(f"stages/{paths[0].name} has no place among them")
        elif len(paths) > 1:
            faults.append(f"stages/{place}_* is there {len(paths)} times: {', '.join(p.name for p in paths)}")
    if faults:
        raise fault(f"A method has one script for each of {STAGES} stages; {'; '.join(faults)}.")
    return [(found[n][0], command_for(found[n][0])) for n in WANTED]


def command_for(script: Path) -> list[str]:
    names = INTERPRETERS.get(script.suffix)
    if names is None:
        if os.access(script, os.X_OK):
            return [str(script)]
        raise fault(f"stages/{script.name} is no .py, .sh or .R file and is not executable.", script.name)
    for name in names:
        program = shutil.which(name)
        if program:
            return [program, str(script)]
    raise fault(f"stages/{script.name} needs {' or '.join(names)}, which is not installed here.", script.name)


def oom_kills() -> int | None:
    """Processes that the kernel has killed for memory in our control group; None when not known."""
    for name in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"):
        try:
            text = Path(name).read_text(encoding="ascii")
        except OSError:
            continue
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        if found:
            return int(found[1])
    return None


def kernel_call() -> Any:
    """The C library's prctl, or None where there is none (it only makes the cleaning up more thorough)."""
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).prctl
    except (ImportError, OSError, AttributeError):
        return None


def children() -> list[int]:
    """Our child processes: orphans of a stage come to us, as the first process or as subreaper."""
    try:
        return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]
    except OSError:
        return []


class Output:
    """Where a stage's output goes: job.log, our own stdout, and the end of it into memory."""

    def __init__(self, log: Path) -> None:
        log.unlink(missing_ok=True)
        self.log: int | None = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        self.logged, self.echoed = 0, 0
        self.kept: deque[bytes] = deque()
        self.kept_bytes = self.printed = 0

    def begin(self) -> None:
        self.kept.clear()
        self.kept_bytes = self.printed = 0

    def write(self, data: bytes) -> None:
        self.printed += len(data)
        self.kept.append(data)
        self.kept_bytes += len(data)
        while self.kept_bytes - len(self.kept[0]) >= KEPT_BYTES:
            self.kept_bytes -= len(self.kept.popleft())
        self.note(data)

    def note(self, data: bytes) -> None:
        """To job.log and stdout only: ours, not the stage's."""
        self.to_log(data)
        if self.echoed < ECHO_BYTES:
            self.echo(data)

    def to_log(self, data: bytes) -> None:
        if self.log is None:
            return
        if self.logged + len(data) > LOG_BYTES:
            data = data[: LOG_BYTES - self.logged] + b"\n[job.log ends here, it is too long]\n"
        try:
            while data:
                written = os.write(self.log, data)
                self.logged += written
                data = data[written:]
        except OSError:  # a full disk: the run goes on, its log does not
            self.logged = LOG_BYTES
        if self.logged >= LOG_BYTES:
            os.close(self.log)
            self.log = None

    def echo(self, data: bytes) -> None:
        """At most PIPE_BUF at a time and only into room, so that a reader who stops reading stops nothing."""
        self.echoed += len(data)
        if self.echoed >= ECHO_BYTES:
            data = data[: max(0, len(data) - (self.echoed - ECHO_BYTES))] + b"\n[the rest is in job.log]\n"
        for start in range(0, len(data), select.PIPE_BUF):
            try:
                if not select.select([], [1], [], 1.0)[1]:
                    raise BlockingIOError
                os.write(1, data[start : start + select.PIPE_BUF])
            except (OSError, ValueError):
                self.echoed = ECHO_BYTES
                return

    def text(self) -> str:
        return b"".join(self.kept)[-KEPT_BYTES:].decode("utf-8", errors="replace")


class Progress:
    """progress.json, from what we know and what the running stage says of itself."""

    def __init__(self, job: Path) -> None:
        self.path, self.said = job / "progress.json", job / "progress.stage.json"
        self.state: dict[str, object] = {}

    def begin(self, stage: int, script: str) -> None:
        self.said.unlink(missing_ok=True)
        self.state = {"stage": stage, "stages": STAGES, "script": script, "started_at": timestamp()}
        self.write({})

    def look(self) -> None:
        content = read_small(self.said)
        if content is None:
            return
        try:
            said = json.loads(content)
        except ValueError:
            return
        if isinstance(said, dict):
            self.write(said)

    def write(self, said: dict[str, object]) -> None:
        numbers = {key: said.get(key) for key in ("records_done", "records_total")}
        new: dict[str, object] = {k: v if type(v) is int and v >= 0 else None for k, v in numbers.items()}
        message = said.get("message")
        new["message"] = message[:1000] if isinstance(message, str) else None
        if any(self.state.get(key, "") != value for key, value in new.items()):
            self.state.update(new, updated_at=timestamp())
            with contextlib.suppress(OSError):  # a full disk does not end the run here
                write_json(self.path, self.state)


class Alive:
    """The worker's sign of life: changes of .alive, timed by our own clock, so that clocks need not agree."""

    def __init__(self, job: Path, seconds: float) -> None:
        self.path, self.seconds = job / ".alive", seconds
        self.seen, self.since = self.mark(), clock()

    def mark(self) -> int | None:
        try:
            return self.path.stat().st_mtime_ns
        except OSError:
            return None

    def lapsed(self) -> bool:
        if not self.seconds:
            return False
        mark = self.mark()
        if mark is not None and mark != self.seen:
            self.seen, self.since = mark, clock()
        return clock() - self.since > self.seconds


class Run:
    """One run of the five stages."""

    def __init__(self, job: Path, method: Path, alive_seconds: float, term_seconds: float) -> None:
        self.job, self.method, self.term_seconds = job, method, term_seconds
        self.output, self.progress = Output(job / "job.log"), Progress(job)
        self.alive = Alive(job, alive_seconds)
        self.tick = min(1.0, alive_seconds / 4) if alive_seconds else 1.0
        self.stages: list[dict[str, object]] = []
        self.started_at = timestamp()
        self.oom_before = oom_kills()
        self.terminated = False
        self.prctl = kernel_call()
        self.wake, wake_in = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_in, False)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.terminate)
        if self.prctl:
            self.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    def terminate(self, *_: object) -> None:
        self.terminated = True

    def all(self) -> None:
        missing = [name for name in INPUTS if not is_regular(self.job / name)]
        if missing:
            raise Stopped(EXIT_INPUT, "input", f"The package holds no {' and no '.join(missing)}.")
        for number, (script, command) in enumerate(find_stages(self.method), 1):
            self.check()
            self.one(number, script.name, command)

    def check(self, script: str | None = None) -> None:
        if self.terminated:
            raise Stopped(EXIT_TERMINATED, "terminated", "The run was terminated from outside.", script)
        if self.alive.lapsed():
            text = (
                f"The worker gave no sign of life (.alive) for {self.alive.seconds:g} s; the run was ended."
            )
            raise Stopped(EXIT_LEASE, "lease", text, script)

    def one(self, number: int, script: str, command: list[str]) -> None:
        self.output.begin()
        self.progress.begin(number, script)
        started_at = timestamp()
        stage = Stage(command, self.job, self.method, self.prctl, script)
        stopped: Stopped | None = None
        try:
            self.watch(stage, script)
        except Stopped as stop:
            stopped = stop
            if stop.code == EXIT_TERMINATED:
                self.ask_to_end(stage)
        finally:
            stage.end()
            self.drain(stage)
            times = {"started_at": started_at, "finished_at": timestamp()}
            self.stages.append({"script": script, "exit_code": stage.code, **times, **stage.usage()})
        self.progress.look()
        self.progress.said.unlink(missing_ok=True)
        if stage.code and not stopped:
            stopped = Stopped(number, "stage", self.how_it_ended(stage.code), script)
        if stopped:
            stopped.text = self.told(stopped.remark)
            raise stopped

    def watch(self, stage: Stage, script: str) -> None:
        """Until the stage's main process has ended."""
        looked = 0.0
        while stage.code is None:
            self.listen(stage, self.tick)
            stage.reap()
            self.check(script)
            if time.monotonic() - looked >= self.tick:
                looked = time.monotonic()
                self.progress.look()

    def listen(self, stage: Stage, seconds: float) -> None:
        """Wait for output, the end of a child or a signal."""
        sources = [self.wake] if stage.pipe is None else [self.wake, stage.pipe]
        ready = select.select(sources, [], [], seconds)[0]
        if self.wake in ready:
            os.read(self.wake, 4096)
        if stage.pipe in ready:
            data = stage.read()
            if data:
                self.output.write(data)

    def ask_to_end(self, stage: Stage) -> None:
        stage.signal(signal.SIGTERM)
        until = time.monotonic() + self.term_seconds
        while stage.code is None and time.monotonic() < until:
            self.listen(stage, 0.1)
            stage.reap()

    def drain(self, stage: Stage) -> None:
        until = time.monotonic() + DRAIN_SECONDS
        while stage.pipe is not None and time.monotonic() < until:
            self.listen(stage, 0.05)
        stage.close()

    def how_it_ended(self, code: int) -> str:
        if code < 0:
            known = f" ({signal.Signals(-code).name})" if -code in set(signal.Signals) else ""
            return f"killed by signal {-code}{known}{': out of memory' if self.oom() else ''}"
        return "" if self.output.printed else f"exited with code {code} and printed nothing"

    def told(self, remark: str) -> str:
        """What the stage printed, with our remark after it."""
        text = self.output.text()
        if not remark:
            return text
        return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{remark}"

    def oom(self) -> int | None:
        now = oom_kills()
        return None if now is None else now - (self.oom_before or 0)

    def finish(self, code: int, reason: str) -> None:
        status: dict[str, object] = {"exit_code": code, "reason": reason, "started_at": self.started_at}
        status.update(finished_at=timestamp(), oom_kills=self.oom(), stages=self.stages)
        write_json(self.job / "status.json", status)


class Stage:
    """One script's process group, and what it used."""

    def __init__(self, command: list[str], job: Path, method: Path, prctl: Any, script: str) -> None:
        environment = {**os.environ, "JOB_DIR": str(job), "METHOD_DIR": str(method), "PYTHONUNBUFFERED": "1"}
        if os.environ.get("PYTHONPATH"):  # its relative parts are meant from where we were started
            parts = os.environ["PYTHONPATH"].split(os.pathsep)
            environment["PYTHONPATH"] = os.pathsep.join(str(Path(part).absolute()) for part in parts if part)
        self.pipe: int | None
        self.pipe, theirs = os.pipe()
        parent = os.getpid()

        def die_with_parent() -> None:
            prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(EXIT_TERMINATED)

        try:
            self.process = subprocess.Popen(
                command, cwd=job, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                start_new_session=True, preexec_fn=die_with_parent if prctl else None,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self.pipe)
            raise fault(f"stages/{script} cannot be started: {error}", script) from error
        finally:
            os.close(theirs)
        self.code: int | None = None
        self.max_rss, self.cpu = 0, 0.0

    def read(self) -> bytes:
        data = b"" if self.pipe is None else os.read(self.pipe, 65536)
        if not data:
            self.close()
        return data

    def close(self) -> None:
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None

    def reap(self, options: int = os.WNOHANG) -> None:
        """Collect whatever has ended: the main process, and orphans that became ours."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, options)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.cpu += usage.ru_utime + usage.ru_stime
            self.max_rss = max(self.max_rss, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
            if pid == self.process.pid:
                self.code = self.process.returncode = os.waitstatus_to_exitcode(status)

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.process.pid, number)
        except (ProcessLookupError, PermissionError):
            return

    def end(self) -> None:
        """Kill what is left of the group, then orphans that left it: they would hold the pipe, or run on."""
        until = time.monotonic() + END_SECONDS
        self.signal(signal.SIGKILL)
        while time.monotonic() < until:
            self.reap()
            left = children()
            if self.code is not None and not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue
            time.sleep(0.002)

    def usage(self) -> dict[str, object]:
        return {"max_rss_bytes": self.max_rss or None, "cpu_seconds": round(self.cpu, 6)}


def directory(name: str, default: Path) -> Path:
    return Path(os.environ.get(name) or default).absolute()


def seconds(name: str, default: float) -> float:
    given = os.environ.get(name) or default
    try:
        return float(given)
    except ValueError:
        leave(EXIT_METHOD, f"{name} is no number of seconds: {given!r}")


def leave(code: int, text: str) -> NoReturn:
    sys.stderr.write(f"orchestrator: {text}\n")
    sys.stderr.flush()
    sys.exit(code)


def main() -> NoReturn:
    job, method = directory("JOB_DIR", Path("/job")), directory("METHOD_DIR", Path(__file__).parent)
    alive_seconds, term_seconds = seconds("ALIVE_TIMEOUT_SECONDS", 0.0), seconds("TERM_SECONDS", 3.0)
    try:
        for name in ("status.json", "error.json", "progress.json", "progress.stage.json"):
            (job / name).unlink(missing_ok=True)
        run = Run(job, method, alive_seconds, term_seconds)
    except OSError as error:
        leave(EXIT_UNWRITABLE, f"the job directory cannot be used: {error}")
    try:
        code = go(run, job)
    except OSError as error:
        leave(EXIT_UNWRITABLE, f"the job directory cannot be written: {error}")
    sys.exit(code)


def go(run: Run, job: Path) -> int:
    """The exit code, after error.json and, last, status.json; a full disk does not hide the failed stage."""
    try:
        run.all()
    except Stopped as stop:
        ended = stop
    except Exception as error:
        ended = Stopped(EXIT_METHOD, "internal", f"The orchestrator failed: {type(error).__name__}: {error}")
    else:
        run.finish(0, "complete")
        return 0
    if ended.remark:
        run.output.note(f"{ended.remark}\n".encode(errors="replace"))
    try:
        write_json(job / "error.json", {"script": ended.script, "error": ended.text})
        run.finish(ended.code, ended.reason)
    except OSError as error:
        sys.stderr.write(f"orchestrator: error.json and status.json cannot be written: {error}\n")
    return ended.code


if __name__ == "__main__":
    main()
