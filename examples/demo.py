"""`make demo`: start everything on a fresh state folder, run one job of every kind over HTTP, show
the results.

The data are synthetic and public, so that the private results can be compared with the truth. With
real data nobody could print those lines.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from ev_charging import BASELINE_KW, LIMIT_KW, job
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from discreet.figures.curves import Curve, draw_curves
from discreet.figures.network import draw_link_flows
from discreet.installation.prepared import running
from discreet.problems.routing.problem import Routing
from discreet.reproduce.event_capacity import job_body
from discreet.reproduce.load_ensemble import generate
from discreet.reproduce.networks import sioux_falls_figures
from discreet.reproduce.simulators import (
    CHAIN_DISCOUNT,
    CHAIN_STATES,
    Rows,
    chain,
    chain_cell_rewards,
    chain_topology,
)
from discreet.settings import Settings
from discreet.solvers.traffic.traffic_assignment import (
    Policy,
    assign,
    link_flows_of,
    total_travel_time,
)
from discreet_client.agent import Agent
from discreet_client.agent.multi_agent import Minimum, minimize
from discreet_client.client import Client
from discreet_client.federation.identity import Identity
from discreet_client.federation.rosters import roster_document
from discreet_client.federation.signing import roster

HERE = Path(__file__).parent
PICTURES = HERE.parent / ".demo"

console = Console()
Floats = NDArray[np.float64]


def main() -> None:
    """Everything, from nothing to pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="discreet demo ") as folder:
        settings = Settings(state=Path(folder) / "state")
        console.print("starting PostgreSQL, API and worker …")
        with running(settings) as ready:
            console.print(f"ready at {ready['api']}")
            key = (settings.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                for kind in (routing, demand_response, off_policy_evaluation):
                    kind(client)
                multi_agent(client, Path(folder))
                coupled_qp(client)
                show_budgets(client)


# What is run --------------------------------------------------------------------------------------


def routing(client: Client) -> None:
    """Fifty mornings on the Sioux Falls network, routed at epsilon 0.1."""
    body = json.loads((HERE / "routing-sioux-falls.json").read_text())
    dataset = body["problem"]["dataset"]
    result = solve(client, body)

    problem = Routing.model_validate({**body["problem"], "dataset": "demo"})
    zones, periods = dataset["public"]["zones"], dataset["public"]["periods"]
    network, latency = problem.network.arrays(zones), problem.latency.solver_form()
    demand = mean_demand(dataset, zones, periods)
    optimum = assign(network, latency, demand, "system_optimum").total_travel_time
    flows = link_flows_of(policy_of(result["policy"], len(problem.network.links)), demand)
    private = total_travel_time(network, latency, flows)
    console.print(
        f"total travel time, optimum on the true demand:       {optimum:16,.2f} vehicle-minutes a "
        "period"
    )
    console.print(
        f"total travel time, released policy on the same trips: {private:15,.2f} vehicle-minutes a "
        "period"
    )
    console.print(f"extra: {100 * (private / optimum - 1):.2e} %")
    picture = PICTURES / "routing.png"
    places = np.array(sioux_falls_figures()["nodes"])
    draw_link_flows(network, np.array(result["link_flows"]), picture, coordinates=places)
    console.print(f"network with its link flows: {picture}")


def demand_response(client: Client) -> None:
    """A demand-response event from 11:00 to 15:00 for a thousand buildings, at epsilon 1."""
    ensemble = generate(1000, days=2)
    body = job_body(ensemble)
    result = solve(client, body)
    default, controlled = (np.array(result[field]) for field in ("default_power", "expected_power"))
    saved = (default - controlled)[ensemble.event]
    console.print(
        f"expected power saved in the event: {saved.mean():.1f} kW of "
        f"{default[ensemble.event].mean():.1f} a building"
    )
    picture = PICTURES / "demand-response.png"
    hours = ensemble.clock
    draw_curves(
        [Curve("without control", hours, default), Curve("with control", hours, controlled)],
        picture,
        x="hour of the day",
        y="expected power of a building, kW",
        shade=(11.0, 15.0),
        shaded="event",
        title="1,000 synthetic buildings, policy of a matrix released at epsilon 1",
    )
    console.print(f"load with and without control: {picture}")


def off_policy_evaluation(client: Client) -> None:
    """Four thousand patients on a chain of 40 stages, at epsilon 1."""
    rows = chain(4000, np.random.default_rng(7))
    body = {
        "problem": {
            "kind": "off_policy_evaluation",
            "dataset": {
                "name": "synthetic patients",
                "kind": "off_policy_evaluation",
                "public": {
                    "unit": "trajectory",
                    "states": CHAIN_STATES,
                    "reward_bound": 1,
                    "horizon": 1000,
                    "topology": chain_topology().tolist(),
                    "rewards": chain_cell_rewards().tolist(),
                },
                "cap": {"epsilon": 2, "delta": 0},
            },
            "features": {"type": "tabular"},
            "discount": CHAIN_DISCOUNT,
            "initial": [1 / CHAIN_STATES] * CHAIN_STATES,
        },
        "privacy": {"epsilon": 1},
    }
    result = solve(client, body, content=parquet(rows))
    # Leaving a stage takes a geometric number of steps with mean 2: each is worth g/(2 - g) of the
    # next.
    stage = CHAIN_DISCOUNT / (2 - CHAIN_DISCOUNT)
    truth = stage ** np.arange(CHAIN_STATES, 0, -1) / CHAIN_DISCOUNT
    values = np.array(result["values"])
    ends = result["uncertainty"]["values"]["policy_value"]
    console.print(
        f"worth of a stay, of at most 1: {result['policy_value']:.3f} released "
        f"(90 % NI: {ends['lower']:.3f} to {ends['upper']:.3f}), {truth.mean():.3f} true"
    )
    picture = PICTURES / "off-policy.png"
    stages = np.arange(CHAIN_STATES)
    draw_curves(
        [Curve("true", stages, truth, dashed=True), Curve("released at epsilon 1", stages, values)],
        picture,
        x="stage",
        y="expected discounted return",
        title="4,000 synthetic patients",
    )
    console.print(f"value of each stage: {picture}")


def multi_agent(client: Client, folder: Path) -> None:
    """Three agents with data of their own share 4 units through the cloud, over gRPC."""
    wishes = {"x1": 3.0, "x2": 4.0, "x3": 2.0}
    body = {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["x1 + x2 + x3 - 4"],
            "schedule": {"gamma": 0.3, "alpha": 0.02, "c1": 0.34, "c2": 0.25, "iterations": 150},
            "protocol": "federated",
            "federation": {"agents": 3},
        },
        "privacy": {"epsilon": 2, "delta": 1e-3},
    }
    console.rule("multi_agent: three agents over gRPC, whose objectives stay with them")
    job_id = client.submit(body)["id"]
    owner = Identity.open(folder / "owner.pem")
    links = client.session_tokens(job_id, owner=owner.fingerprint, count=3)["links"]

    def take_part(link: str, name: str, wish: float) -> Minimum:
        announcement = {"lower": 0, "upper": 5, "radius": 0.05}
        agent = Agent.from_token(
            link,
            folder / f"{name}.key",
            name=name,
            limit_epsilon="2",
            limit_delta="0.01",
            announcement=announcement,
        )
        return minimize(agent, slope=lambda x: 2 * (x - wish))

    with ThreadPoolExecutor(3) as pool:
        agents = [
            pool.submit(take_part, link, *pair)
            for link, pair in zip(links, wishes.items(), strict=True)
        ]
        while len(client.session(job_id)["agents"]) < 3:
            time.sleep(0.1)
        session = client.session(job_id)
        document = roster_document(session["id"], job_id, session["kind"], session["agents"])
        signature = base64.b64encode(owner.sign(roster(document))).decode()
        key = base64.b64encode(owner.public_key).decode()
        client.approve_session(job_id, roster=document.decode(), signature=signature, owner_key=key)
        found = {name: agent.result() for name, agent in zip(wishes, agents, strict=True)}
    answer = wait(client, job_id)
    console.print("each agent knows its own state, and nobody else's; here they are side by side:")
    console.print(
        ", ".join(
            f"{name} wants {wishes[name]:g}, takes {one.x:.2f}" for name, one in found.items()
        )
    )
    multiplier = answer["result"]["average_multipliers"][0]
    console.print(f"multiplier of the shared constraint: {multiplier:.2f} (without noise 3.33)")
    guarantee = answer["certificate"]["guarantee"]
    console.print(
        f"certificate: {guarantee['type']}, epsilon {guarantee['epsilon']}: "
        f"{guarantee['neighbours']}"
    )


def coupled_qp(client: Client) -> None:
    """Ten vehicles charge overnight behind one transformer; sums are masked and encrypted, all in
    one process here."""
    body = job(vehicles=10, iterations=150)
    console.rule("coupled_qp: encrypted sums (a simulation: all data at the server)")
    answer = wait(client, client.submit(body)["id"])
    result, told = answer["result"], answer["certificate"]["cryptographic"]
    drawn = np.array(result["x"]).sum(axis=0) / len(result["x"])
    load = np.array(BASELINE_KW) + drawn
    digest = result["transcript"][:16]
    console.print(
        f"{told['scheme']}, {told['key_bits']} bits; rounds: {result['rounds']}; transcript "
        f"{digest}…"
    )
    console.print(f"largest load a vehicle: {load.max():.2f} kW of {LIMIT_KW} allowed")
    picture = PICTURES / "charging.png"
    hours = np.arange(len(load))
    draw_curves(
        [Curve("households", hours, BASELINE_KW), Curve("with charging", hours, load)],
        picture,
        x="hour of the night",
        y="load for each vehicle, kW",
        title="10 synthetic vehicles that tell nobody when they leave",
    )
    console.print(f"load on the feeder: {picture}")


# How it is run and shown --------------------------------------------------------------------------


def parquet(rows: Rows) -> io.BytesIO:
    """Rows as a Parquet file."""
    columns = {field.name: getattr(rows, field.name) for field in dataclasses.fields(rows)}
    file = io.BytesIO()
    pq.write_table(
        pa.table({name: column for name, column in columns.items() if column is not None}), file
    )
    file.seek(0)
    return file


def solve(
    client: Client, body: dict[str, Any], content: io.BytesIO | None = None
) -> dict[str, Any]:
    """Register, plan, submit, wait; print price and certificate; the result."""
    dataset = body["problem"]["dataset"]
    registered = (
        client.register(dataset)
        if content is None
        else client.upload(dataset, content, "transitions.parquet")
    )
    body = {**body, "problem": {**body["problem"], "dataset": registered["id"]}}
    plan = client.plan(body)
    console.rule(f"{body['problem']['kind']}: the price, before any data are touched")
    console.print(
        f"epsilon {plan['price']['epsilon']}, delta {plan['price']['delta']}: "
        f"{plan['plan']['neighbours']}"
    )
    for noise in plan["plan"]["noise"]:
        console.print(
            f"{noise['distribution']} of standard deviation {noise['standard_deviation']:.3g} on "
            f"{noise['quantity']}"
        )
    for advice in plan["plan"]["advice"]:
        console.print(advice)
    answer = wait(client, client.submit(body)["id"])
    guarantee = answer["certificate"]["guarantee"]
    entry = answer["certificate"]["ledger_entry"][0]
    console.print(
        f"certificate: {guarantee['type']}, epsilon {guarantee['epsilon']}, delta "
        f"{guarantee['delta']}"
    )
    for assumption in answer["certificate"]["assumptions"]:
        console.print(f"  assumes: {assumption}", style="dim")
    console.print(
        f"ledger: {entry['account']} entry {entry['seq']}, {entry['hash'][:16]}…, signed (Ed25519)"
    )
    result: dict[str, Any] = answer["result"]
    return result


def show_budgets(client: Client) -> None:
    """Every budget in one table."""
    table = Table(
        "data", "cap", "spent", "remaining", "largest request", title="privacy budgets (epsilon)"
    )
    for budget in client.budgets():
        names = (
            ", ".join(dataset["name"] for dataset in budget["datasets"])
            or f"agent {budget['subject'][:12]}…"
        )
        figures = [
            budget[name]["epsilon"] for name in ("cap", "spent", "remaining", "largest_request")
        ]
        table.add_row(names, *(f"{figure}" for figure in figures))
    console.print(table)


def wait(client: Client, job_id: str) -> dict[str, Any]:
    """The answer to a job, with a progress bar meanwhile."""
    columns = (TextColumn("{task.description:9}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("queued", total=None)

        def show(state: str, step: int, total: int) -> None:
            progress.update(
                task,
                description=state,
                total=total,
                completed=total if state == "succeeded" else step,
            )

        ended = client.wait(job_id, show)
    if ended["state"] != "succeeded":
        raise SystemExit(f"job {job_id} {ended['state']}: {ended['error']['detail']}")
    return client.result(job_id)


def mean_demand(dataset: dict[str, Any], zones: int, periods: int) -> Floats:
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
