"""Works out the characters of each group and writes those asked for: characters.tsv, pure.tsv."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from barcode.diagnostic import CODES, DP, NO_CODE, PU, Characters, Columns, D, P, bases, pure
from barcode.estimate import check
from barcode.groups import FIELDS, Groups
from barcode.job import Job, RefusalError, read_jsonl, run_stage
from barcode.sequences import encode
from barcode.tables import write_tsv

LISTED = {"diagnostic": (D, DP), "informative": (D, DP, P, PU), "all": tuple(range(1, len(CODES)))}
CHARACTERS = (
    "sequences",
    "position",
    "base",
    "code",
    "unknown_in_group",
    "other_bases",
    "unknown_in_others",
)
PURE = ("sequences", "position", "bases", "other_bases", "unknown_in_group", "unknown_in_others")


def stage(job: Job) -> None:
    by, least = job.parameters["group_by"], job.parameters["min_group_size"]
    records = read_jsonl(job.dir / "records_used.jsonl")
    codes = encode(np.load(job.work / "alignment.npy"))
    groups = Groups.by(records, by)
    one, many = FIELDS[by]
    refuse_too_few(groups, one, many, least, len(records))
    rows, columns = codes.shape
    what = f"{rows:,} sequences of {columns:,} columns in {len(groups.names):,} groups"
    cells = len(groups.names) * columns
    estimate = check(
        job, what, 2.0 * codes.size + 50.0 * cells + 400.0 * columns, 4e-7 * (cells + codes.size)
    )
    found = Columns(codes, groups)
    chosen = list(characters(job, found, least))
    total = write_tsv(job.dir / "characters.tsv", (by, *CHARACTERS), table(found, chosen, job))
    write_tsv(job.dir / "pure.tsv", (by, *PURE), pure_table(found, chosen))
    job.save("groups", [summary(found, character) for character in chosen])
    job.save(
        "results",
        {
            "estimate": estimate,
            "columns": columns,
            "groups": len(groups.names),
            "groups_with_characters": len(chosen),
            "unnamed": groups.unnamed,
            "listed": total,
        },
    )
    notes(job, groups, one, many, chosen)


def refuse_too_few(groups: Groups, one: str, many: str, least: int, records: int) -> None:
    if len(groups.names) < 2:
        told = f"all named ones are of one {one}" if groups.names else f"none has a {one} name"
        raise RefusalError(
            f"Diagnostic characters tell groups apart and need two {many} or more: "
            f"of {records} records {told}."
        )
    if not (groups.sizes >= least).any():
        raise RefusalError(
            f"None of the {len(groups.names):,} {many} has the {least} records that min_group_size asks for; "
            f"the largest has {groups.sizes.max()}. Choose a smaller min_group_size."
        )


def characters(job: Job, found: Columns, least: int) -> Iterator[Characters]:
    total = len(found.groups.of)
    done = 0
    for one in found.all(least):
        done += int(found.groups.sizes[one.group])
        job.progress(done, total, "comparing groups")
        yield one


def table(found: Columns, chosen: list[Characters], job: Job) -> Iterator[list[object]]:
    wanted = LISTED[job.parameters["list_codes"]]
    for one in chosen:
        for place in np.flatnonzero(np.isin(one.codes, wanted)).tolist():
            yield [
                found.groups.names[one.group],
                int(found.groups.sizes[one.group]),
                place + 1,
                "ACGT"[one.consensus[place]],
                CODES[one.codes[place]],
                int(one.missing[place]),
                bases(one.other_states[:, place]),
                int(one.others_missing[place]),
            ]


def pure_table(found: Columns, chosen: list[Characters]) -> Iterator[list[object]]:
    for one in chosen:
        for place in pure(one).tolist():
            yield [
                found.groups.names[one.group],
                int(found.groups.sizes[one.group]),
                place + 1,
                bases(one.states[:, place]),
                bases(one.other_states[:, place]),
                int(one.missing[place]),
                int(one.others_missing[place]),
            ]


def summary(found: Columns, one: Characters) -> dict[str, Any]:
    counts = np.bincount(one.codes, minlength=len(CODES))
    return {
        "name": found.groups.names[one.group],
        "sequences": int(found.groups.sizes[one.group]),
        "codes": {CODES[code]: int(counts[code]) for code in range(1, len(CODES))},
        "no_consensus": int(counts[NO_CODE]),
        "pure": int(pure(one).size),
        "D": (np.flatnonzero(one.codes == D) + 1).tolist(),
        "DP": (np.flatnonzero(one.codes == DP) + 1).tolist(),
    }


def notes(job: Job, groups: Groups, one: str, many: str, chosen: list[Characters]) -> None:
    if groups.unnamed:
        job.note(
            "note",
            f"Records without a {one} name, which take no part: {groups.unnamed:,} of {groups.of.size:,}.",
        )
    small = len(groups.names) - len(chosen)
    if small:
        job.note(
            "note",
            f"{many[0].upper() + many[1:]} with fewer than {job.parameters['min_group_size']} records, which "
            f"have no characters of their own but are compared with: {small:,} of {len(groups.names):,}.",
        )
    alone = sum(groups.sizes[character.group] == 1 for character in chosen)
    if alone:
        job.note(
            "warning",
            f"{many[0].upper() + many[1:]} with one record only: {alone:,}. Whatever it differs in counts as "
            "fixed; more records may well undo its characters.",
        )


if __name__ == "__main__":
    run_stage(stage)
