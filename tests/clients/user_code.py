"""Code as a user writes it, read by mypy alone: it is wrong where a comment says so, and nowhere
else."""

from __future__ import annotations

from discreet_client import AsyncClient, Client
from discreet_client.rest import models, operations

trip = models.Trip(period=0, origin=1, destination=2, count=5)
content: models.RoutingContent = {
    "trips": [trip, {"period": 0, "origin": 2, "destination": 1, "count": 5}]
}
link: models.Link = {"tail": 1, "head": 2, "capacity": 100, "free_flow_time": 1}
road: models.Link = {  # wrong: Extra key "lanes"
    "tail": 1,
    "head": 2,
    "capacity": 100,
    "free_flow_time": 1,
    "lanes": 2,
}
street = models.Link(tail=1, head=2, capacity=100)  # wrong: Missing key "free_flow_time"
hidden: models.Encryption = {"scheme": "rsa"}  # wrong: Literal['paillier', 'masking']
steering = models.DrEnsemble(
    kind="dr_ensemble", dataset="ds_1", discomfort_weight=1, power=[1, 2], initial=[1, 0]
)


def plan(client: Client) -> float:
    planned = client.plan(steering, epsilon=1)
    if planned["admitted"] and planned["prise"]:  # wrong: has no key "prise"
        return 0
    return planned["price"]["epsilon"]


def power(body: models.JobRequest) -> list[float] | None:
    if body["problem"]["kind"] == "dr_ensemble":
        return body["problem"]["power"]
    return [float(body["problem"]["power"])]  # wrong: "Routing" has no key "power"


async def call(client: AsyncClient) -> str:
    await client.call(
        operations.submit_job(
            {"problem": steering, "privacy": {"epsilon": 0.5}}, idempotency_key="a"
        )
    )
    await client.call(operations.list_jobs(state="done"))  # wrong: Argument "state"
    made = await client.call(
        operations.create_webhook({"url": "https://example.org", "events": ["job.finished"]})
    )
    print(made["secrets"])  # wrong: has no key "secrets"
    return made["secret"]
