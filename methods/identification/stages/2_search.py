"""Searches the library for each different query, in two passes; hits.jsonl in the work folder."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from barcode import programs
from barcode.job import Job, RefusalError, read_jsonl, run_stage, write_jsonl
from barcode.search import CANDIDATES, Hits, Library, index_bytes
from barcode.sequences import Bytes, reverse_complement
from barcode.size import must_fit

FIRST_WORD, SECOND_WORD = 10, 7
QUERY_SECONDS = 0.06
BASE_BYTES = 96 << 20
ROW_BYTES = 4000
Found = list[tuple[int, int, int, bool]]


@dataclass(frozen=True, slots=True)
class Subject:
    """Library sequences, each different one once; `members` are its rows."""

    library: Library
    members: list[list[int]]
    rows: list[dict[str, Any]]
    by_id: dict[str, int] = field(default_factory=dict)


def read_sequences(path: Path) -> list[Bytes]:
    with path.open("rb") as file:
        return [np.frombuffer(line.rstrip(b"\n"), np.uint8) for line in file]


def subject_of(rows: list[dict[str, Any]], sequences: Sequence[Bytes]) -> Subject:
    order: dict[bytes, int] = {}
    members: list[list[int]] = []
    by_id = {}
    for row, letters in enumerate(sequences):
        number = order.setdefault(letters.tobytes(), len(order))
        if number == len(members):
            members.append([])
        members[number].append(row)
        by_id[rows[row]["record_id"]] = number
    return Subject(Library([np.frombuffer(key, np.uint8) for key in order]), members, rows, by_id)


def stage(job: Job) -> None:
    rows, sequences = read_jsonl(job.dir / "records_used.jsonl"), read_sequences(job.work / "sequences.txt")
    library_rows, library_sequences = rows, sequences
    if (job.dir / "library.jsonl").exists():
        library_rows = read_jsonl(job.dir / "library.jsonl")
        library_sequences = read_sequences(job.work / "library.txt")
    part = [n for n, row in enumerate(library_rows) if row.get("role") != "query" or library_rows is not rows]
    letters = sum(library_sequences[n].size for n in part)
    queries = [n for n, row in enumerate(rows) if row["role"] != "library"]
    different = len({sequences[n].tobytes() for n in queries})
    needs = must_fit(
        job,
        f"{different:,} different queries and {len(part):,} library sequences",
        memory_bytes=BASE_BYTES + index_bytes(letters) + ROW_BYTES * (len(rows) + len(part)),
        seconds=different * QUERY_SECONDS + letters * 2e-6,
    )
    subject = subject_of([library_rows[n] for n in part], [library_sequences[n] for n in part])
    searches: dict[tuple[bytes, int], int] = {}
    of_query = {}
    for n in queries:
        key = (sequences[n].tobytes(), own_only(subject, rows[n]))
        of_query[rows[n]["record_id"]] = searches.setdefault(key, len(searches))
    engine = chosen_engine(job)
    found = list(search(job, subject, list(searches), engine))
    write_jsonl(job.work / "hits.jsonl", found)
    write_jsonl(job.work / "library_rows.jsonl", subject.rows)
    job.save("members", subject.members)
    told = "built-in" if engine == "builtin" else programs.version(engine)
    passes = [one["pass"] for one in found]
    job.save(
        "search",
        {
            "of_query": of_query,
            "engine": told,
            "different_queries": different,
            "different_library_sequences": len(subject.members),
            "second_pass": passes.count(2),
            "estimate": needs,
        },
    )
    print(f"{len(searches):,} searches by {told}, {passes.count(2):,} of them in the second pass")


def own_only(subject: Subject, row: dict[str, Any]) -> int:
    """The library sequence that holds nothing but the query itself, or -1."""
    number = subject.by_id.get(row["record_id"], -1)
    if number < 0 or any(not same(row, subject.rows[member]) for member in subject.members[number]):
        return -1
    return number


def same(row: dict[str, Any], other: dict[str, Any]) -> bool:
    if row["record_id"] == other["record_id"]:
        return True
    return row["processid"] is not None and row["processid"] == other["processid"]


def chosen_engine(job: Job) -> str:
    engine = str(job.parameters["engine"])
    if engine == "auto":
        return "vsearch" if programs.installed("vsearch") else "builtin"
    if engine != "builtin" and not programs.installed(engine):
        raise RefusalError(
            f"engine {engine} is not installed here; choose auto or builtin, or an image that has it."
        )
    return engine


def search(
    job: Job, subject: Subject, keys: list[tuple[bytes, int]], engine: str
) -> Iterator[dict[str, object]]:
    """Hits of each search, in order: library sequence, sites, differences, whether on the other strand."""
    chosen = job.parameters
    floor, match = chosen["second_identity_percent"], chosen["match_identity_percent"]
    # Not above the match, or a second name within the threshold could be missed.
    floors = (max(min(chosen["first_identity_percent"], match), floor), floor)
    queries = [np.frombuffer(letters, np.uint8) for letters, _ in keys]
    given: dict[int, Any] = {1: {}, 2: {}}
    if engine != "builtin":
        folder = job.work / "search"
        folder.mkdir()
        programs.write_fasta(folder / "library.fasta", subject.library.letters, range(len(subject.members)))
        given[1] = ask(engine, folder, queries, range(len(keys)), floors[0], first=True)
    first: list[Found] = []
    for number, (query, (_, own)) in enumerate(zip(queries, keys, strict=True)):
        first.append(first_pass(subject, query, own, given[1].get(number, {}), engine, floors[0], chosen))
        job.progress(number // 2, len(keys), "first pass")
    again = [number for number, found in enumerate(first) if not found]
    if engine != "builtin" and again:
        given[2] = ask(engine, folder, [queries[n] for n in again], again, floors[1], first=False)
    for number, found in enumerate(first):
        if found:
            yield {"pass": 1, "hits": found}
            continue
        query, own = queries[number], keys[number][1]
        forward, backward = pick(subject, query, own, given[2].get(number, {}), engine, SECOND_WORD)
        hits = compare(subject, query, forward, backward, floors[1], chosen["min_overlap"])
        yield {"pass": 2, "hits": hits}
        job.progress((len(keys) + number) // 2, len(keys), "second pass")


def first_pass(
    subject: Subject,
    query: Bytes,
    own: int,
    given: dict[int, bool],
    engine: str,
    floor: float,
    chosen: dict[str, Any],
) -> Found:
    """More candidates are looked at for as long as even the unlikeliest ones are within the threshold.

    A program that gave as many as it may could have more of them: the built-in search then looks itself.
    """
    most = CANDIDATES
    if len(given) >= programs.MOST:
        engine = "builtin"
    while True:
        forward, backward = pick(subject, query, own, given, engine, FIRST_WORD, most)
        found = compare(subject, query, forward, backward, floor, chosen["min_overlap"])
        last = set(forward[-max(1, most // 10) :].tolist())
        near = {
            hit[0] for hit in found if 100 * (hit[1] - hit[2]) / hit[1] >= chosen["match_identity_percent"]
        }
        if engine != "builtin" or forward.size < most or not last & near:
            return found
        most *= 4


def ask(
    engine: str, folder: Path, queries: list[Bytes], numbers: Sequence[int], identity: float, *, first: bool
) -> programs.Found:
    try:
        return programs.candidates(engine, folder, queries, numbers, identity=identity, first=first)
    except programs.ProgramError as error:
        raise RefusalError(f"The search program failed: {error}. Choose engine: builtin.") from error


def pick(
    subject: Subject,
    query: Bytes,
    own: int,
    given: dict[int, bool],
    engine: str,
    size: int,
    most: int = CANDIDATES,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Candidates on the query's strand, and on the other one; not `own`, which holds the query only.

    The built-in search looks there in the second pass, and only where it has more words in common.
    """
    none = np.zeros(0, np.int64)
    if engine != "builtin":
        found = {
            strand: [t for t, other in given.items() if other == strand and t != own]
            for strand in (False, True)
        }
        return np.array(found[False], np.int64), np.array(found[True], np.int64)
    index = subject.library.index(size)
    if size == FIRST_WORD:
        return index.candidates(query, most, but=own)[0], none
    ahead, shared = index.candidates(query, but=own)
    across, shared_across = index.candidates(reverse_complement(query), but=own)
    return (none, across) if shared_across > shared else (ahead, none)


def compare(
    subject: Subject,
    query: Bytes,
    forward: np.ndarray[Any, Any],
    backward: np.ndarray[Any, Any],
    floor: float,
    min_overlap: int,
) -> Found:
    best: dict[int, tuple[int, int, int, bool]] = {}
    for letters, targets, reverse in ((query, forward, False), (reverse_complement(query), backward, True)):
        hits = subject.library.compare(letters, targets, min_overlap, floor)
        for hit in listed(hits, reverse):
            identity = 100 * (hit[1] - hit[2]) / hit[1]
            before = best.get(hit[0])
            if identity >= floor - 1e-9 and (before is None or hit[1] - hit[2] > before[1] - before[2]):
                best[hit[0]] = hit
    return sorted(best.values(), key=lambda hit: (hit[2] / hit[1], -hit[1], hit[0]))


def listed(hits: Hits, reverse: bool) -> Iterator[tuple[int, int, int, bool]]:
    for target, sites, differences in zip(
        hits.target.tolist(), hits.sites.tolist(), hits.differences.tolist(), strict=True
    ):
        yield target, sites, differences, reverse


if __name__ == "__main__":
    run_stage(stage)
