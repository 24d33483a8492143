"""Reads the records, decides which are exported, and finds out which columns they have."""

import numpy as np
from barcode.export import Columns
from barcode.job import Job, run_stage
from barcode.judging import judge_all, refuse_fewer
from barcode.records import Record
from barcode.specimens import REASONS as OF_SPECIMENS
from barcode.specimens import SpecimenSelector

REASONS = {
    "bad_line": OF_SPECIMENS["bad_line"],
    "duplicate": OF_SPECIMENS["duplicate"],
    "no_marker": "no marker is named",
    "other_marker": "another marker",
    "no_sequence": "no sequence",
}


def stage(job: Job) -> None:
    wanted, sequence_only = job.parameters["marker"].strip(), job.parameters["with_sequence_only"]
    columns = Columns()
    lines: list[int] = []

    def fault(record: Record) -> tuple[str, str] | None:
        marker = record.marker
        if wanted and marker is None:
            return "no_marker", ""
        if wanted and marker and marker.casefold() != wanted.casefold():
            selector.other_markers[marker] += 1
            return "other_marker", marker
        if sequence_only and record.sequence is None:
            return "no_sequence", record.not_a_sequence or ""
        return None

    def row(record: Record) -> dict[str, object]:
        columns.add(record.values)
        lines.append(record.line)
        return {
            "record_id": record.record_id,
            "processid": record.processid,
            "line": record.line,
            "marker_code": record.marker,
            "has_sequence": record.sequence is not None,
        }

    selector = SpecimenSelector(fault, once=False)
    told = judge_all(job, selector, row, REASONS)
    refuse_fewer(selector, 1, told, "There is nothing to export", wanted or None)
    np.save(job.work / "lines.npy", np.array(lines, np.int64))
    job.save("columns", columns.ordered())
    job.save("reasons", REASONS)


if __name__ == "__main__":
    run_stage(stage)
