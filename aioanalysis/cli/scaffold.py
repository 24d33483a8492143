"""Makes a new method's directory from the template, and checks what `load_method` does not."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aioanalysis.domain.method import is_title
from aioanalysis.errors import Contested, Invalid
from aioanalysis.interfaces import MethodDirectory
from aioanalysis.methods import check_params

TEMPLATE: Final = Path(__file__).with_name("template")
LABEL: Final = "{{label}}"
SAMPLE: Final = "sample/records.jsonl"
SAMPLE_PARAMS: Final = "sample/params.json"


def scaffold(methods_dir: Path, title: str, label: str | None = None) -> Path:
    """The new directory; raises `Invalid` (title, unwritable folder), `Contested` (it is there)."""
    if not is_title(title):
        raise Invalid(
            f"{title[:80]!r} cannot be a method's title: letters, digits, _ and - only, at most 64, no dot"
        )
    target = methods_dir / title
    if target.exists():
        raise Contested(f"{target} is there already; choose another title")
    label = label or re.sub(r"[_-]+", " ", title).strip().capitalize() or title
    try:
        methods_dir.mkdir(parents=True, exist_ok=True)
        shutil.copytree(TEMPLATE, target, ignore=shutil.ignore_patterns("__pycache__"))
        definition = target / "method.json"
        text = definition.read_text(encoding="utf-8")
        definition.write_text(text.replace(json.dumps(LABEL), json.dumps(label)), encoding="utf-8")
    except OSError as error:
        raise Invalid(f"{target} cannot be written: {error.strerror}") from error
    return target


def advice(directory: MethodDirectory) -> Iterator[str]:
    """What is wrong with a method that could be loaded: in its stages, in its sample."""
    for script in sorted((directory.path / "stages").glob("[1-5]_*.py")):
        try:
            compile(script.read_bytes(), str(script), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            yield f"stages/{script.name}: {error}"
    sample = directory.path / SAMPLE_PARAMS
    if sample.is_file():
        try:
            params = json.loads(sample.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            yield f"{SAMPLE_PARAMS}: {error}"
        else:
            if not isinstance(params, dict):
                yield f"{SAMPLE_PARAMS}: no JSON object"
            else:
                yield from (
                    f"{SAMPLE_PARAMS}{at}: {why}" for at, why in check_params(directory.method, params)
                )
