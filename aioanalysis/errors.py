"""The one error tree; its first split is whose fault it is.

::

    AnalysisError
    ├── RequestError          the caller's: answered with 4xx, never retried
    │   ├── Invalid           a value is wrong; `errors` holds JSON pointers          422
    │   ├── Unauthorized      no key, or one that nobody holds                        401
    │   ├── Forbidden         known, but not allowed                                  403
    │   ├── NotFound          not there, or not yours                                 404
    │   ├── Refused           does not fit the present state; `allowed` says what does 409
    │   └── TooLarge          over a limit                                            413
    ├── JobFailure            the job's own: ends the job with `reason`
    │   └── MethodFailure     of its method or image
    ├── Contested             a condition on a write did not hold: read back, then decide
    │   └── LeaseLost         somebody else holds it, or nobody
    ├── Missing               a stored thing is not there
    └── SystemFault           ours or the infrastructure's
        ├── Unavailable       passing: try again (`retry_after`)                      503
        ├── NoRoom            what is kept for all together is full                   507
        ├── Damaged           stored data that cannot be read
        └── Misconfigured     set-up is wrong: one line that names it, the start stops
"""

from __future__ import annotations

from collections.abc import Sequence


class AnalysisError(Exception):
    """Root of every error that this package raises on purpose."""


class RequestError(AnalysisError):
    """The caller's request cannot be done as it stands."""


class Invalid(RequestError):
    """A value in the request is wrong; `errors` are (JSON pointer, message) pairs."""

    def __init__(self, detail: str, errors: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(detail)
        self.errors = tuple(errors)


class Unauthorized(RequestError):
    """No key was given, or one that nobody holds."""


class Forbidden(RequestError):
    """The caller is known but may not do this."""


class NotFound(RequestError):
    """It does not exist, or it belongs to somebody else."""


class Refused(RequestError):
    """The request does not fit the job's present state."""

    def __init__(self, detail: str, *, state: str | None = None, allowed: Sequence[str] = ()) -> None:
        super().__init__(detail)
        self.state = state
        self.allowed = tuple(allowed)


class TooLarge(RequestError):
    """Something is larger than its limit."""


class JobFailure(AnalysisError):
    """Ends a job: `reason` is one of `domain.outcomes.Reason`, the text is for people."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text


class MethodFailure(JobFailure):
    """The method or its image is at fault; `output` is what the tool printed."""

    def __init__(self, reason: str, text: str, output: str = "") -> None:
        super().__init__(reason, text)
        self.output = output


class Contested(AnalysisError):
    """A conditional write did not hold. It may have been our own lost reply: read back by nonce."""


class LeaseLost(Contested):
    """The lease is not ours (any more)."""


class Missing(AnalysisError):
    """A stored thing is not there."""


class SystemFault(AnalysisError):
    """Our own or the infrastructure's fault."""


class Unavailable(SystemFault):
    """A part cannot be reached now; trying again later is right."""

    def __init__(self, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class NoRoom(SystemFault):
    """There is no room for it now among what is kept for all."""


class Damaged(SystemFault):
    """Stored data that cannot be read as what it should be."""


class Misconfigured(SystemFault):
    """The set-up is wrong; the text is one line that names the setting and the mend."""
