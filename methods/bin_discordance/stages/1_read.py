"""Reads the records: those with a BIN are used, one for each specimen (processid)."""

from barcode.discordance import RANKS
from barcode.job import Job, run_stage
from barcode.judging import judge_all, refuse_fewer
from barcode.records import Record
from barcode.specimens import REASONS, SpecimenSelector
from barcode.taxa import bin_of, clean_name, names_of

NO_BIN = {"no_bin": "no BIN"}


def fault(record: Record) -> tuple[str, str] | None:
    return None if bin_of(record) else ("no_bin", record.text("bin_uri") or "")


def stage(job: Job) -> None:
    exclude_interim = job.parameters["exclude_interim_names"]

    def row(record: Record) -> dict[str, object]:
        names = {rank: clean_name(record.text(rank)) for rank in RANKS}
        names["species"] = names_of(record, exclude_interim=exclude_interim).species
        return {
            "record_id": record.record_id,
            "processid": record.processid,
            "sampleid": record.text("sampleid"),
            "line": record.line,
            "bin_uri": bin_of(record),
            "identification": record.text("identification"),
            "identified_by": record.text("identified_by"),
            "country": record.text("country/ocean"),
            **names,
        }

    selector = SpecimenSelector(fault)
    reasons = {**REASONS, **NO_BIN}
    told = judge_all(job, selector, row, reasons)
    refuse_fewer(selector, 1, told, "There is no BIN to look at")


if __name__ == "__main__":
    run_stage(stage)
