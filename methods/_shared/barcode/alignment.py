"""Bringing sequences to one width: as they were uploaded, by MAFFT where it is installed, else by our own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import star
from .sequences import Bytes, strip

GAP = ord("-")
MAX_CELLS = 1 << 30
FEW = 500
MAFFT_SECONDS = 600  # beyond which MAFFT is not started
BARCODE = 658  # letters, of which the times below were measured


class AlignmentError(Exception):
    """The sequences cannot be aligned; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the work called `what` needs: seconds on one core, bytes of memory."""

    what: str
    seconds: float
    memory_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """`letters` is n x columns, in the order given; `how` names the way and the program's version."""

    letters: Bytes
    how: str
    notes: tuple[str, ...] = ()


def align(
    sequences: Sequence[Bytes],
    how: str,
    progress: Callable[[int, int], None],
    *,
    start: Callable[[Estimate], object] = lambda estimate: None,
    keep_empty_columns: bool = False,
) -> Alignment:
    """`how` is "auto" or "as_uploaded". Records keep their order; columns that hold gaps only go.

    `start` is told what aligning will need before it begins, and may refuse it.
    """
    if how == "as_uploaded":
        return as_uploaded(sequences, keep_empty_columns=keep_empty_columns)
    stripped = [strip(letters) for letters in sequences]
    order: dict[bytes, int] = {}
    index = [order.setdefault(letters.tobytes(), len(order)) for letters in stripped]
    unique = [np.frombuffer(key, np.uint8) for key in order]
    longest = max(letters.size for letters in unique)
    if longest * len(sequences) > MAX_CELLS:
        raise AlignmentError(
            f"{len(sequences)} sequences of up to {longest} letters are too many to align here: "
            f"{longest * len(sequences):,} cells, at most {MAX_CELLS:,}."
        )
    notes: list[str] = []
    if len(unique) == 1:
        aligned, name = unique[0].reshape(1, -1), "none needed, all sequences are the same"
    elif (mafft := shutil.which("mafft")) and worthwhile(unique, notes):
        start(mafft_estimate(unique))
        try:
            aligned, name = run_mafft(mafft, unique)
        except AlignmentError as error:
            notes.append(f"MAFFT could not be used ({error}); the built-in aligner was.")
            aligned, name = star.align(unique, progress), star.NAME
    else:
        start(builtin_estimate(unique))
        aligned, name = star.align(unique, progress), star.NAME
    check(unique, aligned)
    return Alignment(letters=aligned[index], how=name, notes=tuple(notes))


def worthwhile(sequences: Sequence[Bytes], notes: list[str]) -> bool:
    """Whether MAFFT would be done soon enough; if not, a note says so."""
    seconds = mafft_estimate(sequences).seconds
    if seconds > MAFFT_SECONDS:
        notes.append(
            f"MAFFT would need about {seconds / 60:,.0f} minutes for {len(sequences):,} different sequences, "
            f"more than the {MAFFT_SECONDS // 60} it is given; the built-in aligner was used."
        )
    return seconds <= MAFFT_SECONDS


def mafft_estimate(sequences: Sequence[Bytes]) -> Estimate:
    """MAFFT 7.505 on one core: joining grows with n, comparing all with n**2, and refining too."""
    count, length = len(sequences), sum(letters.size for letters in sequences) / len(sequences) / BARCODE
    seconds = count * 4e-3 * length**2 + count**2 * (2.5e-6 * length + (1e-4 * length**2) * (count <= FEW))
    told = f"{count:,} different sequences to align with MAFFT"
    return Estimate(told, seconds, (192 << 20) + 8 * count * max(letters.size for letters in sequences))


def builtin_estimate(sequences: Sequence[Bytes]) -> Estimate:
    """Where one sequence in five needs dynamic programming."""
    count, longest = len(sequences), max(letters.size for letters in sequences)
    seconds = count * (1e-3 + 4e-3 * (longest / BARCODE) ** 2)
    told = f"{count:,} different sequences to align"
    return Estimate(told, seconds, 8 * star.BATCH_CELLS + 8 * count * longest)


def as_uploaded(sequences: Sequence[Bytes], *, keep_empty_columns: bool = False) -> Alignment:
    widths = sorted({letters.size for letters in sequences})
    if len(widths) > 1:
        raise AlignmentError(
            f"The sequences have {len(widths)} different widths ({widths[0]} to {widths[-1]} columns), "
            "so they are not aligned as uploaded. Choose alignment: auto."
        )
    letters = np.vstack(sequences)
    if not keep_empty_columns:
        letters = letters[:, (letters != GAP).any(axis=0)]
    return Alignment(letters=letters, how="as uploaded")


def check(sequences: Sequence[Bytes], aligned: Bytes) -> None:
    """An alignment only ever adds gaps: anything else is a fault that must not go on to the numbers."""
    for number, letters in enumerate(sequences):
        if not np.array_equal(aligned[number][aligned[number] != GAP], letters):
            raise AlignmentError(
                f"The alignment changed sequence {number + 1}; this is a fault of the aligner."
            )


def run_mafft(program: str, sequences: Sequence[Bytes]) -> tuple[Bytes, str]:
    """FFT-NS-i for few sequences, else what MAFFT thinks fit; one thread, as with more the result varies."""
    strategy = ["--retree", "2", "--maxiterate", "2"] if len(sequences) <= FEW else ["--auto"]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.fasta"
        source.write_bytes(b"".join(b">%d\n%s\n" % (n, s.tobytes()) for n, s in enumerate(sequences)))
        command = [program, *strategy, "--nuc", "--inputorder", "--thread", "1", "--quiet", str(source)]
        done = subprocess.run(command, capture_output=True, check=False)
    version = subprocess.run([program, "--version"], capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise AlignmentError(f"exit code {done.returncode}{': ' + said[-1] if said else ''}")
    aligned = read_rows(done.stdout, len(sequences))
    check(sequences, aligned)
    told = (version.stderr or version.stdout).decode("utf-8", "replace").split()
    return aligned, " ".join(["MAFFT", *told[:1], *strategy])


def read_rows(fasta: bytes, count: int) -> Bytes:
    """So many rows, named 0, 1, 2, ... in this order and of one width."""
    blocks = [block.split(b"\n", 1) for block in fasta.split(b">")[1:]]
    rows = [np.frombuffer(body.replace(b"\n", b"").upper(), np.uint8) for _, body in blocks]
    if [name for name, _ in blocks] != [b"%d" % n for n in range(count)] or len(
        {row.size for row in rows}
    ) != 1:
        raise AlignmentError("its output is incomplete")
    return np.vstack(rows)
