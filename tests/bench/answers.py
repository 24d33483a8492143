"""P9: how many status queries and submissions a second one API process answers, held to aiohttp's hello."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from tests.bench import hello
from tests.bench.deployments import deployed
from tests.bench.load import load, request_bytes
from tests.bench.measuring import Bench, Finding, Spent

SUBMISSION = json.dumps({"title": "noop", "recordset": "DS"}).encode()


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    count = bench.pick(1_500, 6_000)
    with hello.running() as (plain, pid), deployed(bench, "directory") as deployment:
        api = deployment.serve()
        async with deployment.client() as client:
            jobs = [(await client.submit("noop", recordset="DS"))["id"] for _ in range(20)]
        key = deployment.keys["ada"]
        query = [request_bytes("GET", f"/v1/jobs/{job}", key=key) for job in jobs]
        submission = [request_bytes("POST", "/v1/jobs", key=key, body=SUBMISSION)]
        await load(query, deployment.server, count=200)  # warm
        for what, requests, number, least, note in (
            ("GET /v1/jobs/{id}, authorised", query, count, 0.55, ""),
            (
                "POST /v1/jobs",
                submission,
                count // 10,
                0.35,
                "the same process makes passes over all that was submitted",
            ),
        ):
            spent, spent_plain = Spent({"": api.process.pid}), Spent({"": pid})
            ours, limit = [], []
            for _ in range(bench.rounds):
                with spent_plain.watched():
                    limit.append((await load([request_bytes("GET", "/")], plain, count=count)).rate)
                with spent.watched():
                    ours.append((await load(requests, deployment.server, count=number)).rate)
            yield Finding(
                goal="P9", what=what, unit="a second", ours=ours, limit=limit, least=least, note=note
            )
            yield Finding(
                goal="P9",
                what=f"CPU of the process for one {what.split()[0]}, to that of hello",
                unit="us",
                ours=[one / number * 1e6 for one in spent.by[""]],
                limit=[one / count * 1e6 for one in spent_plain.by[""]],
            )
