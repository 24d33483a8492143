"""Records as Darwin Core occurrences, after BCDM's own mapping; record_export's README names deviations."""

from __future__ import annotations

import json
import re
from html import escape

from .records import Record

NAMESPACE = "http://rs.tdwg.org/dwc/terms/"
PLAIN = {
    "materialSampleID": "processid",
    "recordNumber": "sampleid",
    "fieldNumber": "fieldid",
    "catalogNumber": "museumid",
    "organismID": "specimenid",
    "collectionCode": "collection_code",
    "institutionCode": "inst",
    "kingdom": "kingdom",
    "phylum": "phylum",
    "class": "class",
    "order": "order",
    "family": "family",
    "subfamily": "subfamily",
    "tribe": "tribe",
    "genus": "genus",
    "scientificName": "identification",
    "scientificNameAuthorship": "species_reference",
    "taxonRank": "identification_rank",
    "identifiedBy": "identified_by",
    "identificationRemarks": "identification_method",
    "taxonRemarks": "taxonomy_notes",
    "lifeStage": "life_stage",
    "reproductiveCondition": "reproduction",
    "occurrenceRemarks": "short_note",
    "organismRemarks": "notes",
    "typeStatus": "voucher_type",
    "associatedOccurrences": "associated_specimens",
    "associatedTaxa": "associated_taxa",
    "associatedSequences": "insdc_acs",
    "recordedBy": "collectors",
    "eventID": "collection_event_id",
    "eventTime": "collection_time",
    "fieldNotes": "collection_notes",
    "countryCode": "country_iso",
    "stateProvince": "province/state",
    "county": "region",
    "municipality": "sector",
    "verbatimLocality": "site",
    "parentEventID": "site_code",
    "coordinatePrecision": "coord_accuracy",
    "georeferenceSources": "coord_source",
    "verbatimElevation": "elev",
    "verbatimDepth": "depth",
    "habitat": "habitat",
    "samplingProtocol": "sampling_protocol",
}
MADE = (
    "occurrenceID", "basisOfRecord", "sex", "eventDate", "country", "waterBody", "decimalLatitude",
    "decimalLongitude", "datasetName", "dynamicProperties",
)  # fmt: skip
TERMS = (*MADE[:2], *PLAIN, *MADE[2:])
SEXES = {"M": "male", "F": "female", "H": "hermaphrodite"}
DYNAMIC = ("bin_uri", "marker_code", "nuc", "nuc_basecount", "sequence_run_site", "sequence_upload_date")
WATER = re.compile(r"\b(ocean|sea|gulf|bay|strait|channel|lake)\b", re.IGNORECASE)


def occurrence(record: Record) -> list[object]:
    """A cell for each of TERMS; None where the record says nothing."""
    values: dict[str, object] = {term: record.text(field) for term, field in PLAIN.items()}
    sex, place, coord = record.text("sex"), record.text("country/ocean"), record.coord
    dates = [date for date in map(record.text, ("collection_date_start", "collection_date_end")) if date]
    dynamic = {field: value for field in DYNAMIC if (value := record.text(field))}
    codes = record.array("bold_recordset_code_arr")
    water = bool(place and WATER.search(place))
    values |= {
        "occurrenceID": record.record_id,
        "basisOfRecord": "MaterialSample",
        "sex": SEXES.get(sex.upper(), sex) if sex else None,
        "eventDate": "/".join(dict.fromkeys(dates)) or None,
        "country": None if water else place,
        "waterBody": place if water else None,
        "decimalLatitude": coord[0] if coord else None,
        "decimalLongitude": coord[1] if coord else None,
        "datasetName": f"BOLD_DATASET_CODES:{'|'.join(codes)}" if codes else None,
        "dynamicProperties": json.dumps(dynamic, ensure_ascii=False) if dynamic else None,
    }
    return [values[term] for term in TERMS]


def meta_xml() -> str:
    """The archive's description: occurrence.txt, its columns and its id."""
    fields = "".join(
        f'    <field index="{n}" term="{escape(NAMESPACE + term)}"/>\n' for n, term in enumerate(TERMS)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<archive xmlns="http://rs.tdwg.org/dwc/text/">\n'
        f'  <core encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy="" '
        f'ignoreHeaderLines="1" rowType="{NAMESPACE}Occurrence">\n'
        "    <files><location>occurrence.txt</location></files>\n"
        '    <id index="0"/>\n'
        f"{fields}  </core>\n</archive>\n"
    )
