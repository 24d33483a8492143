"""Reads the records: a sample is a specimen (processid) with a value of what is counted."""

from barcode.job import Job, run_stage
from barcode.judging import judge_all, refuse_fewer
from barcode.records import Record
from barcode.specimens import REASONS, SpecimenSelector
from barcode.taxa import bin_of, clean_name, names_of

ALL = ("species", "genus", "subfamily", "bin_uri")
REASONS = {
    **REASONS,
    "no_value": "nothing of what is counted is named",
    "no_group": "no value of the field that the curves are made by",
}


def stage(job: Job) -> None:
    chosen = job.parameters
    field, group_by = chosen["extra_info_field"], chosen["group_by"]
    units = ALL if chosen["count"] == "all" else (chosen["count"],)

    def value(record: Record, unit: str) -> str | None:
        if unit == "species":
            return names_of(record, exclude_interim=chosen["exclude_interim_names"]).species
        if unit == "bin_uri":
            return bin_of(record)
        return clean_name(record.text(field if unit == "extra_info" else unit))

    def fault(record: Record) -> tuple[str, str] | None:
        if not any(value(record, unit) for unit in units):
            return "no_value", ""
        if group_by != "none" and not clean_name(record.text(group_by)):
            return "no_group", group_by
        return None

    def row(record: Record) -> dict[str, object]:
        return {
            "record_id": record.record_id,
            "processid": record.processid,
            "line": record.line,
            "submitted": record.text("processid_minted_date"),
            "group": None if group_by == "none" else clean_name(record.text(group_by)),
            **{unit: value(record, unit) for unit in units},
        }

    selector = SpecimenSelector(fault)
    told = judge_all(job, selector, row, REASONS)
    what = field if chosen["count"] == "extra_info" else chosen["count"]
    refuse_fewer(selector, 1, told, f"No sample has a value to count ({what})")
    job.save("units", units)
    job.save("reasons", REASONS)


if __name__ == "__main__":
    run_stage(stage)
