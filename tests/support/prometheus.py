"""A real Prometheus that scrapes the service as README.md says, only sooner."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from tests.support.readme import README, blocks
from tests.support.servers import Server

HEADING = "### When something fails"


class Prometheus(Server):
    """Scrapes one API process, and looks at `rules`, every second."""

    def __init__(self, program: str, target: str, rules: str) -> None:
        super().__init__(program)
        self._configuration = self.folder / "prometheus.yaml"
        (readme,) = blocks(README.read_text(), HEADING, "yaml")
        configuration = yaml.safe_load(readme)
        (scrape,) = configuration["scrape_configs"]
        scrape["scrape_interval"] = "1s"
        scrape["static_configs"] = [{"targets": [urlsplit(target).netloc]}]
        configuration["global"] = {"evaluation_interval": "1s", "scrape_timeout": "1s"}
        self._configuration.write_text(yaml.safe_dump(configuration))
        (rules_file,) = configuration["rule_files"]
        (self.folder / rules_file).write_text(rules)

    def command(self) -> Sequence[str]:
        return [
            self.program,
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def answers(self) -> bool:
        return self._get("/-/ready")[0] == 200

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression gives at this moment: series, each with its `metric` and `value`."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def ask(self, call: str, **parameters: str) -> Any:
        """The data that a call of its API gives."""
        status, body = self._get(f"/api/v1/{call}?{urlencode(parameters)}")
        answer = json.loads(body)
        assert (status, answer["status"]) == (200, "success"), answer
        return answer["data"]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self.ask("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        finally:
            connection.close()


def at_once(rules: str) -> str:
    """Alert rules without their patience."""
    return re.sub(r"\bfor: \w+", "for: 0s", rules)
