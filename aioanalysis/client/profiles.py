"""Services that a user has signed in to, with their keys: one file in the user's configuration folder."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import platformdirs

from aioanalysis.errors import Misconfigured

FILE: Final = "profiles.json"
OTHERS: Final = 0o077


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A service and the key to it, which nothing prints."""

    server: str
    key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiles:
    """The file's content; a change is a copy, and kept once it is saved. `current` is used by default."""

    current: str | None = None
    profiles: dict[str, Profile] = field(default_factory=dict)

    @staticmethod
    def path() -> Path:
        return platformdirs.user_config_path("aioanalysis", appauthor=False) / FILE

    @classmethod
    def load(cls) -> Self:
        """What is stored, or nothing. Raises `Misconfigured` for a file that others may read, or is none."""
        path = cls.path()
        try:
            if os.name == "posix" and path.stat().st_mode & OTHERS:
                raise Misconfigured(f"others may read the keys in {path}: chmod 600 it")
            stored = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                current=stored["current"],
                profiles={name: Profile(**profile) for name, profile in stored["profiles"].items()},
            )
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Misconfigured(f"{path} is damaged: remove it, then `aioanalysis login`") from None

    def get(self, name: str) -> Profile:
        """Raises `Misconfigured`."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none yet"
            raise Misconfigured(f"there is no profile {name} (there are: {known}); see `aioanalysis login`")
        return self.profiles[name]

    def of_server(self, server: str) -> Profile | None:
        """The current profile if it is of this server, else the first that is."""
        names = [*([self.current] if self.current in self.profiles else []), *sorted(self.profiles)]
        found = (self.profiles[name] for name in names if name is not None)
        return next((profile for profile in found if profile.server == server), None)

    def with_profile(self, name: str, profile: Profile) -> Self:
        """With this one, which is the current one from now on."""
        return type(self)(current=name, profiles={**self.profiles, name: profile})

    def without(self, name: str) -> Self:
        left = {other: profile for other, profile in self.profiles.items() if other != name}
        return type(self)(current=None if self.current == name else self.current, profiles=left)

    def save(self) -> None:
        """Write the file whole, for nobody but its owner. Raises `Misconfigured`."""
        path = self.path()
        stored = {
            "current": self.current,
            "profiles": {name: {"server": p.server, "key": p.key} for name, p in self.profiles.items()},
        }
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=FILE)  # with mode 0600
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(stored, file, indent=2)
                Path(temporary).replace(path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise Misconfigured(f"{path} cannot be written: {error.strerror}") from None
