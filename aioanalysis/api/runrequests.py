"""What a submission asks of its runs: into how many it is split, and what must have ended before."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from aioanalysis.domain.dependencies import Condition, Dependency
from aioanalysis.domain.job import ID_ALPHABET, ID_LENGTH, Split

RECORDS_MAX: Final = 2**53
ID_PATTERN: Final = f"^[{ID_ALPHABET}]{{{ID_LENGTH}}}$"


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
"""To JSON 5 and 5.0 are the same."""
JobId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]


class SplitRequest(BaseModel):
    """One run for each `records` records, or for each value that the field `by` has: one of the two."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        json_schema_extra={"oneOf": [{"required": ["records"]}, {"required": ["by"]}]},
    )

    records: Whole | None = Field(None, ge=1, le=RECORDS_MAX)
    by: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.records is None) == (self.by is None):
            raise ValueError("exactly one of records and by must be given")
        return self

    def split(self) -> Split:
        return Split(records=self.records, by=self.by)


class DependencyRequest(BaseModel):
    """Another job, and which end of it is waited for; `each`: frame n waits for that job's frame n."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    job: JobId
    when: Annotated[Condition, Field(strict=False)] = Condition.COMPLETE
    each: bool = False

    def dependency(self) -> Dependency:
        return Dependency(job=self.job, when=self.when, each=self.each)


def _named(value: Any) -> Any:
    """A bare id is a job whose completion is waited for."""
    return {"job": value} if isinstance(value, str) else value


_ID: Final[dict[str, Any]] = {"type": "string", "pattern": ID_PATTERN}
Parent = Annotated[
    DependencyRequest,
    BeforeValidator(_named),
    WithJsonSchema(
        {
            "anyOf": [
                _ID,
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["job"],
                    "properties": {
                        "job": _ID,
                        "when": {"enum": [condition.value for condition in Condition], "default": "complete"},
                        "each": {"type": "boolean", "default": False},
                    },
                },
            ]
        }
    ),
]
