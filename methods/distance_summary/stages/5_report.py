"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode.distances import MODEL_NAMES
from barcode.job import Job, read_jsonl, run_stage
from barcode.levels import LABELS, RANKS
from barcode.plots import Series, histograms
from barcode.report import Report
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS

COLOURS = {"species": "c1", "genus": "c2", "family": "c3"}
PLURALS = {"species": "Species", "genus": "Genera", "family": "Families"}
FILES = {"species": "species.tsv", "genus": "genera.tsv", "family": "families.tsv"}
EXTREMES = {
    "species": "Largest distances within species: misidentified, mislabelled or hidden species?",
    "genus": "Smallest distances between species of a genus: no barcode gap here?",
    "family": "Smallest distances between genera of a family",
}
FORMULAS = """n   sites where both sequences have A, C, G or T (U is T); anything else is missing
P   transitions / n        Q   transversions / n        p   P + Q

p     p
jc69  -3/4 ln(1 - 4p/3)                       none where p >= 3/4 (saturated)
k2p   -1/2 ln(1 - 2P - Q) - 1/4 ln(1 - 2Q)    none where an argument is <= 0 (saturated)

SE    standard deviation (n - 1) / square root of the number of comparisons"""
SOURCES = (
    "Kimura (1980) J Mol Evol 16:111-120; Jukes and Cantor (1969) in Mammalian Protein Metabolism; missing "
    "bases as in ape's dist.dna. Within Species: the same species. Within Genus: the same genus, different "
    "species. Within Family: the same family, different genus. A pair without a common site, with fewer than "
    "min_overlap, or saturated has no distance and is counted apart. Normalised by species: the mean of each "
    "species with two or more sequences first, then mean and standard error of those means; a species with "
    "many sequences counts no more than another."
)


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def stage(job: Job) -> None:
    alignment, results, pairs = job.load("alignment"), job.load("results"), job.load("pairs")
    chosen = job.parameters
    report = begin(
        job,
        f"{chosen['marker']} · {MODEL_NAMES[chosen['distance_model']]} · {chosen['deletion']} deletion",
        {
            "Different sequences": results["distinct"],
            "Columns compared": results["columns_compared"],
            "Pairs": pairs["total"],
        },
    )
    summary_table(report, results["levels"])
    figures(report, results)
    for rank in RANKS:
        taxon_table(report, rank, results["taxa"][rank])
    records = {record["record_id"]: record for record in read_jsonl(job.dir / "records_used.jsonl")}
    extreme_tables(report, job.load("extremes"), pairs, records)
    left_out(report, job, REASONS)
    told = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    how(report, job, lines=[told], formulas=FORMULAS, sources=SOURCES)
    distances = {
        "pairs": pairs["total"],
        "pairs_listed": pairs["listed"],
        "columns_compared": results["columns_compared"],
        "different_sequences": results["distinct"],
        "undefined": results["levels"]["all"]["undefined"],
    }
    finish(report, job, alignment=alignment, distances=distances, estimate=results["estimate"])


def summary_table(report: Report, levels: dict[str, Any]) -> None:
    report.section("Divergence by level")
    columns = (
        "Label",
        "n",
        "Taxa",
        "Comparisons",
        "Min Dist %",
        "Mean Dist %",
        "Max Dist %",
        "SE Dist %",
        "Undefined",
    )
    labels = {**LABELS, "all": "All pairs"}
    rows: list[tuple[object, ...]] = []
    for name, label in labels.items():
        row = levels[name]
        figures = [percent(row[key]) for key in ("min", "mean", "max", "se")]
        undefined = sum(row["undefined"].values())
        rows.append((label, row["sequences"], row["taxa"], row["comparisons"], *figures, undefined))
    species = levels["species"]
    sd = species["sd_of_taxon_means"]
    mean, se = percent(species["mean_of_taxon_means"]), percent(sd and sd / species["taxa"] ** 0.5)
    normalised = ("… normalised by species", species["sequences"], species["taxa"], species["comparisons"])
    rows.insert(1, (*normalised, None, mean, None, se, None))
    digits = dict.fromkeys(columns[4:8], 3)
    report.table(
        columns,
        rows,
        digits=digits,
        caption="Distances in %. n: sequences in any comparison. Undefined: pairs without a distance.",
    )


def figures(report: Report, results: dict[str, Any]) -> None:
    width = results["bin_percent"]
    levels = [
        Series(label=LABELS[r], heights=results["histogram"][n], colour=COLOURS[r])
        for n, r in enumerate(RANKS)
    ]
    report.section("Distribution of distances")
    report.figure(
        histograms(levels, bin_width=width, x_label="distance (%)", y_label="comparisons"),
        "Comparisons by distance. Each panel has a scale of its own; the figures are in histogram.tsv.",
    )
    shares = [100 * share for share in results["normalised"]]
    one = Series(label="Within Species, normalised by species", heights=shares, colour="c1")
    report.figure(
        histograms([one], bin_width=width, x_label="distance (%)", y_label="share of comparisons (%)"),
        "Each species counts the same, however many sequences it has: the share of its comparisons in each "
        "bin, averaged over the species with two or more sequences.",
    )


def taxon_table(report: Report, rank: str, taxa: list[dict[str, Any]]) -> None:
    report.section(f"{PLURALS[rank]}: {LABELS[rank].lower()}")
    compared = sorted((t for t in taxa if t["comparisons"] or t["undefined"]), key=lambda t: -(t["max"] or 0))
    alone = len(taxa) - len(compared)
    if alone:
        wanted = {"species": "one sequence", "genus": "one named species", "family": "one named genus"}[rank]
        report.paragraph(f"{alone:,} of {len(taxa):,} have {wanted} only and nothing to compare.", small=True)
    columns = (
        rank.capitalize(),
        "Sequences",
        "Comparisons",
        "Min Dist %",
        "Mean Dist %",
        "Max Dist %",
        "SE Dist %",
    )
    rows = [
        (
            t["name"],
            t["sequences"],
            t["comparisons"],
            *(percent(t[key]) for key in ("min", "mean", "max", "se")),
        )
        for t in compared
    ]
    if rows:
        report.table(columns, rows, digits=dict.fromkeys(columns[3:], 3), whole=FILES[rank])


def extreme_tables(
    report: Report,
    extremes: dict[str, list[list[Any]]],
    pairs: dict[str, Any],
    records: dict[str, dict[str, Any]],
) -> None:
    report.section("Pairs to look at")
    report.paragraph(
        "Sites: common known bases. Ts, Tv: transitions and transversions among them.", small=True
    )
    for rank, caption in EXTREMES.items():
        below = "genus" if rank == "family" else "species"
        names = (
            [below.capitalize()]
            if rank == "species"
            else [below.capitalize(), f"{below.capitalize()} compared"]
        )
        columns = ("Record", "Record compared", *names, "Sites", "Ts", "Tv", "Dist %")
        rows = []
        for a, b, _, sites, ts, tv, distance, _ in extremes[rank]:
            taxa = [records[record][below] for record in (a, b)][: len(names)]
            rows.append((a, b, *taxa, sites, ts, tv, distance))
        if rows:
            report.table(columns, rows, caption=caption, digits={"Dist %": 3})
    if not any(extremes.values()):
        report.paragraph("No pair shares a species, a genus or a family.")
    if pairs["whole"]:
        report.paragraph(f"All {pairs['total']:,} pairs are in pairs.tsv.", small=True)
    else:
        report.paragraph(
            f"There are {pairs['total']:,} pairs, more than pair_list_limit. pairs_top.tsv has "
            f"{pairs['listed']:,}: the farthest within species, the nearest within genus and within family.",
            small=True,
        )


if __name__ == "__main__":
    run_stage(stage)
