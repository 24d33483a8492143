"""The fields of BCDM: which are numbers, coordinates or lists, and their names in older and other exports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

INTEGERS: Final = frozenset({"specimenid", "taxid", "geoid", "nuc_basecount", "marker_count"})
NUMBERS: Final = frozenset({"coord_accuracy", "elev", "elev_accuracy", "depth", "depth_accuracy"})
LISTS: Final = frozenset({"primers_forward", "primers_reverse", "bold_recordset_code_arr"})
COORD: Final = "coord"
NUC: Final = "nuc"

# What R and DuckDB make of names with a slash, and the names of older data packages.
RENAMED: Final[Mapping[str, str]] = {
    "country.ocean": "country/ocean",
    "country_ocean": "country/ocean",
    "country": "country/ocean",
    "province.state": "province/state",
    "province_state": "province/state",
    "province": "province/state",
    "taxon_name": "identification",
    "taxon_rank": "identification_rank",
    "nucraw": "nuc",
    "nucraw_basecount": "nuc_basecount",
    "gb_acs": "insdc_acs",
    "recordset_code_arr": "bold_recordset_code_arr",
    "collection_date": "collection_date_start",
    "collection_note": "collection_notes",
    "associated_specimen": "associated_specimens",
    "extrainfo": "short_note",
}

# API_Public of BOLD v3 and v4, `combined`, `specimen` and `sequence`.
RENAMED_V4: Final[Mapping[str, str]] = {
    **RENAMED,
    "catalognum": "museumid",
    "fieldnum": "fieldid",
    "institution_storing": "inst",
    "phylum_name": "phylum",
    "class_name": "class",
    "order_name": "order",
    "family_name": "family",
    "subfamily_name": "subfamily",
    "genus_name": "genus",
    "species_name": "species",
    "subspecies_name": "subspecies",
    "identification_provided_by": "identified_by",
    "identification_reference": "species_reference",
    "tax_note": "taxonomy_notes",
    "voucher_status": "voucher_type",
    "collectiondate": "collection_date_start",
    "collectiondate_start": "collection_date_start",
    "collectiondate_end": "collection_date_end",
    "collectiontime": "collection_time",
    "lifestage": "life_stage",
    "exactsite": "site",
    "markercode": "marker_code",
    "genbank_accession": "insdc_acs",
    "nucleotides": "nuc",
}
LISTS_V4: Final = frozenset(
    {
        *("image_ids", "image_urls", "media_descriptors", "captions", "photographers"),
        *("copyright_holders", "copyright_years", "copyright_licenses", "copyright_institutions"),
        *("trace_ids", "trace_names", "trace_links", "run_dates", "sequencing_centers", "directions"),
        *("seq_primers", "marker_codes"),
    }
)
NA_IS_MISSING_V4: Final = frozenset({"markercode", "nucleotides"})

RANKS: Final = ("subspecies", "species", "genus", "subfamily", "family", "order", "class", "phylum")
"""The ranks with a column of their own in v4, lowest first."""
