"""What a pass decides, as lists of commands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aioanalysis.domain.admission import Run, admissions
from aioanalysis.domain.commands import (
    Archive,
    CleanUp,
    Command,
    Forget,
    Interrupt,
    Note,
    Recover,
    Save,
    Sweep,
    Withdraw,
)
from aioanalysis.domain.exchange import Ending, PackageMeta, RunMark, Sidecar
from aioanalysis.domain.frames import Hold, Packaging, Postponement
from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.observation import ClaimedPackage, Observation, Outcome, QueuedPackage
from aioanalysis.domain.outcomes import UNMENDABLE, JobError, Reason
from aioanalysis.domain.planning import plan
from aioanalysis.domain.runs import recovered
from aioanalysis.domain.states import State
from tests.support.jobs import make_job
from tests.support.jobs import make_sidecar as sidecar

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = START + timedelta(minutes=5)
STEM = "distance_summary.0123abcd"


def job(**changes: Any) -> Job:
    fixed = {"id": "0123abcd", "uid": "uid-1", "submitter": "ada", "submitted_at": START}
    return make_job(**{**fixed, **changes})


def meta(**changes: object) -> PackageMeta:
    values = {"uid": "uid-1", "attempt": 1, "owner": "ada", "expires_at": START + timedelta(days=7)}
    return PackageMeta(**{**values, **changes})  # type: ignore[arg-type]


def queued(**changes: object) -> QueuedPackage:
    return QueuedPackage(meta=meta(**changes), etag="q")


def claimed(
    *, held: bool = True, lapsed: bool = False, released: bool = False, **changes: object
) -> ClaimedPackage:
    package = meta(worker="w1", nonce="n", **changes)
    return ClaimedPackage(meta=package, etag="c", held=held, lapsed=lapsed, released=released)


def outcome(
    ending: Ending = Ending.COMPLETE,
    *,
    uid: str | None = "uid-1",
    attempt: int | None = 1,
    of: Sidecar | None = None,
    problem: str = "",
) -> Outcome:
    read = None if problem else of or sidecar()
    return Outcome(ending=ending, mark=RunMark(uid=uid, attempt=attempt), sidecar=read, problem=problem)


def decide(
    subject: Job | None,
    *,
    queue: QueuedPackage | None = None,
    claim: ClaimedPackage | None = None,
    outcomes: tuple[Outcome, ...] | None = None,
    now: datetime = NOW,
    stranger: Job | bool | None = False,
    tombstone: Tombstone | None = None,
    remains: bool = False,
) -> list[Command]:
    seen = Observation(
        queue={STEM: queue} if queue else {},
        claims={STEM: claim} if claim else {},
        outcomes={STEM: outcomes} if outcomes is not None else {},
        remains={STEM} if remains else (),
    )
    work = plan(
        [subject] if subject else [],
        seen,
        now,
        max_recoveries=3,
        strangers={} if stranger is False else {STEM: stranger},  # type: ignore[dict-item]
        tombstones=[tombstone] if tombstone else [],
    )
    return [command for item in work for command in item.commands]


def saved(commands: list[Command]) -> Job:
    (save,) = [command for command in commands if isinstance(command, Save)]
    return save.job


WAITING, QUEUED, RUNNING, FAILED = (
    job(state=state) for state in (State.WAITING, State.QUEUED, State.RUNNING, State.FAILED)
)


@pytest.mark.parametrize("subject", [WAITING, QUEUED, RUNNING, FAILED])
def test_a_result_completes_any_job_and_is_cleaned_up_after_the_record_is_saved(subject: Job) -> None:
    commands = decide(subject, claim=claimed(held=False), outcomes=(outcome(of=sidecar(packaged_count=7)),))
    assert saved(commands).state is State.COMPLETE
    assert saved(commands).packaged_count == 7
    assert saved(commands).error is None
    assert commands[1:] == [CleanUp(stem=STEM, claim=claimed(held=False))]


def test_a_result_whose_claim_is_still_held_is_applied_and_cleaned_up_later() -> None:
    commands = decide(RUNNING, claim=claimed(), outcomes=(outcome(),))
    assert saved(commands).state is State.COMPLETE
    assert len(commands) == 1


def test_a_failure_carries_the_sidecars_error() -> None:
    error = JobError(reason=Reason.STAGE, message="container exited with code 3", script="3_x", error="boom")
    done = saved(decide(RUNNING, outcomes=(outcome(Ending.FAILED, of=sidecar(error=error)),)))
    assert (done.state, done.error) == (State.FAILED, error)


def test_a_failure_that_says_nothing_still_has_a_reason() -> None:
    done = saved(decide(RUNNING, outcomes=(outcome(Ending.FAILED),)))
    assert done.error is not None
    assert done.error.reason is Reason.CONTAINER


def test_a_result_beats_a_failure_of_the_same_attempt() -> None:
    both = (outcome(Ending.FAILED), outcome(Ending.COMPLETE))
    assert saved(decide(RUNNING, outcomes=both)).state is State.COMPLETE


def test_an_unreadable_sidecar_leaves_the_job_as_it_was_and_says_why() -> None:
    commands = decide(RUNNING, claim=claimed(held=False), outcomes=(outcome(problem="not JSON"),))
    assert [type(command) for command in commands] == [Note]
    assert "not JSON" in commands[0].text  # type: ignore[union-attr]


def test_an_unreadable_sidecar_does_not_stop_the_time_limit() -> None:
    late = decide(RUNNING, outcomes=(outcome(problem="x"),), now=RUNNING.deadline)
    assert saved(late).state is State.FAILED


def test_an_older_workers_sidecar_without_uid_and_attempt_counts() -> None:
    assert saved(decide(RUNNING, outcomes=(outcome(uid=None, attempt=None),))).state is State.COMPLETE


def test_a_sidecar_of_another_uid_is_not_the_jobs() -> None:
    assert saved(decide(QUEUED, outcomes=(outcome(uid="uid-of-old"),))).state is State.RUNNING  # gone


def test_a_result_of_an_earlier_attempt_is_archived_and_does_not_count() -> None:
    commands = decide(
        job(state=State.RUNNING, attempt=2), claim=claimed(attempt=2), outcomes=(outcome(attempt=1),)
    )
    assert commands == [Archive(stem=STEM, ending=Ending.COMPLETE, attempt=1)]


def test_a_result_of_an_attempt_that_a_worker_raised_counts() -> None:
    done = saved(decide(RUNNING, outcomes=(outcome(attempt=2),)))
    assert (done.state, done.attempt) == (State.COMPLETE, 2)


def test_a_failed_package_of_a_failed_job_changes_nothing() -> None:
    assert decide(FAILED, outcomes=(outcome(Ending.FAILED),)) == []


def test_the_time_limit_fails_every_unfinished_job_with_a_reason_and_withdraws_its_package() -> None:
    for subject in (WAITING, QUEUED, RUNNING):
        commands = decide(subject, queue=queued(), now=subject.deadline)
        done = saved(commands)
        assert done.state is State.FAILED
        assert done.error is not None
        assert done.error.reason is Reason.TIME_LIMIT
        assert "6 h" in done.error.message
        assert commands[1:] == [Withdraw(stem=STEM, etag="q")]


def test_the_time_limit_tells_why_records_could_not_be_had() -> None:
    put_off = Postponement(until=NOW, tries=4, text="the record store answered 503")
    done = saved(decide(job(state=State.WAITING, postponed=put_off), now=WAITING.deadline))
    assert done.error is not None
    assert "answered 503" in done.error.message


def test_the_time_limit_leaves_a_claimed_container_to_run_on() -> None:
    commands = decide(RUNNING, claim=claimed(), now=RUNNING.deadline)
    assert [type(command) for command in commands] == [Save]


def test_a_package_in_the_queue_means_queued_even_after_a_crash_before_the_state_write() -> None:
    stuck = job(state=State.WAITING, packaging=Packaging(fence=1, since=START))
    done = saved(decide(stuck, queue=queued(records=12)))
    assert (done.state, done.packaged_count, done.frames[0].packaging) == (State.QUEUED, 12, None)


def test_a_queued_job_whose_package_is_there_is_left_alone() -> None:
    assert decide(QUEUED, queue=queued()) == []


def test_a_package_given_back_by_a_worker_is_queued_under_its_new_attempt() -> None:
    done = saved(decide(RUNNING, queue=queued(attempt=2)))
    assert (done.state, done.attempt) == (State.QUEUED, 2)


def test_the_root_wins_over_a_free_claim_of_an_earlier_attempt() -> None:
    commands = decide(job(state=State.QUEUED, attempt=2), queue=queued(attempt=2), claim=claimed(held=False))
    assert commands == [CleanUp(stem=STEM, claim=claimed(held=False))]


def test_a_package_of_an_earlier_attempt_is_withdrawn() -> None:
    assert decide(job(state=State.WAITING, attempt=2), queue=queued()) == [Withdraw(stem=STEM, etag="q")]


@pytest.mark.parametrize("subject", [WAITING, QUEUED])
def test_a_claim_means_running(subject: Job) -> None:
    assert saved(decide(subject, claim=claimed())).state is State.RUNNING


def test_a_package_gone_with_nothing_in_results_means_running() -> None:
    assert saved(decide(QUEUED, outcomes=())).state is State.RUNNING


def test_nothing_is_concluded_of_a_stem_whose_results_were_not_looked_up() -> None:
    assert decide(QUEUED) == []
    assert decide(RUNNING, claim=claimed(held=False, lapsed=True)) == []


def test_a_job_being_packaged_is_not_taken_for_gone() -> None:
    assert decide(job(state=State.QUEUED, packaging=Packaging(fence=1, since=START)), outcomes=()) == []


def test_a_free_claim_is_not_lost_before_its_grace_has_passed() -> None:
    assert decide(RUNNING, claim=claimed(held=False), outcomes=()) == []


def test_a_lost_claim_goes_back_to_the_queue_under_the_next_attempt() -> None:
    lost = claimed(held=False, lapsed=True)
    assert decide(RUNNING, claim=lost, outcomes=()) == [
        Recover(job_id="0123abcd", number=None, stem=STEM, claim=lost)
    ]
    back = recovered(RUNNING.frames[0], lost, NOW)
    assert back is not None
    assert (back.phase, back.attempt, back.recoveries) == (State.QUEUED, 2, 1)
    assert (back.attempts[0].number, back.attempts[0].ending, back.attempts[0].host) == (1, "lost", "w1")


def test_a_recovery_broken_off_after_the_record_was_raised_is_finished() -> None:
    lost = claimed(held=False, lapsed=True)
    raised = job(state=State.QUEUED, attempt=2, recoveries=1)
    assert decide(raised, claim=lost, outcomes=()) == [
        Recover(job_id="0123abcd", number=None, stem=STEM, claim=lost)
    ]
    assert recovered(raised.frames[0], lost, NOW) is None


def test_a_free_claim_of_a_job_put_back_to_waiting_is_cleared_away() -> None:
    lost = claimed(held=False, lapsed=True)
    assert decide(job(state=State.WAITING, attempt=2), claim=lost, outcomes=()) == [
        CleanUp(stem=STEM, claim=lost)
    ]


def test_the_last_worker_lost_fails_the_job() -> None:
    lost = claimed(held=False, lapsed=True)
    commands = decide(job(state=State.RUNNING, recoveries=3), claim=lost, outcomes=())
    done = saved(commands)
    assert done.error is not None
    assert (done.state, done.error.reason) == (State.FAILED, Reason.WORKER_LOST)
    assert commands[1:] == [CleanUp(stem=STEM, claim=lost)]


def test_a_lost_claim_of_a_blocked_job_is_cleared_away_and_the_job_stays_blocked() -> None:
    lost = claimed(held=False, lapsed=True)
    held = job(state=State.BLOCKED, holds=frozenset({Hold.USER}))
    assert decide(held, claim=lost, outcomes=()) == [CleanUp(stem=STEM, claim=lost)]
    assert decide(held, claim=claimed(held=False), outcomes=()) == []


def test_a_block_that_came_after_the_claim_gives_way_to_the_run() -> None:
    held = job(state=State.BLOCKED, holds=frozenset({Hold.USER}))
    assert saved(decide(held, claim=claimed())).state is State.RUNNING


def test_the_package_of_a_blocked_job_is_withdrawn() -> None:
    held = job(state=State.BLOCKED, holds=frozenset({Hold.USER}))
    assert decide(held, queue=queued()) == [Withdraw(stem=STEM, etag="q")]


def test_the_run_of_a_job_that_was_put_back_is_told_to_end_until_its_worker_lets_go() -> None:
    back = job(attempt=2)
    assert decide(back, claim=claimed()) == [Interrupt(stem=STEM, attempt=1, action="interrupt")]
    assert decide(back, claim=claimed(held=False), outcomes=()) == []
    let_go = claimed(held=False, released=True)
    assert decide(back, claim=let_go, outcomes=()) == [CleanUp(stem=STEM, claim=let_go)]


def failure(reason: Reason) -> tuple[Outcome, ...]:
    error = JobError(reason=reason, message="it broke")
    return (outcome(Ending.FAILED, of=sidecar(error=error)),)


def test_a_failed_run_with_retries_left_goes_back_into_the_queue_from_its_claim() -> None:
    let_go = claimed(held=False, released=True)
    commands = decide(job(state=State.RUNNING, retries=2), claim=let_go, outcomes=failure(Reason.STAGE))
    again = saved(commands)
    run = again.frames[0]
    assert (again.state, run.phase, run.attempt, run.retried) == (State.RETRYING, State.QUEUED, 2, 1)
    assert [(a.number, a.ending) for a in run.attempts] == [(1, "failed")]
    assert commands[1:] == [
        Archive(stem=STEM, ending=Ending.FAILED, attempt=1),
        Recover(job_id="0123abcd", number=None, stem=STEM, claim=let_go),
    ]


def test_a_retry_waits_until_the_worker_has_let_go() -> None:
    assert decide(job(state=State.RUNNING, retries=2), claim=claimed(), outcomes=failure(Reason.STAGE)) == []


def test_a_retry_whose_claim_has_gone_is_packaged_anew() -> None:
    again = saved(decide(job(state=State.RUNNING, retries=1), outcomes=failure(Reason.IMAGE)))
    assert (again.state, again.frames[0].phase, again.frames[0].attempt) == (
        State.RETRYING,
        State.WAITING,
        2,
    )


@pytest.mark.parametrize("reason", sorted(UNMENDABLE))
def test_what_a_rerun_cannot_mend_is_not_retried(reason: Reason) -> None:
    assert saved(decide(job(state=State.RUNNING, retries=9), outcomes=failure(reason))).state is State.FAILED


def test_the_last_retry_fails_for_good() -> None:
    spent = job(state=State.RETRYING, retries=1, retried=1, attempt=2)
    failed = (outcome(Ending.FAILED, attempt=2),)
    assert saved(decide(spent, outcomes=failed)).state is State.FAILED


def test_a_stage_error_after_the_deadline_is_added_beside_the_time_limit() -> None:
    limit = JobError(reason=Reason.TIME_LIMIT, message="too late")
    said = JobError(reason=Reason.STAGE, message="container exited with code 2", script="2_x", error="boom")
    late = decide(
        job(state=State.FAILED, error=limit), outcomes=(outcome(Ending.FAILED, of=sidecar(error=said)),)
    )
    error = saved(late).error
    assert error == JobError(reason=Reason.TIME_LIMIT, message="too late", script="2_x", error="boom")
    assert saved(late).frames[0].left_failed_package
    assert decide(job(state=State.FAILED, error=error), outcomes=failure(Reason.STAGE)) == []


def test_the_container_of_a_job_past_its_time_limit_runs_on() -> None:
    assert decide(FAILED, claim=claimed()) == []


def test_what_is_left_of_a_finished_job_is_put_away() -> None:
    for state in (State.FAILED, State.KILLED):
        ended = job(state=state)
        assert decide(ended, queue=queued()) == [
            Withdraw(stem=STEM, etag="q"),
            CleanUp(stem=STEM, claim=None),
        ]
        assert decide(ended, claim=claimed(held=False), outcomes=()) == [
            CleanUp(stem=STEM, claim=claimed(held=False))
        ]


def test_what_a_killed_run_still_leaves_is_archived_and_completes_nothing() -> None:
    assert decide(job(state=State.KILLED), outcomes=(outcome(),)) == [
        Archive(stem=STEM, ending=Ending.COMPLETE, attempt=1)
    ]


def test_a_killed_run_that_a_worker_holds_is_told_to_end() -> None:
    assert decide(job(state=State.KILLED), claim=claimed()) == [
        Interrupt(stem=STEM, attempt=1, action="kill")
    ]


def test_leftovers_of_a_complete_job_are_put_away() -> None:
    done = job(state=State.COMPLETE)
    assert decide(None, claim=claimed(held=False), stranger=done) == [
        CleanUp(stem=STEM, claim=claimed(held=False))
    ]
    assert decide(None, claim=claimed(), stranger=done) == []
    assert decide(None, queue=queued(), stranger=done) == [Withdraw(stem=STEM, etag="q")]


def test_a_package_that_nothing_is_known_of_is_left_alone() -> None:
    assert decide(None, queue=queued(), claim=claimed(held=False, lapsed=True), stranger=None) == []


def test_a_package_of_an_expired_job_is_withdrawn() -> None:
    later = START + timedelta(days=7)
    assert decide(None, queue=queued(), stranger=None, now=later) == [Withdraw(stem=STEM, etag="q")]


TOMB = Tombstone(
    id="0123abcd",
    uid="uid-1",
    stems=(STEM,),
    state=State.RUNNING,
    removed_at=NOW,
    keep_until=NOW + timedelta(days=7),
)


def test_the_run_of_a_removed_job_is_told_to_end_and_its_files_are_swept() -> None:
    assert decide(None, claim=claimed(), stranger=None, tombstone=TOMB, remains=True) == [
        Interrupt(stem=STEM, attempt=1, action="discard"),
        Sweep(tombstone=TOMB, stem=STEM),
    ]


def test_a_package_of_another_job_with_a_removed_jobs_name_is_left_alone() -> None:
    assert decide(None, queue=queued(uid="other"), stranger=None, tombstone=TOMB) == []


def test_a_tombstone_is_forgotten_after_its_time_and_not_while_anything_is_claimed() -> None:
    assert decide(None, tombstone=TOMB) == []
    assert decide(None, tombstone=TOMB, now=TOMB.keep_until) == [Forget(tombstone=TOMB)]
    held = decide(None, claim=claimed(), stranger=None, tombstone=TOMB, now=TOMB.keep_until)
    assert [type(command) for command in held] == [Interrupt]


def many(*owners: str) -> list[Job]:
    return [
        job(id=f"{n:08d}", submitter=owner, submitted_at=START + timedelta(seconds=n))
        for n, owner in enumerate(owners)
    ]


def admitted(jobs: list[Job], seen: Observation | None = None, **more: object) -> list[str]:
    options: dict[str, object] = {"limit": 10, "busy": set[Run](), **more}
    return [a.job.id for a in admissions(jobs, seen or Observation(), NOW, **options)]  # type: ignore[arg-type]


def test_submitters_take_turns_and_within_one_the_oldest_goes_first() -> None:
    jobs = many("ada", "ada", "ada", "bob", "cyd")
    assert admitted(jobs, limit=4) == ["00000000", "00000003", "00000004", "00000001"]


def test_who_has_packages_in_the_queue_or_being_built_comes_later() -> None:
    jobs = many("ada", "ada", "bob")
    in_queue = Observation(queue={"m.9999abcd": queued(owner="ada")})
    assert admitted(jobs, in_queue, limit=2) == ["00000002"]
    assert admitted(jobs, limit=2, busy={("00000000", None)}) == ["00000002"]


def test_no_more_than_the_limit_is_ever_admitted() -> None:
    jobs = many(*["ada"] * 15)
    assert len(admitted(jobs)) == 10
    full = Observation(queue={f"m.{n:08d}": queued() for n in range(12)})
    assert admitted(jobs, full) == []


def test_jobs_put_off_late_or_not_waiting_are_not_admitted() -> None:
    put_off = Postponement(until=NOW + timedelta(seconds=1), tries=1, text="503")
    assert admitted([job(postponed=put_off)]) == []
    assert admitted([job(postponed=replace(put_off, until=NOW))]) == ["0123abcd"]
    assert admitted([job(deadline=NOW)]) == []
    assert admitted([QUEUED]) == []


def test_a_job_is_not_packaged_while_a_package_of_any_attempt_exists() -> None:
    assert admitted([WAITING], Observation(queue={STEM: queued()})) == []
    assert admitted([WAITING], Observation(claims={STEM: claimed(held=False)})) == []
