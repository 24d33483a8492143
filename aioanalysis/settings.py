"""The one settings class: environment variables with the prefix `AIOANALYSIS_`, and an optional `.env`."""

from __future__ import annotations

import difflib
import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from aioanalysis.domain.method import Limits
from aioanalysis.errors import Misconfigured

PREFIX = "AIOANALYSIS_"
MIB = 1024 * 1024
GIB = 1024 * MIB


class Settings(BaseSettings):
    """Times are in seconds, sizes in bytes. A name here is, in capitals and prefixed, the variable's name."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        allow_inf_nan=False,
    )

    # where this installation keeps its own files
    data_dir: Path = Field(
        Path(".aioanalysis"), description="Folder for spool, embedded parts and job directories."
    )
    methods_dir: Path = Field(Path("methods"), description="Folder with one directory a method.")

    # API
    host: str = Field("127.0.0.1", description="Address the API listens on.")
    port: int = Field(8080, ge=0, le=65535, description="Port the API listens on; 0 takes a free one.")
    drain_seconds: float = Field(30, ge=0, description="How long a stop waits for running downloads or runs.")
    body_max_bytes: int = Field(8 * MIB, gt=0, description="Largest JSON request body.")
    attached_max_bytes: int = Field(64 * MIB, gt=0, description="Largest attached record set, compressed.")
    attached_expanded_max_bytes: int = Field(
        4 * GIB, gt=0, description="Largest attached record set, expanded."
    )
    attached_ratio_max: float = Field(
        200, gt=1, description="How many times its compressed size an attached record set may have expanded."
    )
    attached_total_bytes: int = Field(
        1 * GIB, gt=0, description="All attached record sets together, compressed: memory of the job store."
    )
    session_seconds: int = Field(43_200, ge=60, description="How long a browser stays signed in.")
    link_max_seconds: int = Field(86_400, ge=1, description="Longest life of a signed link.")
    trusted_proxies: str | None = Field(
        None, description="Addresses or networks, comma separated, whose X-Forwarded-For is believed."
    )
    downloads_max: int = Field(100, gt=0, description="Downloads that one API process serves at a time.")

    # job store
    redis_url: SecretStr | None = Field(
        None, description="redis://, rediss:// or unix:// address of Redis or Valkey."
    )
    redis_prefix: str = Field("aioanalysis:", description="What all our keys in Redis begin with.")
    job_key_secret: SecretStr | None = Field(
        None, description="Fernet key(s), comma separated, newest first, that seal submitters' keys."
    )
    job_expiry: int = Field(604_800, gt=0, description="Seconds from a job's creation to its expiry.")
    orphan_seconds: float = Field(
        3600, ge=0, description="Age from which a file of no job counts as an orphan."
    )

    # package storage: exactly one of directory, connection string, account URL
    storage_directory: Path | None = Field(None, description="Local folder that holds both containers.")
    azure_connection_string: SecretStr | None = Field(None, description="Azure Blob connection string.")
    azure_account_url: SecretStr | None = Field(
        None, description="Azure Blob account URL, with a SAS or for azure-identity's default credential."
    )
    queue_container: str = Field(
        "queue", min_length=3, max_length=63, description="Name of the queue container."
    )
    results_container: str = Field(
        "results", min_length=3, max_length=63, description="Name of the results container."
    )

    # record store: at most one
    records_kind: Literal["http", "bold-portal", "bold-data"] = Field(
        "http", description="What speaks at RECORDS_URL: the HTTP contract, BOLD's portal, BOLD's data API."
    )
    records_url: str | None = Field(
        None,
        description="HTTP record store; {kind} (recordsets, sets) and {value} are filled in."
        " For BOLD the API's base address; its public one if not set.",
    )
    records_auth: Literal["bearer", "api-key"] = Field(
        "bearer", description="Header that carries the submitter's key."
    )
    records_directory: Path | None = Field(None, description="Folder of CODE.jsonl[.gz] record sets.")

    # identity
    keys_file: Path | None = Field(None, description="File of hashed keys, their users and roles.")
    system_token: SecretStr | None = Field(
        None, description="The platform's own key: sees and may override all."
    )

    identity_url: str | None = Field(
        None, pattern=r"^https?://", description="HTTP service that says who is behind a key."
    )
    identity_auth: Literal["bearer", "api-key"] = Field(
        "bearer", description="Header that carries the key to IDENTITY_URL."
    )
    identity_cache_seconds: float = Field(60, ge=0, description="How long its answer is believed.")
    identity_negative_seconds: float = Field(
        10, ge=0, description="How long its answer that nobody holds a key is believed."
    )
    failed_signins_per_minute: int = Field(
        60, ge=1, description="Keys that nobody holds, from one address, before it has to wait."
    )

    # scheduler
    queue_limit: int = Field(10, ge=1, description="Packages in the queue container at most.")
    time_limit: float = Field(
        21_600, gt=0, description="Seconds from submission until an unfinished job fails."
    )
    pass_interval: float = Field(30, gt=0, description="Seconds between full passes.")
    watch_interval: float = Field(
        2, gt=0, description="Seconds between passes while a job is queued or running."
    )
    packaging_tasks: int = Field(4, ge=1, description="Packages built at the same time.")
    lock_seconds: float = Field(15, ge=2, description="How long the scheduler's lock outlives its holder.")
    wrangle_failures: int = Field(
        5, ge=0, description="Failures in a row that hold what has not started; 0 turns it off."
    )
    max_recoveries: int = Field(3, ge=0, description="How often a package of a lost worker is put back.")

    # storage protocol: scheduler and workers must agree
    lease_seconds: int = Field(30, ge=15, le=60, description="Lease of a worker on its package.")
    lease_grace_seconds: float = Field(
        10, ge=0, description="Seconds after a lapsed lease before it counts as lost."
    )

    # worker
    runtime: Literal["auto", "docker", "process"] = Field(
        "auto", description="What runs methods; auto: docker if there is an engine."
    )
    docker_host: str | None = Field(None, description="Address of the engine; the usual socket if not given.")
    host_data_dir: Path | None = Field(
        None,
        description="DATA_DIR as the engine's host has it, for a worker in a container; asked of the engine"
        " if not set.",
    )
    worker_id: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
        description="Name of this worker; host name if not given.",
    )
    worker_jobs: int = Field(1, ge=1, le=64, description="Packages a worker handles at a time.")
    poll_interval: float = Field(1, gt=0, description="Seconds between an idle worker's looks at the queue.")
    sample_interval: float = Field(10, gt=0, description="Seconds between samples of a run.")
    base_image: str | None = Field(
        None, description="BASE_IMAGE given to methods' builds; the Dockerfile's own if not set."
    )
    build_network: str | None = Field(
        None, description="Network of image builds (none, host, a name); the engine's default if not set."
    )
    images_max_bytes: int = Field(
        20 * GIB, gt=0, description="Most disk space of methods' images, base images aside."
    )
    run_user: str | None = Field(
        None,
        pattern=r"^[1-9][0-9]*:[0-9]+$",
        description="uid:gid of runs; the worker's own if not set, 65534:65534 if the worker is root.",
    )
    run_memory_bytes: int = Field(
        2 * GIB, gt=0, description="Most memory a run may use, and what it gets by default."
    )
    run_cpus: float = Field(2, gt=0, description="Most CPUs a run may use, and what it gets by default.")
    host_memory_bytes: int | None = Field(
        None, gt=0, description="Memory of this host's runs together; nine tenths of the host's if not set."
    )
    host_cpus: float | None = Field(
        None, gt=0, description="CPUs of this host's runs together; the host's if not set."
    )
    run_seconds: float = Field(21_600, gt=0, description="Longest run.")
    silence_seconds: float | None = Field(
        None, gt=0, description="Longest time without output; no limit if not set."
    )
    output_max_bytes: int = Field(20 * GIB, gt=0, description="Largest job directory of a run.")
    package_max_bytes: int = Field(20 * GIB, gt=0, description="Largest package, unpacked.")
    disk_reserve_bytes: int = Field(
        1 * GIB, ge=0, description="Free disk space below which nothing is claimed."
    )
    run_logs_kept: int = Field(500, ge=1, description="Logs of ended runs that a worker keeps on its host.")

    # client commands
    server: str | None = Field(None, description="Service that client commands speak to.")
    key: SecretStr | None = Field(None, description="Key that client commands use.")
    profile: str | None = Field(None, description="Profile, made by login, that client commands use.")

    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, else JSON."
    )

    @field_validator("queue_container", "results_container")
    @classmethod
    def _container_name(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
            raise ValueError("must be lower-case letters, digits and single hyphens between them")
        return name

    @field_validator("job_key_secret")
    @classmethod
    def _fernet(cls, secret: SecretStr | None) -> SecretStr | None:
        from cryptography.fernet import Fernet

        for key in secret.get_secret_value().split(",") if secret else ():
            try:
                Fernet(key.strip())
            except ValueError:
                raise ValueError("must be Fernet keys; `aioanalysis keys secret` prints one") from None
        return secret

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, text: str | None) -> str | None:
        for network in filter(None, map(str.strip, (text or "").split(","))):
            try:
                ip_network(network)
            except ValueError:
                raise ValueError("must be addresses or networks, such as 10.0.0.0/8,::1") from None
        return text

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        problems = []
        for choice in (
            ("storage_directory", "azure_connection_string", "azure_account_url"),
            ("records_url", "records_directory"),
        ):
            if sum(getattr(self, name) is not None for name in choice) > 1:
                problems.append(f"set only one of {', '.join(PREFIX + name.upper() for name in choice)}")
        if self.records_kind != "http" and self.records_directory is not None:
            problems.append(
                f"{PREFIX}RECORDS_DIRECTORY cannot be set with {PREFIX}RECORDS_KIND={self.records_kind}"
            )
        if self.queue_container == self.results_container:
            problems.append("the queue and results containers must differ")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @property
    def host_limits(self) -> Limits:
        """The host's caps on every run, and its defaults."""
        return Limits(
            run_seconds=self.run_seconds,
            silence_seconds=self.silence_seconds,
            memory_bytes=self.run_memory_bytes,
            cpus=self.run_cpus,
            output_bytes=self.output_max_bytes,
        )


def load(**overrides: Any) -> Settings:
    """Read the settings; raises `Misconfigured` with one line that names every wrong value."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise Misconfigured("; ".join(_problem(e) for e in error.errors(include_input=False))) from None
    except UnicodeDecodeError as error:
        raise Misconfigured("the file .env is not UTF-8") from error


def unknown_variables() -> dict[str, str | None]:
    """Variables of the environment that look like settings and are none, with the name that may be meant."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    given = {name.upper() for name in os.environ if name.upper().startswith(PREFIX)}
    return {
        name: next(iter(difflib.get_close_matches(name, known, 1)), None) for name in sorted(given - known)
    }


def _problem(error: Any) -> str:
    message = str(error["msg"]).removeprefix("Value error, ")
    name = "_".join(str(part) for part in error["loc"])
    return f"{PREFIX}{name.upper()}: {message}" if name else message
