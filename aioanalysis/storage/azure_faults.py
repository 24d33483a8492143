"""What Azure's answers and failures mean in our errors: the one place that decides.

Texts are made of our own words and Azure's error code only: its messages may quote signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError

from aioanalysis.errors import (
    AnalysisError,
    Contested,
    LeaseLost,
    Misconfigured,
    Missing,
    SystemFault,
    Unavailable,
)

TRANSPORT_FAULTS: Final = (aiohttp.ClientError, OSError, TimeoutError)
_CONTESTED: Final = frozenset({"InvalidBlockList", "InvalidBlobOrBlock", "LeaseIdMissing"})
_PASSING: Final = frozenset(
    {"ContainerBeingDeleted", "AccountBeingCreated", "ServerBusy", "OperationTimedOut"}
)


@contextmanager
def faults(subject: str) -> Iterator[None]:
    """Raise ours in place of Azure's and the network's; `subject` says what was being done to what."""
    try:
        yield
    except HttpResponseError as error:
        if error.response is None:
            raise _no_answer(subject, error) from error
        headers: Mapping[str, str] = getattr(error.response, "headers", {})
        fault = fault_of(error.response.status_code or 0, headers, subject)
        raise fault from (None if isinstance(fault, Misconfigured) else error)
    except ClientAuthenticationError as error:  # of azure-identity: no answer of the storage
        raise Misconfigured(f"{subject}: no credential that works ({type(error).__name__})") from None
    except (AzureError, *TRANSPORT_FAULTS) as error:
        raise _no_answer(subject, error) from error


@contextmanager
def listing(subject: str) -> Iterator[None]:
    """As `faults`, around the SDK's own lists: it trips over an answer that is none, as a gateway's page."""
    with faults(subject):
        try:
            yield
        except (AttributeError, TypeError, ValueError) as error:
            raise Unavailable(f"{subject}: an answer that is no list ({type(error).__name__})") from error


def fault_of(status: int, headers: Mapping[str, str], subject: str) -> AnalysisError:
    """The error that a reply with `status` is."""
    code = headers.get("x-ms-error-code") or ""
    text = f"{subject}: {code or 'refused'} ({status})"
    if status < 300:
        return Unavailable(f"{subject}: an answer that cannot be read ({status})")
    if status in {408, 429} or status >= 500 or code in _PASSING:
        return Unavailable(text, retry_after=_seconds(headers.get("Retry-After")))
    if status in {401, 403}:
        return Misconfigured(f"{text}: check the account key, or the SAS and what it permits")
    if code == "ContainerNotFound":
        return Misconfigured(f"{text}: the container does not exist")
    if status == 404:
        return Missing(text)
    if code in _CONTESTED:
        return Contested(text)
    if code.startswith("Lease"):
        return LeaseLost(text)
    if status in {304, 409, 412}:
        return Contested(text)
    return SystemFault(text)


def _no_answer(subject: str, error: Exception) -> Unavailable:
    return Unavailable(f"{subject}: no answer from storage ({type(error).__name__})")


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
