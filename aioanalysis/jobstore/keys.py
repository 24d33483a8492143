"""The names of all our keys in Redis, under one prefix."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names; scores of the sorted sets are microseconds since 1970.

    ::

        job:<id>          hash     uid, version, doc, key (sealed), expires_at; the only key of a record, expires with it
        jobs              zset     id by submission, every job
        jobs:<submitter>  zset     id by submission, one submitter's
        unfinished        zset     id by submission, every job that is not complete
        last_pass         string   when the scheduler last looked at all that is unfinished (`last_updated`)
        token:<digest>    string   what a client's token stands for, expires
        attached:<id>:<n> string   a chunk of attached records, expires
        attached          zset     id of an attachment by its expiry (ms)
        attached_sizes    hash     id of an attachment -> bytes:chunks
        events            stream   the latest changes of jobs
        progress:<id>     hash     run (its frame's number, or empty) -> how far it last was, expires
        progress          stream   the latest news of these
        outlooks          hash     id -> what the scheduler foresees of an unfinished job, expires
        past_runs         hash     title -> how long its latest runs took, by their number of records
        session:<digest>  string   a browser's sign-in (sealed), expires
        tombstones        hash     uid -> what is left of a removed job
        methods           hash     title -> health of a method whose packages fail in a row
        lock              string   token of the scheduler that holds the lock, expires
        fence             hash     n, token: number and token of the newest holder
        bell              channel  wakes the schedulers
    """  # noqa: E501 - a table

    prefix: str

    @property
    def records(self) -> str:
        """What every record's key begins with."""
        return f"{self.prefix}job:"

    def job(self, job_id: str) -> str:
        return f"{self.records}{job_id}"

    def submitter(self, name: str) -> str:
        return f"{self.jobs}:{quote(name, safe='', errors='surrogatepass')}"

    @property
    def jobs(self) -> str:
        return f"{self.prefix}jobs"

    @property
    def unfinished(self) -> str:
        return f"{self.prefix}unfinished"

    @property
    def last_pass(self) -> str:
        return f"{self.prefix}last_pass"

    def token(self, token: str) -> str:
        return f"{self.prefix}token:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def attached_chunk(self, attachment: str, number: int) -> str:
        return f"{self.attached}:{attachment}:{number}"

    @property
    def attached(self) -> str:
        return f"{self.prefix}attached"

    @property
    def attached_sizes(self) -> str:
        return f"{self.prefix}attached_sizes"

    @property
    def events(self) -> str:
        return f"{self.prefix}events"

    @property
    def progress(self) -> str:
        return f"{self.prefix}progress"

    def progress_of(self, job_id: str) -> str:
        return f"{self.progress}:{job_id}"

    @property
    def outlooks(self) -> str:
        return f"{self.prefix}outlooks"

    @property
    def past_runs(self) -> str:
        return f"{self.prefix}past_runs"

    def session(self, token: str) -> str:
        return f"{self.prefix}session:{hashlib.sha256(token.encode('utf-8', 'surrogatepass')).hexdigest()}"

    @property
    def tombstones(self) -> str:
        return f"{self.prefix}tombstones"

    @property
    def methods(self) -> str:
        return f"{self.prefix}methods"

    @property
    def lock(self) -> str:
        return f"{self.prefix}lock"

    @property
    def fence(self) -> str:
        return f"{self.prefix}fence"

    @property
    def bell(self) -> str:
        return f"{self.prefix}bell"
