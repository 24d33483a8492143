"""Jobs under anything that storage, clock and users can do to them, in any order.

`LIFECYCLE_STEPS=200000 pytest tests/integration/test_lifecycle_machine.py` is the nightly run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aioanalysis.domain.actions import act, allowed_for, overridden
from aioanalysis.domain.admission import admissions
from aioanalysis.domain.commands import Recover, Save
from aioanalysis.domain.dependencies import Condition, Dependency, Parent
from aioanalysis.domain.exchange import Ending, PackageMeta, RunMark
from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import ClaimedPackage, Observation, Outcome, QueuedPackage
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.planning import reconcile
from aioanalysis.domain.runs import recovered
from aioanalysis.domain.states import FINISHED, TRANSITIONS, Action, Event, InvalidTransition, State
from aioanalysis.domain.why import why
from aioanalysis.errors import Refused
from tests.support.jobs import make_job, make_sidecar

STEPS_EACH = 50
STEPS = int(os.environ.get("LIFECYCLE_STEPS", "5000"))
LIMIT = timedelta(hours=6)
ACTIONS = [a for a in Action if a not in {Action.RESUBMIT, Action.REMOVE, Action.FORCE, Action.OVERRIDE}]

offsets = st.integers(-1, 1)
reasons = st.sampled_from(list(Reason))


class Lifecycle(RuleBasedStateMachine):
    """One job; its storage shows whatever is drawn."""

    job: Job
    now: datetime

    @initialize(
        frames=st.integers(0, 4),
        retries=st.integers(0, 2),
        holds=st.frozensets(st.sampled_from([Hold.USER, Hold.DEPENDENCIES])),
        when=st.sampled_from(list(Condition)),
    )
    def submit(self, frames: int, retries: int, holds: frozenset[Hold], when: Condition) -> None:
        phase = State.BLOCKED if holds else State.WAITING
        numbers: list[int | None] = list(range(1, frames + 1)) or [None]
        runs = tuple(Frame(number=number, phase=phase, holds=holds) for number in numbers)
        after = (Dependency(job="p", when=when),) if Hold.DEPENDENCIES in holds else ()
        self.job = make_job(frames=runs, state=phase, retries=retries, after=after)
        self.now = self.job.submitted_at

    def _became(self, job: Job) -> None:
        """Check what a change may never do, and take it."""
        before = {frame.number: frame for frame in self.job.frames}
        for frame in job.frames:
            assert frame.attempt >= before[frame.number].attempt
            assert frame.recoveries >= 0
        assert job.expires_at == self.job.expires_at
        assert len(job.history) <= 50
        self.job = job

    # --- what a pass sees ---

    @rule(data=st.data(), minutes=st.integers(0, 3), parent=st.sampled_from([None, *State]))
    def look(self, data: st.DataObject, minutes: int, parent: State | None) -> None:
        self.now += timedelta(minutes=minutes)
        queue, claims, outcomes = {}, {}, {}
        for frame in self.job.frames:
            stem = self.job.stem(frame)
            if data.draw(st.booleans()):
                queue[stem] = QueuedPackage(meta=self._meta(frame, data.draw(offsets)), etag="q")
            if data.draw(st.booleans()):
                kind = data.draw(st.sampled_from(["held", "free", "released", "lapsed"]))
                claims[stem] = ClaimedPackage(
                    meta=self._meta(frame, data.draw(offsets)),
                    etag="c",
                    held=kind == "held",
                    lapsed=kind == "lapsed",
                    released=kind == "released",
                )
            if data.draw(st.booleans()):
                endings = data.draw(st.lists(st.sampled_from(list(Ending)), unique=True, max_size=2))
                outcomes[stem] = [self._outcome(frame, ending, data) for ending in endings]
        parents = {} if parent is None else {"p": Parent(state=parent, frames={1: parent})}
        seen = Observation(queue=queue, claims=claims, outcomes=outcomes, parents=parents)
        self._pass(seen)

    def _meta(self, frame: Frame, offset: int) -> PackageMeta:
        return PackageMeta(uid=self.job.uid, attempt=max(1, frame.attempt + offset), worker="w")

    def _outcome(self, frame: Frame, ending: Ending, data: st.DataObject) -> Outcome:
        attempt = max(1, frame.attempt + data.draw(offsets))
        error = JobError(reason=data.draw(reasons), message="x") if ending is Ending.FAILED else None
        readable = data.draw(st.booleans())
        uid = data.draw(st.sampled_from([self.job.uid, None, "another"]))
        return Outcome(
            ending=ending,
            mark=RunMark(uid=uid, attempt=attempt),
            sidecar=make_sidecar(error=error) if readable else None,
            problem="" if readable else "not JSON",
        )

    def _pass(self, seen: Observation) -> None:
        before = self.job
        work = reconcile(before, seen, self.now, max_recoveries=3, wrangle_failures=2)
        saves = [c for c in work.commands if isinstance(c, Save)]
        assert len(saves) <= 1
        for save in saves:
            self._allowed(before, save.job)
            self._became(save.job)
        for command in work.commands:
            if isinstance(command, Recover):
                self._recover(command)
        assert before.state is not State.COMPLETE or self.job.state is State.COMPLETE

    def _recover(self, command: Recover) -> None:
        frame = self.job.frame(command.number)
        assert frame is not None
        back = recovered(frame, command.claim, self.now)
        if back is not None:
            assert (back.attempt, back.recoveries) == (command.claim.meta.attempt + 1, frame.recoveries + 1)
            assert back.recoveries <= 3
            self._became(self.job.noted("lease", by="t", at=self.now, frames=self.job.with_frame(back)))

    def _allowed(self, before: Job, after: Job) -> None:
        """Each run went where some cell of its row leads, or was held by wrangling."""
        runs = {frame.number: frame for frame in before.frames}
        for frame in after.frames:
            phase = runs[frame.number].phase
            cells = {TRANSITIONS[phase][event.value] for event in Event}
            reachable = {phase.value if cell == "." else cell for cell in cells}
            if "retrying" in reachable:  # shown so; the run itself waits or is queued
                reachable |= {"waiting", "queued"}
            if before.has_frames and phase in {State.WAITING, State.QUEUED}:
                reachable |= {"blocked"}
                reachable |= {cell for cell in TRANSITIONS[State.QUEUED].values() if cell in set(State)}
            assert frame.phase.value in reachable, (phase, frame.phase)

    # --- what users do ---

    @rule(action=st.sampled_from(ACTIONS), all_frames=st.booleans())
    def control(self, action: Action, all_frames: bool) -> None:
        fitting = allowed_for(self.job)
        try:
            changed = act(self.job, action, by="u", now=self.now, time_limit=LIMIT, all_frames=all_frames)
        except InvalidTransition:
            assert action not in fitting or (action is Action.RETRY and not all_frames)
        except Refused:
            assert self.job.expires_at - self.now < timedelta(minutes=1)
        else:
            assert action in fitting or (action is Action.RETRY and all_frames)
            assert changed.deadline <= changed.expires_at
            self._became(changed)

    @rule(to=st.sampled_from(list(State)))
    def override(self, to: State) -> None:
        changed = overridden(self.job, to, by="system", now=self.now)
        assert changed.state is to
        self._became(changed)

    @rule(hours=st.integers(1, 8))
    def time_passes(self, hours: int) -> None:
        self.now += timedelta(hours=hours)

    # --- what always holds ---

    @invariant()
    def an_unfinished_job_says_why(self) -> None:
        reason = why(self.job, self.now)
        assert (reason is None) == (self.job.state in FINISHED)
        assert reason is None or reason.text

    @invariant()
    def a_failed_run_says_why(self) -> None:
        for frame in self.job.frames:
            overridden_by_hand = any(event.event == "override" for event in self.job.history)
            assert frame.phase is not State.FAILED or frame.error is not None or overridden_by_hand

    @invariant()
    def only_waiting_runs_are_admitted(self) -> None:
        for admit in admissions([self.job], Observation(), self.now, limit=10, busy=set()):
            frame = self.job.frame(admit.number)
            assert frame is not None
            assert frame.phase is State.WAITING

    @invariant()
    def the_deadline_holds(self) -> None:
        if self.now < self.job.deadline or self.job.state in FINISHED:
            return
        late = reconcile(self.job, Observation(), self.now, max_recoveries=3).commands
        (save,) = [command for command in late if isinstance(command, Save)]
        assert all(frame.is_finished for frame in save.job.frames)

    @invariant()
    def a_pass_that_sees_nothing_new_changes_nothing(self) -> None:
        waits_for_others = any(Hold.DEPENDENCIES in frame.holds for frame in self.job.frames)
        if self.now >= self.job.deadline or waits_for_others:
            return
        again = reconcile(self.job, Observation(), self.now, max_recoveries=3).commands
        settled = [command for command in again if isinstance(command, Save)]
        for save in settled:  # a state set by hand that the runs do not make
            assert replace(save.job, state=self.job.state).frames == self.job.frames


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=max(1, STEPS // STEPS_EACH),
    stateful_step_count=STEPS_EACH,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
