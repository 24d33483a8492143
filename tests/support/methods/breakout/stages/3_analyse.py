"""Tries everything that a run must not be able to do; attempts.json says how each try ended."""

import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

OUTPUT_BYTES = 16777216  # as in method.json
libc = ctypes.CDLL(None, use_errno=True)
told = {}


def attempt(name, call):
    try:
        value = call()
    except (OSError, subprocess.SubprocessError) as error:
        told[name] = f"refused: {error}"
    else:
        told[name] = f"done: {value}"


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def fork_bomb():
    children = []
    try:
        while len(children) < 2000:
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            children.append(pid)
        return len(children)
    except OSError as error:
        raise OSError(f"after {len(children)} processes: {error}") from error
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def too_large():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    large = pathlib.Path("large")
    try:
        with large.open("wb") as file:
            file.truncate(OUTPUT_BYTES + 1)
    finally:
        large.unlink()


attempt("network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=2))
attempt("write root", lambda: pathlib.Path("/written").write_text("x"))
attempt("write etc", lambda: pathlib.Path("/etc/passwd").write_text("x"))
attempt("write method", lambda: pathlib.Path("/method/stages/4_tables.sh").write_text("x"))
attempt("setuid", lambda: os.setuid(0))
attempt("setgid", lambda: os.setgroups([0]))
attempt("chown", lambda: os.chown("params.json", 0, 0))
attempt("device", lambda: os.mknod("disk", 0o60666, os.makedev(8, 0)))
attempt("mount", lambda: checked(libc.mount(b"none", b"/mnt", b"tmpfs", 0, None)))
attempt("namespace", lambda: checked(libc.unshare(0x10000000)))  # a user namespace
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("host name", lambda: socket.sethostname("other"))
attempt("engine", lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"))
attempt("kernel", lambda: pathlib.Path("/proc/sys/kernel/core_pattern").write_text("|x"))
attempt("fork bomb", fork_bomb)
attempt("output size", too_large)
status = pathlib.Path("/proc/self/status").read_text()
told["status"] = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
told["interfaces"] = [name for _, name in socket.if_nameindex()]
told["processes"] = [path.name for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
told["mounts"] = pathlib.Path("/proc/mounts").read_text()
told["root"] = sorted(path.name for path in pathlib.Path("/").iterdir())
pathlib.Path("attempts.json").write_text(json.dumps(told))
