"""Validates crates with roc-validator, without a network: `crates.py SEVERITY FOLDER...` prints problems.

Run as a process of its own: the validator keeps global state and warns. The one thing that it would fetch is
the JSON-LD context of RO-Crate 1.1; here it gets the terms that our crates use, as that context has them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCHEMA = "http://schema.org/"
SCHEMA_TERMS = (
    "CreateAction", "CreativeWork", "Dataset", "Person", "PropertyValue", "SoftwareApplication", "about",
    "actionStatus", "additionalType", "agent", "contentSize", "datePublished", "description",
    "encodingFormat", "endTime", "error", "hasPart", "identifier", "instrument", "license", "mentions",
    "name", "object", "result", "softwareVersion", "startTime", "version",
)  # fmt: skip
CONTEXT = {
    **{term: SCHEMA + term for term in SCHEMA_TERMS},
    "File": SCHEMA + "MediaObject",
    "conformsTo": "http://purl.org/dc/terms/conformsTo",
}


def problems(*folders: Path, severity: str = "REQUIRED") -> list[str]:
    """What the validator has against the crates in `folders`, by the profile Process Run Crate."""
    command = [sys.executable, "-W", "ignore", __file__, severity, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _validated(folder: str, severity: str) -> list[str]:
    from rocrate_validator import services
    from rocrate_validator.models import Severity

    settings: dict[str, Any] = {
        "rocrate_uri": folder,
        "profile_identifier": "process-run-crate",
        "requirement_severity": Severity[severity],
        "skip_checks": [],
        "offline": True,
    }
    result = services.validate(services.ValidationSettings(**settings))
    return [
        f"{Path(folder).name}: {issue.check.identifier}: {issue.message}" for issue in result.get_issues()
    ]


def main(severity: str, folders: list[str]) -> None:
    import requests
    from rocrate_validator.utils.http import HttpRequester

    class Answer(requests.Response):
        def __init__(self, url: str) -> None:
            super().__init__()
            known = url.rstrip("/").endswith("crate/1.1/context")
            self.url, self.status_code = url, 200 if known else 404
            self.headers["Content-Type"] = "application/ld+json"
            self._content = json.dumps({"@context": CONTEXT}).encode()

    HttpRequester.get = lambda _, url, **__: Answer(url)
    print(json.dumps([text for folder in folders for text in _validated(folder, severity)]))


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[2].endswith("context.json"):  # the whole context, where it is at hand
        CONTEXT = json.loads(Path(sys.argv.pop(2)).read_text())["@context"]
    main(sys.argv[1], sys.argv[2:])
