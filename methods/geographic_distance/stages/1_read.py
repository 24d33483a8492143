"""Reads the records: those with a sequence, coordinates and a name that enough others share are used."""

from collections import Counter

from barcode.job import Job, run_stage
from barcode.judging import judge_all, refuse_fewer
from barcode.reading import selector_of, used_row
from barcode.records import BadLine, Record, read_records
from barcode.selection import REASONS, LeftOut, Selector, Used
from barcode.taxa import bin_of, names_of

REASONS = {
    **REASONS,
    "no_group": "no name to group by",
    "no_coordinates": "no coordinates",
    "bad_coordinates": "coordinates that cannot be read",
    "small_group": "fewer usable records of that name than min_records",
}


class PlacedSelector:
    """Asks for coordinates, a name and, where `sizes` are given, enough of that name as well."""

    def __init__(self, job: Job, sizes: Counter[str] | None = None) -> None:
        self.inner: Selector = selector_of(job)
        self.chosen, self.sizes = job.parameters, sizes
        self.counts, self.other_markers = self.inner.counts, self.inner.other_markers
        self.read = self.used = 0

    @property
    def unexpected_letters(self) -> int:
        return self.inner.unexpected_letters

    def judge(self, item: Record | BadLine) -> Used | LeftOut:
        self.read += 1
        found = self.inner.judge(item)
        if isinstance(found, LeftOut) or isinstance(item, BadLine):
            return found
        if reason := self.why_not(item):
            self.counts[reason[0]] += 1
            return LeftOut(
                record_id=item.record_id,
                processid=item.processid,
                line=item.line,
                reason=reason[0],
                detail=reason[1],
            )
        self.used += 1
        return found

    def group(self, record: Record) -> str | None:
        if self.chosen["group_by"] == "bin_uri":
            return bin_of(record)
        names = names_of(record, exclude_interim=self.chosen["exclude_interim_names"])
        return names.genus if self.chosen["group_by"] == "genus" else names.species

    def why_not(self, record: Record) -> tuple[str, str] | None:
        name = self.group(record)
        if not name:
            return "no_group", self.chosen["group_by"]
        if record.coord is None:
            told = record.text("coord")
            return ("bad_coordinates", told[:100]) if told else ("no_coordinates", "")
        if self.sizes is not None and self.sizes[name] < self.chosen["min_records"]:
            return "small_group", f"{name}: {self.sizes[name]}"
        return None


def stage(job: Job) -> None:
    first = PlacedSelector(job)
    sizes: Counter[str] = Counter()
    for item in read_records(job.dir / "records.jsonl"):
        found = first.judge(item)
        if isinstance(found, Used):
            sizes[first.group(found.record) or ""] += 1
            job.progress(first.used, first.read, "counting records of each name")
    selector = PlacedSelector(job, sizes)
    nowhere = []
    with (job.work / "sequences.txt").open("wb") as sequences:

        def row(item: Used) -> dict[str, object]:
            sequences.write(item.letters.tobytes() + b"\n")
            if item.record.coord == (0.0, 0.0):
                nowhere.append(item.record.record_id)
            row = used_row(item, exclude_interim=job.parameters["exclude_interim_names"])
            return {**row, "group": selector.group(item.record), "coord": item.record.coord}

        told = judge_all(job, selector, row, REASONS)
    least, group_by = job.parameters["min_records"], job.parameters["group_by"]
    what = f"No {group_by} has {least} records with sequence and coordinates"
    refuse_fewer(selector, least, told, what, job.parameters["marker"])
    if nowhere:
        job.note(
            "warning", f"Records at latitude 0, longitude 0: {', '.join(nowhere[:10])}: a default value?"
        )
    job.save("reasons", REASONS)


if __name__ == "__main__":
    run_stage(stage)
