"""The built-in aligner: each sequence against one central sequence, gaps merged ("once a gap, always a gap").

Good for a coding barcode such as COI, where insertions and deletions are rare; for rRNA or ITS a progressive
aligner (MAFFT) is better. A sequence goes on the diagonal that most words of 8 bases share with the centre;
where that leaves a stretch of mismatches, or other diagonals have support too, Gotoh's dynamic programming
(1982) with free end gaps decides: match 5, mismatch -4, unknown 0, gap 30 and 3 for each further column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sequences import Bytes, encode, reverse_complement

NAME = "built-in star alignment 1.0"
WORD = 8
WINDOW, WINDOW_MOST, END, END_MOST = 36, 20, 12, 7  # columns, and mismatches that are still no sign of a gap
MATCH, MISMATCH, OPEN, EXTEND = 5, -4, 30, 3
SAMPLE = 300
BATCH_CELLS = 24 << 20
Ints = NDArray[np.int64]

_SCORES = np.where(np.eye(6, dtype=np.bool_), MATCH, MISMATCH).astype(np.int32)
_SCORES[4:, :] = _SCORES[:, 4:] = 0


@dataclass(frozen=True, slots=True)
class Place:
    """For each letter of a sequence: the slot before centre letter `slot`, or that letter where `matched`."""

    slots: Ints
    matched: NDArray[np.bool_]


def align(sequences: Sequence[Bytes], progress: Callable[[int, int], None]) -> Bytes:
    """n x columns letters, in the order given."""
    centre = sequences[choose_centre(sequences)]
    index = WordIndex(centre)
    places: list[Place | None] = []
    for number, letters in enumerate(sequences):
        places.append(on_one_diagonal(letters, centre, index))
        if number % 500 == 0:
            progress(number, len(sequences))
    hard = sorted((n for n, place in enumerate(places) if place is None), key=lambda n: sequences[n].size)
    done = len(sequences) - len(hard)
    while hard:
        size = max(1, BATCH_CELLS // ((sequences[hard[-1]].size + 1) * (centre.size + 1)))
        batch, hard = hard[:size], hard[size:]
        for number, place in zip(batch, by_programming([sequences[n] for n in batch], centre), strict=True):
            places[number] = place
        done += len(batch)
        progress(done, len(sequences))
    return merge(sequences, [place for place in places if place is not None], centre.size)


def words(letters: Bytes) -> Ints:
    """The word that begins at each letter as a number, -1 where it holds an unknown base."""
    codes = encode(letters).astype(np.int64)
    count = codes.size - WORD + 1
    if count <= 0:
        return np.zeros(0, np.int64)
    number, unknown = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for shift in range(WORD):
        part = codes[shift : shift + count]
        number = number * 4 + np.minimum(part, 3)
        unknown |= part > 3
    return np.where(unknown, -1, number)


def distinct_words(letters: Bytes) -> Ints:
    found = np.unique(words(letters))
    return found[found >= 0]


def choose_centre(sequences: Sequence[Bytes]) -> int:
    """The one that shares most words with a sample; among the nearly best the shortest, then the first."""
    sample = sorted({int(n) for n in np.linspace(0, len(sequences) - 1, min(len(sequences), SAMPLE))})
    frequency = np.zeros(4**WORD, np.int64)
    for number in sample:
        frequency[distinct_words(sequences[number])] += 1
    scores = np.array([np.maximum(frequency[distinct_words(letters)] - 1, 0).sum() for letters in sequences])
    near = np.flatnonzero(scores >= 0.98 * scores.max())
    return min(near.tolist(), key=lambda n: (sequences[n].size, n))


class WordIndex:
    """Where each word that occurs once in the centre stands."""

    def __init__(self, centre: Bytes) -> None:
        found = words(centre)
        values, first, counts = np.unique(found, return_index=True, return_counts=True)
        self.position = np.full(4**WORD, -1, np.int64)
        once = (counts == 1) & (values >= 0)
        self.position[values[once]] = first[once]

    def diagonals(self, letters: Bytes) -> tuple[Ints, Ints]:
        """Centre position minus own position of shared words, and how often each; most frequent first."""
        own = words(letters)
        at = np.flatnonzero(own >= 0)
        there = self.position[own[at]]
        shared = there >= 0
        offsets, counts = np.unique(there[shared] - at[shared], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return offsets[order], counts[order]


def on_one_diagonal(letters: Bytes, centre: Bytes, index: WordIndex) -> Place | None:
    """The placement without inner gaps, or None where it is not clearly right."""
    offsets, counts = index.diagonals(letters)
    if not offsets.size or (counts.size > 1 and counts[1] >= max(8, counts[0] // 3)):
        return None
    offset = int(offsets[0])
    start, stop = max(0, -offset), min(letters.size, centre.size - offset)
    if stop - start < min(50, letters.size // 2):
        return None
    mine, theirs = encode(letters[start:stop]), encode(centre[start + offset : stop + offset])
    differs = ((mine != theirs) & (mine < 4) & (theirs < 4)).astype(np.int64)
    if differs.size < WINDOW or np.convolve(differs, np.ones(WINDOW, np.int64), "valid").max() > WINDOW_MOST:
        return None
    if max(differs[:END].sum(), differs[-END:].sum()) > END_MOST:
        return None
    slots = np.arange(letters.size) + offset
    matched = (slots >= 0) & (slots < centre.size)
    return Place(np.clip(slots, 0, centre.size), matched)


def by_programming(sequences: Sequence[Bytes], centre: Bytes) -> list[Place]:
    """Gotoh's algorithm over a batch at once, row by row; `best` holds the scores of every cell."""
    rows, columns = max(letters.size for letters in sequences), centre.size
    profile = _SCORES[:, encode(centre)]
    codes = np.full((len(sequences), rows), 5, np.uint8)
    for number, letters in enumerate(sequences):
        codes[number, : letters.size] = encode(letters)
    best = np.zeros((rows + 1, len(sequences), columns + 1), np.int32)
    down = np.full((len(sequences), columns + 1), -(10**8), np.int32)
    ramp = EXTEND * np.arange(columns + 1, dtype=np.int32)
    for row in range(1, rows + 1):
        above, here = best[row - 1], best[row]
        np.maximum(above - OPEN, down - EXTEND, out=down)
        np.maximum(above[:, :-1] + profile[codes[:, row - 1]], down[:, 1:], out=here[:, 1:])
        across = np.maximum.accumulate(here + ramp, axis=1)
        np.maximum(here[:, 1:], across[:, :-1] - ramp[:-1] - OPEN, out=here[:, 1:])
    return [trace(best[: letters.size + 1, n], letters, profile) for n, letters in enumerate(sequences)]


def trace(best: NDArray[np.int32], letters: Bytes, profile: NDArray[np.int32]) -> Place:
    """Back from the best end in the last row or column; a diagonal step is preferred where scores tie."""
    row, column = best.shape[0] - 1, best.shape[1] - 1
    last_row, last_column = int(best[row, ::-1].argmax()), int(best[::-1, column].argmax())
    if best[row, column - last_row] >= best[row - last_column, column]:
        column -= last_row
    else:
        row -= last_column
    slots, matched = np.full(letters.size, best.shape[1] - 1, np.int64), np.zeros(letters.size, np.bool_)
    codes = encode(letters)
    while row > 0 and column > 0:
        score = int(best[row, column])
        if score == best[row - 1, column - 1] + profile[codes[row - 1], column - 1]:
            row, column = row - 1, column - 1
            slots[row], matched[row] = column, True
            continue
        lengths = np.arange(1, max(row, column) + 1, dtype=np.int64)
        cost = OPEN + EXTEND * (lengths - 1)
        up = np.flatnonzero(best[row - 1 :: -1, column] - cost[:row] == score) if row else lengths[:0]
        if up.size:
            length = int(up[0]) + 1
            slots[row - length : row] = column
            row -= length
            continue
        left = np.flatnonzero(best[row, column - 1 :: -1] - cost[:column] == score)
        column -= int(left[0]) + 1
    slots[:row] = column
    return Place(slots, matched)


def merge(sequences: Sequence[Bytes], places: Sequence[Place], width: int) -> Bytes:
    """One column for each centre letter, and before each as many as the longest insertion there needs."""
    inserted = np.zeros(width + 1, np.int64)
    for place in places:
        slots, counts = np.unique(place.slots[~place.matched], return_counts=True)
        inserted[slots] = np.maximum(inserted[slots], counts)
    starts = (
        np.cumsum(inserted) - inserted + np.arange(width + 1)
    )  # of the insertion before each centre letter
    aligned = np.full((len(sequences), int(inserted.sum()) + width), ord("-"), np.uint8)
    for row, letters, place in zip(aligned, sequences, places, strict=True):
        extra = np.flatnonzero(~place.matched)
        columns = np.where(place.matched, starts[place.slots] + inserted[place.slots], 0)
        slots, first, counts = np.unique(place.slots[extra], return_index=True, return_counts=True)
        for slot, begin, count in zip(slots, first, counts, strict=True):
            shift = inserted[slot] - count if slot == 0 else 0  # before the centre: next to it
            columns[extra[begin : begin + count]] = starts[slot] + shift + np.arange(count)
        row[columns] = letters
    return aligned[:, (aligned != ord("-")).any(axis=0)]


def looks_reversed(letters: Bytes, centre: Bytes) -> bool:
    """Whether the reverse complement shares far more words with the centre than the sequence does."""
    index = WordIndex(centre)
    forward, backward = index.diagonals(letters)[1], index.diagonals(reverse_complement(letters))[1]
    best = int(backward[0]) if backward.size else 0
    return best >= 20 and best > 3 * (int(forward[0]) if forward.size else 0)
