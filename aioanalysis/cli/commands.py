"""Every command: where it is, the first sentence of its help, and the panel of `--help` that it stands in."""

from __future__ import annotations

from typing import Final

from aioanalysis.cli.lazy import LazyCommand

JOBS, RESULTS, SERVICE, SETUP = "Jobs", "Results", "Service", "Set-up"
COMMANDS: Final = (
    LazyCommand(
        "dev",
        "service:dev",
        "Run everything in one process on embedded parts; data under .aioanalysis/ is kept between runs.",
        SERVICE,
    ),
    LazyCommand("serve", "service:serve", "Run API and scheduler.", SERVICE),
    LazyCommand(
        "worker",
        "service:worker",
        "Run a worker: exit code 0 done or nothing to do, 1 a run failed (--once), 2 set-up wrong.",
        SERVICE,
    ),
    LazyCommand(
        "rebuild",
        "service:rebuild",
        "Make job records again from storage, after Redis was lost with its data; may be repeated.",
        SERVICE,
    ),
    LazyCommand(
        "statistics",
        "administration:statistics",
        "Show figures over everybody's jobs of the last 7 days (administrators).",
        SERVICE,
    ),
    LazyCommand(
        "orphans",
        "administration:orphans",
        "List the files in storage that belong to no job, or remove them (administrators).",
        SERVICE,
    ),
    LazyCommand(
        "submit",
        "submission:submit",
        "Submit a job and print its id; with --wait exits 1 if it does not complete.",
        JOBS,
    ),
    LazyCommand("jobs", "jobs:jobs", "List your jobs, newest first.", JOBS),
    LazyCommand("show", "jobs:show", "Show one job.", JOBS),
    LazyCommand(
        "watch",
        "watching:watch",
        "Wait for a job's end, showing progress; exits 1 if it does not complete.",
        JOBS,
    ),
    LazyCommand("log", "watching:log", "Print a job's output.", JOBS),
    LazyCommand("frames", "control:frames", "List a job's frames.", JOBS),
    LazyCommand("action", "control:action", "Steer jobs; of a resubmission prints the new job's id.", JOBS),
    LazyCommand("rm", "jobs:rm", "Remove jobs with all their files.", JOBS),
    LazyCommand("top", "top:top", "Show what the service is at, live.", JOBS),
    LazyCommand(
        "result",
        "results:result",
        "Download a result package, going on where a cut download ended, and verify its checksum.",
        RESULTS,
    ),
    LazyCommand("report", "results:report", "Save a job's report, or open it in the browser.", RESULTS),
    LazyCommand(
        "files",
        "results:files",
        "List the files in a job's package, or get one of them, going on where a cut download ended.",
        RESULTS,
    ),
    LazyCommand(
        "link",
        "results:link",
        "Print an address that needs no key for a short time, for a browser or curl.",
        RESULTS,
    ),
    LazyCommand(
        "login",
        "profiles:login",
        "Sign in to a service: its address and your key are kept as a profile.",
        SETUP,
    ),
    LazyCommand("logout", "profiles:logout", "Forget a profile and its key.", SETUP),
    LazyCommand(
        "profiles", "profiles:profiles", "List the profiles, and say which service is spoken to.", SETUP
    ),
    LazyCommand("config", "setup:config", "Print the settings in force, secrets hidden.", SETUP),
    LazyCommand("openapi", "setup:openapi", "Print the API's OpenAPI 3.1 document.", SETUP),
    LazyCommand(
        "doctor",
        "doctor:doctor",
        "Check every part that the settings name, and say what is wrong and how to mend it; exits 1 then.",
        SETUP,
    ),
    LazyCommand(
        "operating",
        "operating:operating",
        "List the files for an operator's own systems, or print one of them.",
        SETUP,
    ),
    LazyCommand("methods", "methods:methods", "Methods: list, show, new, check, test.", SETUP),
    LazyCommand("keys", "setup:keys", "Keys of users, and the secret that seals them.", SETUP),
    LazyCommand("records", "records:records", "Records on files.", SETUP),
    LazyCommand("storage", "storage:storage", "The package storage.", SETUP),
)
