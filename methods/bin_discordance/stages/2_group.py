"""Gathers the records of each BIN and of each species."""

from barcode.job import Job, read_jsonl, run_stage
from barcode.size import must_fit

BASE_BYTES = 64 << 20  # the interpreter with numpy
RECORD_BYTES = 6000  # a used record with its names, several times held
SECONDS = 2e-4


def stage(job: Job) -> None:
    count = job.load("selection")["used"]
    needs = must_fit(
        job, f"{count:,} records", memory_bytes=BASE_BYTES + count * RECORD_BYTES, seconds=count * SECONDS
    )
    job.save("estimate", needs)
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
