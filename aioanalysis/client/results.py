"""An opened result: the package of a complete job, with its tables, its report and its files at hand."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from aioanalysis.client.models import JobJson
from aioanalysis.domain.members import REPORT_MEMBER
from aioanalysis.errors import NotFound

DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}


class Tables(Mapping[str, list[dict[str, str]]]):
    """The CSV and TSV files of a package by name, each read when it is asked for: one dictionary a row."""

    def __init__(self, package: zipfile.ZipFile) -> None:
        self._package = package
        self._names = [name for name in package.namelist() if Path(name).suffix.lower() in DELIMITERS]

    def __getitem__(self, name: str) -> list[dict[str, str]]:
        if name not in self._names:
            raise KeyError(f"{name}: the tables are {', '.join(self._names) or 'none'}")
        text = io.StringIO(self._package.read(name).decode("utf-8-sig"), newline="")
        return list(csv.DictReader(text, delimiter=DELIMITERS[Path(name).suffix.lower()]))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Result:
    """A complete job's package, opened. Reading from it blocks; nothing is fetched any more.

    `job` is the job as it ended, `package` the zip. Without a folder of the caller's all lies in a temporary
    one, gone when the result is closed: by `close()`, or by leaving `with result:`.
    """

    def __init__(self, job: JobJson, package: Path, temporary: TemporaryDirectory[str] | None = None) -> None:
        self.job = job
        self.package = package
        self._temporary = temporary
        self._zip = zipfile.ZipFile(package)

    @property
    def files(self) -> list[str]:
        """Names of the package's members; of a job with frames these are the frames' packages."""
        return [name for name in self._zip.namelist() if not name.endswith("/")]

    @cached_property
    def tables(self) -> Tables:
        """The tables by name; `result.tables["summary.tsv"]` is a list of rows, each a dictionary."""
        return Tables(self._zip)

    @property
    def report(self) -> Path:
        """The report, one HTML file that needs nothing else; raises `NotFound`."""
        return self.path(REPORT_MEMBER)

    def read(self, name: str) -> bytes:
        """A member's bytes; raises `NotFound`."""
        try:
            return self._zip.read(name)
        except KeyError:
            raise NotFound(f"the package holds no {name}") from None

    def path(self, name: str) -> Path:
        """A member as a file beside the package, unpacked when it is first asked for; raises `NotFound`."""
        try:
            return Path(self._zip.extract(name, self._folder))
        except KeyError:
            raise NotFound(f"the package holds no {name}") from None

    def unpack(self) -> Path:
        """All members as files; the folder they are in."""
        self._zip.extractall(self._folder)
        return self._folder

    def close(self) -> None:
        """Close the package, and remove it if it lies in a temporary folder. May be called again."""
        self._zip.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Result of {self.job['title']} {self.job['id']}: {len(self.files)} files in {self.package}>"

    @property
    def _folder(self) -> Path:
        return self.package.with_suffix("")
