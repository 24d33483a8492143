"""The short form of `scripts/chaos`: one fault of each kind while jobs flow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHAOS = Path(__file__).parents[2] / "scripts" / "chaos"


def test_nothing_is_lost_doubled_or_left_whatever_dies(
    redis_url: str, azurite: object, base_image: str
) -> None:
    run = subprocess.run(
        [sys.executable, CHAOS, "--short"], capture_output=True, text=True, timeout=300, check=False
    )
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "nothing lost, nothing doubled, nothing left" in run.stdout
