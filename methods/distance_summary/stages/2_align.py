"""Aligns the sequences (alignment.fasta) and looks for those that do not fit the others."""

import numpy as np
from barcode.alignment import align
from barcode.distances import median_p
from barcode.job import Job, read_jsonl, run_stage
from barcode.sequences import encode
from barcode.tables import cell

FAR = 0.35  # median p-distance to the others beyond which a sequence is doubtful
ENOUGH = 4  # sequences, so that a median means something


def stage(job: Job) -> None:
    with (job.work / "sequences.txt").open("rb") as file:
        sequences = [np.frombuffer(line.rstrip(b"\n"), np.uint8) for line in file]
    records = read_jsonl(job.dir / "records_used.jsonl")

    def progress(done: int, total: int) -> None:
        job.progress(done * len(records) // max(total, 1), len(records), "aligning")

    alignment = align(sequences, job.parameters["alignment"], progress)
    np.save(job.work / "alignment.npy", alignment.letters)
    rows, columns = alignment.letters.shape
    print(f"{rows} sequences, {columns} columns; alignment: {alignment.how}")
    with (job.dir / "alignment.fasta").open("wb") as fasta:
        for record, letters in zip(records, alignment.letters, strict=True):
            name = "_".join(cell(record["record_id"]).split()) or "unnamed"
            fasta.write(f">{name}\n".encode() + letters.tobytes() + b"\n")
    for text in alignment.notes:
        job.note("warning", text)
    medians = median_p(encode(alignment.letters)) if rows >= ENOUGH else np.full(rows, np.nan)
    doubtful = [
        {"record_id": record["record_id"], "median_p_percent": 100 * median}
        for record, median in zip(records, medians, strict=True)
        if median > FAR
    ]
    job.save("alignment", {"how": alignment.how, "columns": columns, "doubtful": doubtful})
    if doubtful:
        first = ", ".join(str(one["record_id"]) for one in doubtful[:10])
        job.note(
            "warning",
            f"{len(doubtful)} sequences differ from half of the others at more than {FAR:.0%} of sites: "
            f"a wrong alignment, a reversed sequence or a contaminant? They were used: {first}"
            + (" and more." if len(doubtful) > 10 else "."),
        )


if __name__ == "__main__":
    run_stage(stage)
