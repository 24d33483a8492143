"""What `dev` makes for itself in the data folder and keeps: a Valkey server, folders, secrets, keys."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet
from pydantic import SecretStr

from aioanalysis.aio import in_thread
from aioanalysis.identity import keyfile
from aioanalysis.settings import Settings

CONNECTION_FILE: Final = "dev.json"
SECRETS_FILE: Final = "secrets.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Development:
    """Settings completed with embedded parts, and the keys to sign in with."""

    settings: Settings
    user_key: str
    administrator_key: str
    recordsets: tuple[str, ...]

    def announce(self, address: str) -> None:
        """Leave the address and a key where client commands of this folder find them."""
        connection = {"server": address, "key": self.user_key}
        _write_private(self.settings.data_dir / CONNECTION_FILE, json.dumps(connection))


@asynccontextmanager
async def prepared(settings: Settings) -> AsyncIterator[Development]:
    """Start the embedded server and fill in whatever the settings leave open; raises `Misconfigured`."""
    from aioanalysis.jobstore.embedded import embedded_server

    data = settings.data_dir
    await in_thread(data.mkdir, parents=True, exist_ok=True)
    made = await in_thread(_secrets, data)
    async with embedded_server(data) as url:
        updates: dict[str, object] = {
            "redis_url": SecretStr(url),
            "job_key_secret": settings.job_key_secret or SecretStr(made["job_key_secret"]),
            "system_token": settings.system_token or SecretStr(made["system_token"]),
            "keys_file": data / "keys",
        }
        if not (settings.azure_connection_string or settings.azure_account_url or settings.storage_directory):
            updates["storage_directory"] = data / "storage"
        if settings.records_kind == "http" and not (settings.records_url or settings.records_directory):
            updates["records_directory"] = data / "recordsets"
            await in_thread(_samples, settings.methods_dir, data / "recordsets")
        complete = settings.model_copy(update=updates)
        recordsets = await in_thread(_recordsets, complete.records_directory)
        yield Development(
            settings=complete,
            user_key=made["user_key"],
            administrator_key=made["administrator_key"],
            recordsets=recordsets,
        )


def _secrets(data: Path) -> dict[str, str]:
    """Secrets and keys of this folder, made when it is used first."""
    path, keys = data / SECRETS_FILE, data / "keys"
    if path.exists() and keys.exists():
        found: dict[str, str] = json.loads(path.read_text())
        return found
    user_key, user = keyfile.new_key("developer", "user")
    administrator_key, administrator = keyfile.new_key("administrator", "administrator")
    made = {
        "job_key_secret": Fernet.generate_key().decode(),
        "system_token": secrets.token_urlsafe(32),
        "user_key": user_key,
        "administrator_key": administrator_key,
    }
    for entry in (user, administrator):
        keyfile.add(keys, entry)
    _write_private(path, json.dumps(made))
    return made


def _samples(methods_dir: Path, recordsets: Path) -> None:
    """Offer each method's sample, simulated records, as a record set; one that is there is kept."""
    recordsets.mkdir(parents=True, exist_ok=True)
    for sample in sorted(methods_dir.glob("*/sample/records.jsonl")):
        target = recordsets / f"SIMULATED-{sample.parts[-3]}.jsonl"
        if not target.exists():
            shutil.copyfile(sample, target)


def _recordsets(folder: Path | None) -> tuple[str, ...]:
    if folder is None or not folder.is_dir():
        return ()
    return tuple(sorted({path.name.split(".jsonl")[0] for path in folder.glob("*.jsonl*")}))


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.touch(mode=0o600)
    temporary.write_text(text)
    temporary.replace(path)
