"""Candidates found by vsearch or BLAST+ (blastn), where the image has them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .sequences import Bytes

Ints = NDArray[np.int64]
NEEDED = {"vsearch": ("vsearch",), "blastn": ("blastn", "makeblastdb")}
MOST = 100
Found = dict[int, dict[int, bool]]


class ProgramError(Exception):
    """A program that is there did not do its work; the text is for the user."""


def installed(engine: str) -> bool:
    return all(map(shutil.which, NEEDED[engine]))


def version(engine: str) -> str:
    option = "--version" if engine == "vsearch" else "-version"
    done = subprocess.run([engine, option], capture_output=True, check=False)
    for line in (done.stderr + done.stdout).decode("utf-8", "replace").splitlines():
        if line.startswith(engine):
            return line.split(",")[0].strip()
    return engine


def write_fasta(path: Path, sequences: Sequence[Bytes], numbers: Sequence[int]) -> None:
    """Short generated names, as long ones and odd characters break programs."""
    with path.open("wb") as file:
        file.writelines(b">%d\n%s\n" % (n, s.tobytes()) for n, s in zip(numbers, sequences, strict=True))


def candidates(
    engine: str,
    folder: Path,
    queries: Sequence[Bytes],
    numbers: Sequence[int],
    *,
    identity: float,
    first: bool,
) -> Found:
    """For each query's number at most `MOST` library sequences, with whether on the other strand.

    `folder` holds library.fasta; in the second pass words are shorter, and the other strand is looked at too.
    """
    write_fasta(folder / "queries.fasta", queries, numbers)
    out = folder / "found.tsv"
    if engine == "vsearch":
        run(
            "vsearch", "--usearch_global", str(folder / "queries.fasta"),
            "--db", str(folder / "library.fasta"),
            "--id", f"{max(identity - 2, 0) / 100:.4f}",
            "--maxaccepts", str(MOST), "--maxrejects", "32" if first else "100",
            "--strand", "plus" if first else "both", "--wordlength", "8" if first else "6",
            "--iddef", "2", "--qmask", "none", "--dbmask", "none", "--minseqlength", "1",
            "--threads", "1", "--quiet",
            "--userout", str(out), "--userfields", "query+target+qstrand",
        )  # fmt: skip
    else:
        if not (folder / "library.nsq").exists():
            source, database = str(folder / "library.fasta"), str(folder / "library")
            run("makeblastdb", "-dbtype", "nucl", "-in", source, "-out", database)
        run(
            "blastn", "-query", str(folder / "queries.fasta"), "-db", str(folder / "library"),
            "-task", "megablast" if first else "blastn", "-word_size", "28" if first else "11",
            "-strand", "plus" if first else "both",
            "-dust", "no", "-max_target_seqs", str(MOST), "-max_hsps", "1",
            "-outfmt", "6 qseqid sseqid sstrand", "-out", str(out),
        )  # fmt: skip
    found: Found = {}
    for line in out.read_text(encoding="ascii").splitlines():
        query, target, strand = line.split("\t")
        found.setdefault(int(query), {}).setdefault(int(target), strand in {"-", "minus"})
    return found


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise ProgramError(f"{command[0]} ended with code {done.returncode}{': ' + said[-1] if said else ''}")
