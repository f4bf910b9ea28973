"""kill -9 around a correction: the dataset is what it was, or what it is to be, and opens."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from discreet.observability.faults import SWITCH
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation


@pytest.mark.parametrize("point", ["correction.written", "correction.committed"])
def test_kill_9_around_a_correction(point: str, service: Installation) -> None:
    body: dict[str, Any] = bodies.dataset()
    with service.client() as client:
        made = client.register(body)
    rows = [{**row, "count": row["count"] + 7} for row in body["content"]["trips"]]
    faulty = Installation(service.settings, owner_key=service.owner_key)
    faulty.extra = {"DISCREET_FAULTS_SWITCH": SWITCH, "DISCREET_FAULTS": f"{point}=1"}
    change = {"public": {"zones": 4}, "content": {"trips": rows}}
    try:
        faulty.start_api()
        with faulty.http() as http, pytest.raises(httpx.TransportError):
            http.patch(f"/v1/datasets/{made['id']}", json=change)
        assert faulty.api is not None
        assert faulty.api.wait(DEADLINE_SECONDS) == -9
    finally:
        faulty.stop()
    there = point == "correction.committed"
    with service.client() as client:
        now = client.dataset(made["id"])
        assert (now["revision"], now["public"]["zones"]) == ((2, 4) if there else (1, 3))
        # What it was and what it is lead to one account, and its content opens for a job.
        for content in (body["content"], {"trips": rows}):
            public = {**body["public"], "zones": 4}
            if not there and content is not body["content"]:
                continue  # nothing is known of what was rolled back
            with service.http() as http:
                again = http.post(
                    "/v1/datasets",
                    json={
                        **body,
                        "cap": None,
                        "account": made["account"],
                        "content": content,
                        "public": public,
                    },
                )
            assert again.json()["account"] == made["account"], again.text
        job = client.wait(client.submit(bodies.job(made["id"]))["id"])
        assert job["state"] == "succeeded", job
