"""`make demo`: start everything on a fresh state folder, run one job of every kind over HTTP, show what came out.

The data are synthetic and public (Poisson mornings around a published trip table), so that the private result can be
held against the true optimum. With real data nobody could print that last line.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from discreet.figures import draw_link_flows
from discreet.problems.routing import Routing
from discreet.settings import Settings
from discreet.solvers.traffic_assignment import Policy, assign, link_flows_of, total_travel_time
from discreet.up import running
from discreet_client.client import Client

HERE = Path(__file__).parent
PICTURES = HERE.parent / ".demo"

console = Console()


def main() -> None:
    """Everything, from nothing to a picture."""
    with tempfile.TemporaryDirectory(prefix="discreet demo ") as folder:
        settings = Settings(state=Path(folder) / "state")
        console.print("starting PostgreSQL, API and worker …")
        with running(settings) as ready:
            console.print(f"ready at {ready['api']}")
            key = (settings.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                routing(client)


def routing(client: Client) -> None:
    """Fifty mornings on the Sioux Falls network, routed at epsilon 0.1."""
    body = json.loads((HERE / "routing-sioux-falls.json").read_text())
    dataset = body["problem"]["dataset"]
    registered = client.register(dataset)
    body["problem"]["dataset"] = registered["id"]

    plan = client.plan(body)
    noise = plan["plan"]["noise"][0]
    console.rule("routing: the price, before any data are touched")
    console.print(f"epsilon {plan['price']['epsilon']}, delta {plan['price']['delta']}: {plan['plan']['neighbours']}")
    console.print(
        f"{noise['distribution']} of standard deviation {noise['standard_deviation']:.1f} on {noise['quantity']}"
    )

    answer = wait(client, client.submit(body)["id"])
    result, certificate = answer["result"], answer["certificate"]
    guarantee = certificate["guarantee"]
    console.rule("certificate")
    console.print(f"{guarantee['type']}: epsilon {guarantee['epsilon']}, delta {guarantee['delta']}")
    console.print(f"neighbours: {guarantee['neighbours']}")
    for assumption in certificate["assumptions"]:
        console.print(f"assumes: {assumption}")
    entry = certificate["ledger_entry"][0]
    console.print(f"ledger: {entry['account']} entry {entry['seq']}, {entry['hash'][:16]}…, signed (Ed25519)")

    budget = client.budget(registered["account"])
    table = Table("", "epsilon", "delta", title="budget")
    for name in ("cap", "spent", "reserved", "remaining"):
        table.add_row(name, f"{budget[name]['epsilon']}", f"{budget[name]['delta']}")
    console.print(table)

    console.rule("what the noise cost (the data are synthetic, so we may look)")
    problem = Routing.model_validate(body["problem"])
    zones, periods = dataset["public"]["zones"], dataset["public"]["periods"]
    network, latency = problem.network.arrays(zones), problem.latency.solver_form()
    demand = mean_demand(dataset, zones, periods)
    optimum = assign(network, latency, demand, "system_optimum").total_travel_time
    flows = link_flows_of(policy_of(result["policy"], len(problem.network.links)), demand)
    private = total_travel_time(network, latency, flows)
    console.print(f"total travel time, optimum on the true demand:       {optimum:16,.2f} vehicle-minutes a period")
    console.print(f"total travel time, released policy on the same trips: {private:15,.2f} vehicle-minutes a period")
    console.print(f"extra: {100 * (private / optimum - 1):.2e} %")

    PICTURES.mkdir(exist_ok=True)
    picture = PICTURES / "routing.png"
    places = np.array(json.loads((HERE / "sioux_falls.json").read_text())["nodes"])
    draw_link_flows(network, np.array(result["link_flows"]), picture, coordinates=places)
    console.print(f"network with its link flows: {picture}")


def wait(client: Client, job_id: str) -> dict[str, Any]:
    """The result of a job, with a progress bar meanwhile."""
    columns = (TextColumn("{task.description:9}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("queued", total=None)

        def show(state: str, step: int, total: int) -> None:
            progress.update(task, description=state, total=total, completed=total if state == "succeeded" else step)

        ended = client.wait(job_id, show)
    if ended["state"] != "succeeded":
        raise SystemExit(f"job {job_id} {ended['state']}: {ended['error']['detail']}")
    return client.result(job_id)


def mean_demand(dataset: dict[str, Any], zones: int, periods: int) -> NDArray[np.float64]:
    """The true mean demand of a period."""
    demand = np.zeros((zones, zones))
    for trip in dataset["content"]["trips"]:
        demand[trip["origin"] - 1, trip["destination"] - 1] += trip["count"] / periods
    return demand


def policy_of(pairs: list[dict[str, Any]], link_count: int) -> Policy:
    """The solver's form of a policy as it was published."""
    paths = [path for pair in pairs for path in pair["paths"]]
    return Policy(
        origin=np.array([pair["origin"] - 1 for pair in pairs]),
        destination=np.array([pair["destination"] - 1 for pair in pairs]),
        pair_start=np.cumsum([0, *(len(pair["paths"]) for pair in pairs)]),
        share=np.array([path["share"] for path in paths]),
        path_start=np.cumsum([0, *(len(path["links"]) for path in paths)]),
        links=np.array([link for path in paths for link in path["links"]], dtype=np.int32),
        link_count=link_count,
    )


if __name__ == "__main__":
    main()
