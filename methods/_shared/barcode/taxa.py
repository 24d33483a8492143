"""Names of taxa: which count, and which records share one."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from .records import Record

# Fillers that stand where a name is not known.
PLACEHOLDERS = re.compile(
    r"(incertae[ _]sedis|unidentified|undetermined|unassigned|unclassified|unknown|not[ _]assigned|n/?a)"
    r"([ _].*)?",
    re.IGNORECASE,
)
OPEN_NOMENCLATURE = re.compile(
    r"[ _](spp?|cf|aff|nr|near|gr|agg|complex|cplx|group|ssp|indet|nov|gen|morphospecies|morph|clade|prox)"
    r"(\.|[ _]|$)",
    re.IGNORECASE,
)
WORD = re.compile(r"[^\W\d_]+(-[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Names:
    """A record's names as compared: NFC, blanks made one; None where there is none that counts."""

    species: str | None
    genus: str | None
    family: str | None


def clean_name(name: str | None) -> str | None:
    if name is None:
        return None
    name = " ".join(unicodedata.normalize("NFC", name).split())
    return None if not name or PLACEHOLDERS.fullmatch(name) else name


def is_interim(species: str) -> bool:
    """Whether a species name is provisional: `Microgaster jft17`, `Eupselia sp. ANICMK228`, `Aus cf. bus`."""
    genus, *epithets = [
        word for word in re.split(r"[ _]", species) if not re.fullmatch(r"\(\w+\)|\u00d7", word)
    ]
    if not epithets or OPEN_NOMENCLATURE.search(species):
        return True
    return not all(WORD.fullmatch(word) for word in (genus, *epithets)) or not all(map(str.islower, epithets))


def names_of(record: Record, *, exclude_interim: bool = False) -> Names:
    """A species name counts only when the identification reaches the species (or says no rank at all)."""
    species = clean_name(record.text("species"))
    rank = record.text("identification_rank")
    if species and rank and rank.lower() not in {"species", "subspecies"}:
        species = None
    if species and exclude_interim and is_interim(species):
        species = None
    return Names(species, clean_name(record.text("genus")), clean_name(record.text("family")))


def bin_of(record: Record) -> str | None:
    """The record's BIN, upper case as in BOLD:AAA1234, or None."""
    name = clean_name(record.text("bin_uri"))
    return name.upper() if name else None
