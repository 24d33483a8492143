"""Whether a container's process is well: `python -m aioanalysis.healthcheck [serve|worker]`.

Of the standard library only, and small: it is run every few seconds. Prints a line; exits 0 (well) or 1.
"""

from __future__ import annotations

import http.client
import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

ANSWER_SECONDS = 4.0
MISSED = 3  # signs of life that a worker may fail to give


def serve(environment: Mapping[str, str]) -> str | None:
    """What is wrong with the API of this host, by its /healthz; None if nothing is."""
    port = int(environment.get("AIOANALYSIS_PORT") or 8080)
    host = environment.get("AIOANALYSIS_HOST") or "127.0.0.1"
    if host in {"0.0.0.0", "::"}:  # noqa: S104
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    connection = http.client.HTTPConnection(host, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/healthz")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"no answer on port {port}: {error}"
    finally:
        connection.close()
    return None if status == 200 else f"/healthz answers {status}"


def worker(environment: Mapping[str, str]) -> str | None:
    """What is wrong with this host's worker, by the sign of life that it writes at every sample interval."""
    folder = Path(environment.get("AIOANALYSIS_DATA_DIR") or ".aioanalysis", "worker")
    interval = float(environment.get("AIOANALYSIS_SAMPLE_INTERVAL") or 10)
    ours = socket.gethostname()
    signs = [path.stat().st_mtime for path in folder.glob("*/alive") if path.read_text() == ours]
    if not signs:
        return f"no worker of this host has written a sign of life under {folder}"
    age = time.time() - max(signs)
    return None if age <= MISSED * interval + ANSWER_SECONDS else f"its last sign of life was {age:.0f} s ago"


def main(arguments: list[str]) -> int:
    kinds = {"serve": serve, "worker": worker}
    kind = arguments[0] if arguments else "serve"
    if kind not in kinds or len(arguments) > 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        problem = kinds[kind](os.environ)
    except (ValueError, OSError) as error:
        problem = str(error)
    print(problem or "well")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
