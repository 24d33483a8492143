"""What a run says of itself reaches a listener while it runs."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from tests.support.deployment import Deployment


async def test_a_listener_sees_how_far_a_run_is_and_so_does_who_asks(quick: Deployment) -> None:
    quick.serve(watch_interval=0.2)
    quick.worker(sample_interval=0.3)
    async with quick.client() as client, asyncio.timeout(90):
        job = await client.submit("slow", params={"seconds": 30}, recordset="DS-TWO")
        async with aclosing(client.events()) as events:
            async for event in events:
                if (
                    event.name == "progress"
                    and event.data["stage"] == 2
                    and event.data["fraction"] is not None
                ):
                    break
        assert event.job == job["id"]
        assert (event.data["stages"], event.data["name"]) == (5, "2_prepare.py")
        assert 0 < event.data["fraction"] < 1
        why = (await client.job(job["id"]))["why"]
        assert why is not None
        assert why["text"].startswith("Running stage 2 of 5, ")
        await client.action(job["id"], "kill")
        await client.wait(job["id"])
