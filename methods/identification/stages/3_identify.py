"""Names each query: identification.tsv and .jsonl, hits.tsv."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from barcode.identify import RANKS, STATUSES, Hit, Verdict, best, judge, order
from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.tables import write_tsv

LEFT_OUT = {"no_sequence": "no sequence", "no_known_base": "no sequence", "too_short": "too short"}
COLUMNS = (
    "query_record_id",
    "query_processid",
    "query_identification",
    "status",
    "name",
    "name_rank",
    "names_within_threshold",
    "hits_within_threshold",
    "best_identity_percent",
    "best_overlap_bp",
    "best_hits",
    "best_names",
    "best_bins",
    "suggested_name",
    "suggested_rank",
    "agrees_with_own_species",
    "pass",
    "flags",
    "known_bases",
    "ambiguous_percent",
)
HITS = (
    "query_record_id",
    "query_processid",
    "hit",
    "identity_percent",
    "overlap_bp",
    "differences",
    "record_id",
    "processid",
    "bin_uri",
    "identification",
    *RANKS,
    "strand",
)
Row = dict[str, Any]


def stage(job: Job) -> None:
    rows = read_jsonl(job.dir / "records_used.jsonl")
    queries = [row for row in rows if row["role"] != "library"]
    results: list[Row] = []
    written = write_tsv(job.dir / "hits.tsv", HITS, hit_rows(job, queries, results))
    results += left_out_rows(job)
    write_tsv(job.dir / "identification.tsv", COLUMNS, ([row[c] for c in COLUMNS] for row in results))
    write_jsonl(job.dir / "identification.jsonl", results)
    statuses = Counter(row["status"] for row in results)
    agreeing = Counter(row["agrees_with_own_species"] for row in results)
    job.save(
        "results",
        {
            "queries": len(results),
            "statuses": {status: statuses[status] for status in STATUSES},
            "hits_listed": written,
            "own_species_agrees": agreeing["yes"],
            "own_species_disagrees": agreeing["no"],
        },
    )
    print(", ".join(f"{status} {count:,}" for status, count in statuses.items()))
    notes(job, results)


def hit_rows(job: Job, queries: list[Row], results: list[Row]) -> Iterator[list[object]]:
    """The listed hits of each query; `results` gets a row for each query on the way."""
    search, found = job.load("search"), read_jsonl(job.work / "hits.jsonl")
    members, library = job.load("members"), read_jsonl(job.work / "library_rows.jsonl")
    most, threshold = job.parameters["max_hits"], job.parameters["match_identity_percent"]
    expanded: dict[int, list[Hit]] = {}
    for done, query in enumerate(queries):
        number = search["of_query"][query["record_id"]]
        if number not in expanded:
            expanded[number] = expand(found[number]["hits"], members, library, most, threshold)
        hits = [hit for hit in expanded[number] if not own(query, hit.row)]
        verdict = judge(hits, threshold)
        results.append(result_row(job, query, hits, verdict, found[number]["pass"]))
        ids = [query["record_id"], query["processid"]]
        for place, hit in enumerate(hits[:most], 1):
            record = [hit.row[key] for key in ("record_id", "processid", "bin_uri", "identification", *RANKS)]
            strand = "reverse" if hit.reverse else "forward"
            yield [*ids, place, hit.identity, hit.sites, hit.differences, *record, strand]
        job.progress(done + 1, len(queries), "naming")


def own(query: Row, row: Any) -> bool:
    same = query["processid"] is not None and query["processid"] == row["processid"]
    return same or bool(query["record_id"] == row["record_id"])


def expand(
    found: list[list[Any]], members: list[list[int]], library: list[Row], most: int, threshold: float
) -> list[Hit]:
    """The library's records of each sequence found, in order: all within the threshold, and `most` beyond."""
    hits: list[Hit] = []
    beyond = 0
    for target, sites, differences, reverse in found:
        near = 100.0 * (sites - differences) / sites >= threshold - 1e-9
        if not near and beyond > most:
            break
        beyond += 0 if near else len(members[target])
        hits += [
            Hit(row=library[n], sites=sites, differences=differences, reverse=reverse)
            for n in members[target]
        ]
    return sorted(hits, key=order)


def result_row(job: Job, query: Row, hits: list[Hit], verdict: Verdict, searched: int) -> Row:
    top = best(hits)
    name = next(iter(verdict.names)) if verdict.status == "match" else None
    flags = []
    if query["ambiguous_percent"] > job.parameters["flag_ambiguous_percent"]:
        flags.append("ambiguous bases")
    if top and top[0].reverse:
        flags.append("reverse complement")
    if verdict.within and not verdict.names:
        flags.append("hits without a name")
    suggested = verdict.suggestion or (None, None)
    return {
        "query_record_id": query["record_id"],
        "query_processid": query["processid"],
        "query_identification": query["identification"],
        "status": verdict.status,
        "name": name,
        "name_rank": verdict.rank,
        "names_within_threshold": counted(verdict.names) or None,
        "hits_within_threshold": verdict.within,
        "best_identity_percent": top[0].identity if top else None,
        "best_overlap_bp": top[0].sites if top else None,
        "best_hits": len(top),
        "best_names": counted(Counter(str(hit.row["identification"] or "no name") for hit in top)) or None,
        "best_bins": counted(Counter(hit.row["bin_uri"] for hit in top if hit.row["bin_uri"])) or None,
        "suggested_name": suggested[1],
        "suggested_rank": suggested[0],
        "agrees_with_own_species": agrees(query, verdict),
        "pass": searched,
        "flags": "; ".join(flags) or None,
        "known_bases": query["known_bases"],
        "ambiguous_percent": query["ambiguous_percent"],
    }


def counted(names: Counter[str]) -> str:
    ordered = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    return "|".join(f"{name} ({count})" for name, count in ordered)


def agrees(query: Row, verdict: Verdict) -> str | None:
    """Whether a match on a species is the query's own name; None where one of the two is missing."""
    if verdict.status != "match" or verdict.rank != "species" or not query["species"]:
        return None
    return "yes" if query["species"] in verdict.names else "no"


def left_out_rows(job: Job) -> Iterator[Row]:
    """Queries that could not be searched for have a status too."""
    for one in read_jsonl(job.dir / "records_left_out.jsonl"):
        if one["reason"] in LEFT_OUT:
            row: Row = dict.fromkeys(COLUMNS)
            row |= {"query_record_id": one["record_id"], "query_processid": one["processid"]}
            row["flags"] = one["detail"] or None
            yield row | {"status": LEFT_OUT[one["reason"]], "hits_within_threshold": 0, "best_hits": 0}


def notes(job: Job, results: list[Row]) -> None:
    reversed_ones = [row["query_record_id"] for row in results if "reverse" in (row["flags"] or "")]
    if reversed_ones:
        told = ", ".join(reversed_ones[:10])
        job.note("warning", f"Queries found on the other strand only: {len(reversed_ones)} ({told}).")
    flagged = sum("ambiguous" in (row["flags"] or "") for row in results)
    if flagged:
        limit = job.parameters["flag_ambiguous_percent"]
        job.note("note", f"Queries with more than {limit:g} % ambiguous bases: {flagged}; they are flagged.")
    if not any(row["best_hits"] for row in results):
        job.note("warning", "No query has any hit: is the reference of the same marker and group?")
    tied = sum(row["status"] == "ambiguous" for row in results)
    if tied:
        job.note("note", f"Queries with several names within the threshold: {tied}; all names are given.")


if __name__ == "__main__":
    run_stage(stage)
