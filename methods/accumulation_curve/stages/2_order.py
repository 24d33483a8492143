"""Makes the curves' samples: for each unit and group the kinds in order of submission, as numbers."""

from typing import Any

from barcode.job import Job, read_jsonl, run_stage
from barcode.size import must_fit

BASE_BYTES = 64 << 20  # the interpreter with numpy
RECORD_BYTES = 2500
ORDER_SECONDS = 3e-7  # for one sample in one order
EXACT_SECONDS = 2e-8  # for one sample and one of the different sizes of kinds, or of two together


def stage(job: Job) -> None:
    records, chosen = read_jsonl(job.dir / "records_used.jsonl"), job.parameters
    records.sort(key=lambda one: (one["submitted"] is None, one["submitted"] or ""))
    undated = sum(one["submitted"] is None for one in records)
    if undated and chosen["order"] == "submission":
        job.note(
            "note",
            f"Records without processid_minted_date: {undated} of {len(records)}; they come last, as in the "
            "file.",
        )
    groups: dict[str | None, list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["group"], []).append(record)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0] or ""))
    units = job.load("units")
    kept = ranked[: max(1, chosen["max_curves"] // len(units))]
    if dropped := ranked[len(kept) :]:
        names = ", ".join(f"{name} ({len(of_group)})" for name, of_group in dropped[:20])
        job.note(
            "warning",
            f"Groups without a curve, as there are more than max_curves: {len(dropped)}: {names}"
            f"{' and more' if len(dropped) > 20 else ''}.",
        )
    curves = [curve(unit, group, of_group) for group, of_group in kept for unit in units]
    for one in curves:
        if one["without"]:
            told = f" of {one['group']}" if one["group"] else ""
            unit, together = one["unit"].removesuffix("_uri"), one["without"] + len(one["samples"])
            job.note(
                "note",
                f"Samples{told} without {unit}, left out of that curve: {one['without']} of {together}.",
            )
    orders = chosen["iterations"]
    sizes = [len(one["samples"]) for one in curves]
    needed = BASE_BYTES + len(records) * RECORD_BYTES + 40_000 * orders
    seconds = sum(sizes) * ORDER_SECONDS * orders + sum(size**1.5 for size in sizes) * EXACT_SECONDS
    what = f"{sum(sizes):,} samples and {orders:,} random orders"
    job.save("estimate", must_fit(job, what, memory_bytes=needed, seconds=seconds))
    job.save("curves", curves)


def curve(unit: str, group: str | None, records: list[dict[str, Any]]) -> dict[str, Any]:
    kinds: dict[str, int] = {}
    samples = [kinds.setdefault(one[unit], len(kinds)) for one in records if one[unit]]
    return {
        "unit": unit,
        "group": group,
        "samples": samples,
        "kinds": list(kinds),
        "without": len(records) - len(samples),
    }


if __name__ == "__main__":
    run_stage(stage)
