"""compose.yaml as a stack: what `scripts/swarm` deploys. Two nodes that run it: `scripts/try-swarm`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.parts import require

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
SWARM_LACKS = {"build", "depends_on", "group_add", "restart", "security_opt"}
REAL_ACCOUNT = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=eA==;EndpointSuffix=example.org"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    require("compose")
    inherited = {name: value for name, value in os.environ.items() if name != "METHODS"}
    return {**inherited, "COMPOSE_ENV": str(tmp_path / "compose.env")}


def services(environment: dict[str, str], **more: str) -> dict[str, Any]:
    done = subprocess.run(
        [ROOT / "scripts" / "swarm", "config"],
        env={**environment, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = yaml.safe_load(done.stdout)["services"]
    return found


def test_the_stack_has_every_service_and_nothing_that_swarm_lacks(environment: dict[str, str]) -> None:
    stack = services(environment)
    assert stack.keys() == COMPOSE.keys()
    for name, service in stack.items():
        assert not service.keys() & SWARM_LACKS, name
        kept = COMPOSE[name].keys() - SWARM_LACKS - {"volumes", "ports", "environment", "deploy"}
        assert {key: service[key] for key in kept} == {key: COMPOSE[name][key] for key in kept}


def test_workers_go_to_any_node_and_what_keeps_data_stays_at_home(environment: dict[str, str]) -> None:
    stack = services(environment)
    bound = {name for name, service in stack.items() if "placement" in service["deploy"]}
    assert bound == {"api", "redis", "azurite"}
    worker = stack["worker"]
    assert worker["deploy"]["replicas"] == "${WORKERS:-1}"
    assert worker["deploy"]["update_config"]["parallelism"] == 1
    assert worker["environment"]["AIOANALYSIS_WORKER_ID"] == "{{.Node.Hostname}}"
    assert worker["user"].startswith("10001:")


def test_methods_are_the_images_unless_a_folder_is_named(environment: dict[str, str]) -> None:
    def mounts(stack: dict[str, Any]) -> list[str]:
        return [v for name in ("api", "worker") for v in stack[name]["volumes"] if ":/methods" in v]

    assert mounts(services(environment)) == []
    assert len(mounts(services(environment, METHODS="/srv/methods"))) == 2


def test_with_a_real_account_there_is_no_emulator(environment: dict[str, str]) -> None:
    assert "azurite" in services(environment, AIOANALYSIS_AZURE_CONNECTION_STRING=REAL_ACCOUNT)
    with Path(environment["COMPOSE_ENV"]).open("a") as file:  # what counts is what the containers read
        file.write(f"AIOANALYSIS_AZURE_CONNECTION_STRING={REAL_ACCOUNT}\n")
    assert "azurite" not in services(environment)


def test_the_published_port_is_that_of_compose(environment: dict[str, str]) -> None:
    ports = services(environment, PUBLISH="127.0.0.1:9000")["api"]["ports"]
    assert ports == [{"target": 8080, "published": 9000, "mode": "host"}]
