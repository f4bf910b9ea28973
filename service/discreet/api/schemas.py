"""The answers of the API as schemas, for the OpenAPI document. Requests are those of
`usecases/requests.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from discreet.problems import KINDS
from discreet.problems.plans import Exposure, NoiseSummary, PlannedSource, Resources
from discreet.storage.tables import JobState
from discreet.web.problem_details import Binding

REUSABLE = (
    "At most ten jobs that have already released what is asked, least noise first: name one in "
    "`problem.release` instead of the dataset, and the answer costs nothing"
)


class Figures(BaseModel):
    """A privacy figure."""

    epsilon: float
    delta: float


class NetworkAnswer(BaseModel):
    """A stored network. Its id is derived from its content; neither ever changes."""

    id: str = Field(
        description="`net_` and 130 bits of the SHA-256 of `network`'s canonical JSON (RFC 8785)"
    )
    name: str
    nodes: int
    links: int
    coordinates: bool = Field(
        description="True if its nodes have coordinates, which charts then use"
    )
    zones: int | None = Field(
        default=None,
        description="How many of its first nodes are zones, if that was told when it was stored",
    )
    created_by: str = Field(description="The principal who stored it first")
    created_at: datetime
    sha256: str | None = Field(
        default=None, description="SHA-256 of `network`, as certificates name it; not in lists"
    )
    network: dict[str, Any] | None = Field(
        default=None, description="The network as a problem of kind routing holds it; not in lists"
    )


class NetworkPage(BaseModel):
    """A page of networks, newest first."""

    networks: list[NetworkAnswer]
    next_page_token: str | None


class Price(BaseModel):
    """What a job costs."""

    epsilon: float
    delta: float
    rho: float


class PlanBody(BaseModel):
    """What a job would do."""

    events: list[dict[str, Any]]
    noise: list[NoiseSummary]
    iterations: dict[str, int]
    resources: Resources
    unit: str
    neighbours: str
    assumptions: list[str] = Field(description="Holds if: what the guarantee takes for granted")
    not_covered: list[str] = Field(
        default_factory=list, description="What the guarantee says nothing of"
    )
    model: list[str] = Field(
        default_factory=list,
        description="What the answer takes for granted; the guarantee does not rest on it",
    )
    advice: list[str]
    exposure: Exposure | None = Field(
        default=None, description="What agents can learn about each other from opened sums"
    )
    source: PlannedSource | None = Field(
        default=None, description="The blocks that are read, for a source instead of a dataset"
    )
    parts_by: str | None = Field(
        default=None,
        description="The release is a sum that several processes may make, each of a part of the "
        "content, with all records of one `person` (`participant`, `trajectory`, `request`) in "
        "one part, whichever file they came from: rows are put into parts by a hash of whose they "
        "are, before anything is clipped. Absent: one process reads the content as a whole",
    )
    sampled_by: str | None = Field(
        default=None, description="Such units are drawn, and in memory for the next steps alone"
    )
    released_by: list[str] = Field(
        default_factory=list,
        description="Jobs that are asked again: their noise is used, and nothing more is released",
    )
    public_digest: str | None = Field(
        default=None,
        description="SHA-256, hexadecimal, of the canonical JSON of the dataset's public part that "
        "this plan was made of, of blocks that of all as one dataset. Absent: it has none",
    )


class UntilSpent(BaseModel):
    """How many jobs such as this one its blocks still allow. What other jobs may spend meanwhile
    is not foreseen."""

    jobs: int = Field(description="How many such jobs fit on the same blocks, including this one")
    number: int = Field(
        description="How many accounts, of blocks or of the source, then allow no further job"
    )
    blocks: list[str] = Field(
        description="Up to 20 of these blocks; empty if all blocks share one account"
    )
    sentence: str = Field(description="The same as a sentence")


class JobWaits(BaseModel):
    """Why a job waits for budget, and until when."""

    not_before: datetime | None = Field(
        description="When its shares suffice, if no budget is freed before"
    )
    until: datetime | None = Field(description="The job is granted or refused by then")
    block: str | None = Field(
        default=None, description="The last block to allow it; null for the source as a whole"
    )
    detail: str = Field(description="The same as a sentence")


class PlanAnswer(BaseModel):
    """A plan and its price; nothing is spent."""

    plan: PlanBody
    price: Price
    admitted: bool
    privacy: Figures | None = Field(
        default=None,
        description="The budget in figures, if the request gave it otherwise (preset, `auto`, "
        "accuracy): a job with these figures has the same plan",
    )
    binding: Binding | None = None
    waits: JobWaits | None = Field(
        default=None,
        description="If it would not be granted at once: that it would wait or, with `admitted` "
        "false, that it would be refused because its shares would not suffice in time",
    )
    until_spent: UntilSpent | None = Field(
        default=None,
        description="For an admitted job on blocks of a source, if fewer than 1000 such jobs fit",
    )
    asked_again: list[str] | None = Field(
        default=None,
        description="Fields of the problem that may differ when the release is asked again, at "
        "price 0; empty if none may; null if the job releases nothing about a dataset",
    )
    reusable: list[str] = Field(default_factory=list, description=REUSABLE)
    reusable_noise: list[str] = Field(
        default_factory=list, description="Those of `reusable` whose own answers are mostly noise"
    )


class JobProgress(BaseModel):
    """Steps done of a planned total."""

    step: int
    total: int


class MissingAgent(BaseModel):
    """An agent without whom a session could not go on."""

    fingerprint: str
    cause: str = Field(description="A fixed name")
    detail: str = Field(description="The same in a sentence")


class JobError(BaseModel):
    """Why a job failed: a fixed code and text, never one made from data."""

    code: str
    detail: str
    agents: list[MissingAgent] | None = Field(
        default=None, description="Of a session: the agents without whom it could not go on"
    )


class JobAnswer(BaseModel):
    """A job."""

    id: str
    name: str | None = Field(default=None, description="The name its sender gave it")
    kind: str
    dataset: str | None
    dataset_name: str | None = None
    simulation: bool = Field(
        default=False,
        description="True if its data are public or synthetic: nothing is charged, whatever its "
        "price",
    )
    mostly_noise: bool = Field(
        default=False,
        description="True if its answer is mostly noise; only for those who may read answers",
    )
    headline: str | None = Field(
        default=None,
        description="Its answer in a sentence, with its interval; only for those who may read "
        "answers, and null for jobs of versions without such sentences",
    )
    result_gone_at: datetime | None = Field(
        default=None,
        description="When its result, release and events were deleted, at the end of the "
        "operator's retention period",
    )
    state: JobState
    waiting: JobWaits | None = Field(
        default=None, description="Only for a job that waits for budget: nothing is reserved for it"
    )
    progress: JobProgress
    price: Price
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool = Field(
        default=False, description="Its cancellation was requested, and it is being stopped"
    )
    release: list[str] | None = Field(
        default=None, description="Jobs whose release it asks again, at price 0"
    )
    reusable: list[str] = Field(
        default_factory=list, description=f"{REUSABLE}; only when a job was just accepted"
    )
    problem: dict[str, Any] | None = Field(
        default=None,
        description="The problem with every default; only when the job is looked up by its id",
    )
    plan: PlanBody | None = Field(
        default=None, description="The plan; only when the job is looked up by its id"
    )
    error: JobError | None = None


class CancelAnswer(JobAnswer):
    """A job after a request to cancel it, and the outcome."""

    cancel: Literal["done", "requested", "too_late"] = Field(
        description="`done`: the job is cancelled. `requested`: the process that runs it stops "
        "it, within about a second if it is alive, and the job ends as cancelled. `too_late`: its "
        "release is stored and paid for, so it goes on"
    )
    charge: Literal["none", "full", "undecided"] = Field(
        description="What the job then costs. `undecided`, for sessions only: the full price if "
        "an agent's message arrives first"
    )
    detail: str = Field(description="Both fields as a sentence")


class JobPage(BaseModel):
    """A page of jobs, newest first."""

    jobs: list[JobAnswer]
    next_page_token: str | None


Results: type[BaseModel] = create_model(
    "Results",
    __doc__="The fields of a result, by the kind of its problem.",
    **{kind: (problem.Fields, ...) for kind, problem in KINDS.items()},  # type: ignore[call-overload]
)


class ResultAnswer(BaseModel):
    """A job's result and the certificate of its privacy loss."""

    job: JobAnswer
    result: dict[str, Any] = Field(
        description="Fields by name: those that `Results` names for the job's kind"
    )
    certificate: dict[str, Any]


class ChartAnswer(BaseModel):
    """A chart of a result, as the job's page draws it."""

    name: str
    title: str
    caption: str = Field(description="What the chart shows, and what noise does to it")
    figure: dict[str, Any] = Field(
        description="`data`, `layout` and, behind a slider, `frames`: a Plotly figure"
    )


class ChartList(BaseModel):
    """The charts of a result, in the order of its page."""

    charts: list[ChartAnswer]


class FilterFigures(BaseModel):
    """A budget under one filter."""

    name: str
    spent: Figures
    reserved: Figures
    remaining: Figures
    largest_request: Figures


class DatasetName(BaseModel):
    """A dataset that is charged to a budget."""

    id: str
    name: str
    deleted: bool


class BudgetAnswer(BaseModel):
    """A budget."""

    id: str
    scope: Literal["data", "tenant", "principal", "agent"]
    subject: str
    datasets: list[DatasetName]
    unit: str
    cap: Figures
    spent: Figures
    reserved: Figures
    remaining: Figures
    largest_request: Figures
    filters: list[FilterFigures]


class BudgetList(BaseModel):
    """All budgets of the tenant."""

    budgets: list[BudgetAnswer]


class CapList(BaseModel):
    """The caps on the tenant and on its principals."""

    caps: list[BudgetAnswer]


class HeadAnswer(BaseModel):
    """The signed head of a tenant's ledger: Ed25519 over the canonical JSON of `accounts`, or of
    `[tenant]` where there are none."""

    format: str
    tenant: str
    seq: int = Field(description="Number of entries in all accounts")
    hash: str = Field(description="SHA-256 of the canonical JSON of `accounts`")
    accounts: list[tuple[str, int, str]] = Field(
        description="Each account with the number and hash of its last entry; sorted by account"
    )
    public_key: str
    signature: str


class EntryPage(BaseModel):
    """Ledger entries in the order of their chain."""

    entries: list[dict[str, Any]]
    next_page_token: str | None


class HealthAnswer(BaseModel):
    """The health of a process."""

    status: str
    checks: dict[str, str] | None = Field(
        default=None, description="By name of each check: `ok`, or the reason why not"
    )
