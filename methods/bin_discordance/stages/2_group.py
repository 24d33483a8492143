"""Gathers the records of each BIN and of each species."""

from barcode.estimate import check
from barcode.job import Job, read_jsonl, run_stage

RECORD_BYTES = 6000  # a used record with its names, several times held
SECONDS = 2e-4


def stage(job: Job) -> None:
    count = job.load("selection")["used"]
    job.save("estimate", check(job, f"{count:,} records", count * RECORD_BYTES, count * SECONDS))
    bins: dict[str, list[int]] = {}
    species: dict[str, dict[str, int]] = {}
    for number, record in enumerate(read_jsonl(job.dir / "records_used.jsonl")):
        bins.setdefault(record["bin_uri"], []).append(number)
        if name := record["species"]:
            of_species = species.setdefault(name, {})
            of_species[record["bin_uri"]] = of_species.get(record["bin_uri"], 0) + 1
        job.progress(number + 1, count, "grouping")
    job.save("bins", bins)
    job.save("species", species)
    print(f"{len(bins):,} BINs, {len(species):,} species")


if __name__ == "__main__":
    run_stage(stage)
