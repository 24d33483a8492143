"""Describes a run's package as a Process Run Crate: what ran on what, when, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from aioanalysis.domain.members import PARAMS_MEMBER, RECORDS_MEMBER, REPORT_MEMBER

CRATE_MEMBER: Final = "ro-crate-metadata.json"
FILES_LISTED: Final = 1000  # of more, those in folders are told of by their folder
BASE: Final = "https://w3id.org/ro/crate/1.1"
PROFILE: Final = "https://w3id.org/ro/wfrun/process/0.5"
TERMS: Final = "https://w3id.org/ro/terms/workflow-run#"
OWN_TERMS: Final = ("ContainerImage", "containerImage", "sha256", "tag")
RUN: Final = "#run"
INPUTS: Final = (RECORDS_MEMBER, PARAMS_MEMBER)

MEANINGS: Final = {
    RECORDS_MEMBER: "The records that were analysed, one JSON object a line.",
    PARAMS_MEMBER: "The parameters of the run.",
    REPORT_MEMBER: "The report, one page that needs nothing else.",
    "resource_stats.json": "CPU and memory that the run used, sampled while it ran.",
    "error.json": "The stage that failed, and what it printed.",
    "status.json": "How each stage ended.",
    "job.log": "What the stages printed.",
}
FORMATS: Final = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".html": "text/html",
    ".tsv": "text/tab-separated-values",
    ".csv": "text/csv",
    ".log": "text/plain",
    ".txt": "text/plain",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".fasta": "text/x-fasta",
}

Entity = dict[str, Any]


def crate(body: Mapping[str, Any], members: Sequence[Mapping[str, Any]], *, submitter: str | None) -> bytes:
    """`ro-crate-metadata.json` of a package with these `members` (name, size, sha256).

    `body` is the run's sidecar without its result; of a run that failed early much in it is None. The
    specification: Process Run Crate 0.5 on RO-Crate 1.1.
    """
    parts = _parts(members)
    names = {str(member["name"]) for member in members}
    application = _application(body)
    image = _image(body)
    person = _person(submitter) if submitter else None
    action = _action(body, application, image, person, parts, names)
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"Run {body['attempt']} of job {body['job_id']}, {body['title']}",
        "description": f"Records, parameters and what {body['title']} made of them, with the run's log.",
        "datePublished": body["finished_at"] or body["started_at"],
        "license": "No licence is granted by this package; that of the records and of the method holds.",
        "conformsTo": _ref(PROFILE),
        "hasPart": _refs(part["@id"] for part in parts),
        "mentions": _ref(RUN),
    }
    profile = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    graph = [_descriptor(), root, profile, action, application, *filter(None, (image, person)), *parts]
    context = [f"{BASE}/context", {name: f"{TERMS}{name}" for name in OWN_TERMS}]
    whole = {"@context": context, "@graph": graph}
    return json.dumps(whole, ensure_ascii=False, indent=1).encode("utf-8", errors="replace")


def _ref(identifier: str) -> Entity:
    return {"@id": identifier}


def _refs(identifiers: Iterable[str]) -> Entity | list[Entity]:
    """One is told as itself, not as a list of one."""
    references = [_ref(identifier) for identifier in identifiers]
    return references[0] if len(references) == 1 else references


def _descriptor() -> Entity:
    return {
        "@id": CRATE_MEMBER,
        "@type": "CreativeWork",
        "about": _ref("./"),
        "conformsTo": _ref(BASE),
    }


def _action(
    body: Mapping[str, Any],
    application: Entity,
    image: Entity | None,
    person: Entity | None,
    parts: Iterable[Entity],
    names: set[str],
) -> Entity:
    error = body["error"]
    action: Entity = {
        "@id": RUN,
        "@type": "CreateAction",
        "name": f"Run of {body['title']}",
        "description": _story(body),
        "instrument": _ref(application["@id"]),
        "object": _refs(name for name in INPUTS if name in names),
        "result": _refs(part["@id"] for part in parts if part["@id"] not in INPUTS),
        "startTime": _time(body["started_at"]),
        "endTime": _time(body["finished_at"] or body["started_at"]),
        "actionStatus": f"http://schema.org/{'Failed' if error else 'Completed'}ActionStatus",
    }
    if error:
        action["error"] = f"{error['reason']}: {error['message']}"
    if image:
        action["containerImage"] = _ref(image["@id"])
    if person:
        action["agent"] = _ref(person["@id"])
    return action


def _time(text: str) -> str:
    """To the millisecond: the profile knows no finer."""
    return datetime.fromisoformat(text).isoformat(timespec="milliseconds")


def _story(body: Mapping[str, Any]) -> str:
    worker, records = body["worker"], body["records"]
    told = f"{'An unknown number of' if records is None else records} records"
    code = body["exit_code"]
    ended = "" if code is None else f", exit code {code}"
    service = f"aioanalysis {worker['version']} ({body['runtime']} runtime) on host {worker['host']}"
    return f"{told}, attempt {body['attempt']}, by {service}{ended}."


def _application(body: Mapping[str, Any]) -> Entity:
    """The method; of a run that never got to it the title alone is known."""
    title, method = body["title"], body["method"]
    version = method["digest"] if method else "unknown"
    application: Entity = {
        "@id": f"urn:aioanalysis:method:{title}:{version}",
        "@type": "SoftwareApplication",
        "name": title,
    }
    if method:
        application |= {"softwareVersion": method["version"], "identifier": method["digest"]}
    return application


def _image(body: Mapping[str, Any]) -> Entity | None:
    image = body["image"]
    if image is None or body["runtime"] != "docker":
        return None
    digest = str(image["id"]).removeprefix("sha256:")
    return {
        "@id": f"urn:aioanalysis:image:{digest}",
        "@type": "ContainerImage",
        "additionalType": _ref(f"{TERMS}DockerImage"),
        "name": f"Image of {body['title']}, built on the host",
        "sha256": digest,
    }


def _person(name: str) -> Entity:
    return {"@id": f"#submitter-{quote(name, safe='')}", "@type": "Person", "name": name}


def _parts(members: Sequence[Mapping[str, Any]]) -> list[Entity]:
    if len(members) <= FILES_LISTED:
        return [_file(member) for member in members]
    folders: dict[str, list[Mapping[str, Any]]] = {}
    files: list[Entity] = []
    for member in members:
        top, slash, _ = str(member["name"]).partition("/")
        if slash:
            folders.setdefault(top, []).append(member)
        elif len(files) < FILES_LISTED or top in MEANINGS:
            files.append(_file(member))
    return files + [_folder(name, inner) for name, inner in list(folders.items())[:FILES_LISTED]]


def _file(member: Mapping[str, Any]) -> Entity:
    name = str(member["name"])
    file: Entity = {
        "@id": quote(name),
        "@type": "File",
        "name": name,
        "contentSize": str(member["size"]),
        "sha256": member["sha256"],
    }
    if name in MEANINGS:
        file["description"] = MEANINGS[name]
    kind = FORMATS.get(PurePosixPath(name).suffix.lower())
    if kind:
        file["encodingFormat"] = kind
    return file


def _folder(name: str, inner: Sequence[Mapping[str, Any]]) -> Entity:
    size = sum(int(member["size"]) for member in inner)
    text = f"{len(inner)} files, {size} bytes; manifest.json lists them."
    return {"@id": f"{quote(name)}/", "@type": "Dataset", "name": name, "description": text}
