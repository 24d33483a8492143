"""Which file belongs to whom by its name, and which files are orphans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aioanalysis.domain import exchange
from aioanalysis.domain.exchange import Container, Ending, PackageMeta
from aioanalysis.domain.orphans import REMOVABLE, SURE, Kind, Name, OrphanReason, orphaned, read_name

ID = "0123abcd"
STEM = f"distance_summary.{ID}"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
EXPIRY = timedelta(days=7)
SAFE = timedelta(hours=1)


@pytest.mark.parametrize("stem", [STEM, f"{STEM}-1000"])
@pytest.mark.parametrize(
    ("container", "kind", "name"),
    [
        (Container.QUEUE, Kind.PACKAGE, exchange.package_name),
        (Container.RESULTS, Kind.CLAIM, exchange.claim_name),
        (Container.RESULTS, Kind.RESULT, lambda stem: exchange.result_name(stem, Ending.COMPLETE)),
        (Container.RESULTS, Kind.FAILED_RESULT, lambda stem: exchange.result_name(stem, Ending.FAILED)),
        (Container.RESULTS, Kind.SIDECAR, lambda stem: exchange.sidecar_name(stem, Ending.COMPLETE)),
        (Container.RESULTS, Kind.SIDECAR, lambda stem: exchange.sidecar_name(stem, Ending.FAILED)),
        (Container.RESULTS, Kind.CONTROL, exchange.control_name),
        (Container.RESULTS, Kind.PROGRESS, exchange.progress_name),
        (Container.RESULTS, Kind.PROGRESS, exchange.progress_log_name),
        (Container.RESULTS, Kind.SNAPSHOT, exchange.snapshot_name),
        (Container.RESULTS, Kind.ATTEMPT, lambda stem: exchange.attempt_name(stem, 2, ".zip")),
        (Container.RESULTS, Kind.ATTEMPT, lambda stem: exchange.attempt_name(stem, 12, ".killed.zip")),
        (
            Container.RESULTS,
            Kind.ATTEMPT,
            lambda stem: exchange.attempt_name(stem, 1, Ending.FAILED.sidecar_suffix),
        ),
    ],
)
def test_every_name_of_ours_leads_to_its_job(container: Container, kind: Kind, name: Any, stem: str) -> None:
    assert read_name(container, name(stem)) == Name(kind, ID)


def test_a_workers_sign_of_life_is_nobodys_job() -> None:
    assert read_name(Container.RESULTS, exchange.worker_name("host-1.example")) == Name(Kind.WORKER)


@pytest.mark.parametrize(
    ("container", "name"),
    [
        (Container.QUEUE, f"{STEM}.zip"),
        (Container.QUEUE, f"claimed/{STEM}.tar"),
        (Container.QUEUE, "workers/w.json"),
        (Container.QUEUE, f"{STEM}.tar.gz"),
        (Container.QUEUE, f"{STEM}-0.tar"),
        (Container.QUEUE, "distance_summary.0123ABCD.tar"),
        (Container.RESULTS, "notes.txt"),
        (Container.RESULTS, "noop.zip"),
        (Container.RESULTS, f"{STEM}.tar"),
        (Container.RESULTS, f"{STEM}.failed.json"),
        (Container.RESULTS, f"old/{STEM}.zip"),
        (Container.RESULTS, f"claimed/deep/{STEM}.tar"),
        (Container.RESULTS, f"attempts/{STEM}.zip"),
        (Container.RESULTS, f"control/{STEM}.log"),
        (Container.RESULTS, "progress/.json"),
        (Container.RESULTS, "workers/a/b.json"),
        (Container.RESULTS, "doctor/0123abcd"),
    ],
)
def test_whatever_is_not_exactly_ours_is_foreign(container: Container, name: str) -> None:
    assert read_name(container, name) == Name(Kind.FOREIGN)


def judged(name: Name, **changes: Any) -> OrphanReason | None:
    meta = PackageMeta(**{key: changes.pop(key) for key in ("uid", "expires_at") if key in changes})
    values: dict[str, Any] = {
        "modified_at": NOW - timedelta(days=1),
        "held": False,
        "job_uid": None,
        "now": NOW,
        "safe_age": SAFE,
        "job_expiry": EXPIRY,
    }
    return orphaned(name, meta, **{**values, **changes})


RESULT = Name(Kind.RESULT, ID)
OLD = NOW - EXPIRY


@pytest.mark.parametrize(
    ("name", "facts", "reason"),
    [
        (RESULT, {"job_uid": "u", "uid": "u"}, None),
        (RESULT, {"job_uid": "u"}, None),  # an older worker's, which tells no uid
        (RESULT, {"job_uid": "u", "uid": "u", "modified_at": OLD}, None),
        (RESULT, {"job_uid": "", "uid": "x", "modified_at": OLD}, None),  # a record that cannot be read
        (RESULT, {"job_uid": "u", "uid": "x"}, OrphanReason.REPLACED),
        (RESULT, {}, OrphanReason.UNKNOWN),
        (RESULT, {"modified_at": OLD}, OrphanReason.EXPIRED),
        (RESULT, {"modified_at": NOW - SAFE}, OrphanReason.UNKNOWN),
        (RESULT, {"modified_at": NOW - SAFE + timedelta(seconds=1)}, None),
        (RESULT, {"modified_at": OLD, "held": True}, None),
        (Name(Kind.PACKAGE, ID), {"expires_at": NOW}, OrphanReason.EXPIRED),
        (Name(Kind.PACKAGE, ID), {"expires_at": NOW + SAFE, "modified_at": OLD}, OrphanReason.UNKNOWN),
        (Name(Kind.WORKER), {}, None),
        (Name(Kind.WORKER), {"modified_at": OLD}, OrphanReason.WORKER),
        (Name(Kind.FOREIGN), {}, OrphanReason.FOREIGN),
        (Name(Kind.FOREIGN), {"modified_at": NOW}, None),
    ],
)
def test_a_file_is_an_orphan_when_no_job_can_want_it(
    name: Name, facts: dict[str, Any], reason: OrphanReason | None
) -> None:
    assert judged(name, **facts) is reason


def test_foreign_files_are_never_removable_and_unknown_ones_not_unasked() -> None:
    assert set(OrphanReason) - REMOVABLE == {OrphanReason.FOREIGN}
    assert {OrphanReason.UNKNOWN} == REMOVABLE - SURE
