"""P9: how many status queries and submissions a second one API process answers, held to aiohttp's hello."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from tests.bench import hello
from tests.bench.deployments import deployed
from tests.bench.load import load, request_bytes
from tests.bench.measuring import Bench, Finding

SUBMISSION = json.dumps({"title": "noop", "recordset": "DS"}).encode()


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    count = bench.pick(1_500, 6_000)
    rates: dict[str, list[float]] = {"hello": [], "query": [], "submission": []}
    with hello.running() as plain, deployed(bench, "directory") as deployment:
        deployment.serve()
        async with deployment.client() as client:
            jobs = [(await client.submit("noop", recordset="DS"))["id"] for _ in range(20)]
        key = deployment.keys["ada"]
        query = [request_bytes("GET", f"/v1/jobs/{job}", key=key) for job in jobs]
        submission = request_bytes("POST", "/v1/jobs", key=key, body=SUBMISSION)
        await load(query, deployment.server, count=200)  # warm
        for _ in range(bench.rounds):
            rates["hello"].append((await load([request_bytes("GET", "/")], plain, count=count)).rate)
            rates["query"].append((await load(query, deployment.server, count=count)).rate)
            made = await load([submission], deployment.server, count=count // 10)
            rates["submission"].append(made.rate)
    for what, text, least, note in (
        ("query", "GET /v1/jobs/{id}, authorised", 0.55, ""),
        ("submission", "POST /v1/jobs", 0.35, "the same process makes passes over all that was submitted"),
    ):
        yield Finding(
            goal="P9",
            what=text,
            unit="a second",
            ours=rates[what],
            limit=rates["hello"],
            least=least,
            note=note,
        )
