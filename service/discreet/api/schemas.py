"""The answers of the API as schemas, for the OpenAPI document. Requests are those of
`usecases/requests.py`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field, create_model

from discreet.problems import KINDS
from discreet.problems.contents import Mode
from discreet.problems.plans import Exposure, NoiseSummary, PlannedSource, Resources
from discreet.storage.tables import JobState
from discreet.web.problem_details import Binding

REUSABLE = (
    "Jobs, at most ten, that have released what is asked, least noise first: name one in "
    "`problem.release` instead of the dataset, and the answer costs nothing"
)


class Figures(BaseModel):
    """A privacy figure."""

    epsilon: float
    delta: float


class DatasetAnswer(BaseModel):
    """A registered dataset. Its content is never returned."""

    id: str
    name: str
    kind: str
    public: dict[str, Any]
    mode: Mode
    account: str
    created_at: datetime
    expires_at: datetime | None = Field(description="When the content is erased; null: it is kept")
    delete_after_job: bool = Field(
        description="The content is erased after the first job that succeeds on it"
    )
    source: str | None = Field(
        default=None, description="The source of which it is a version of a block"
    )
    block: str | None = Field(default=None, description="Which block")


class ErasedAnswer(BaseModel):
    """What stays of an erased content."""

    id: str
    remains: list[str] = Field(
        description="Where its sealed bytes are still found, and until when, in sentences"
    )


class DatasetPage(BaseModel):
    """A page of datasets, newest first."""

    datasets: list[DatasetAnswer]
    next_page_token: str | None


class NetworkAnswer(BaseModel):
    """A stored network: its id is made of its content, and neither ever changes."""

    id: str = Field(
        description="`net_` and 130 bits of the SHA-256 of `network`'s canonical JSON (RFC 8785)"
    )
    name: str
    nodes: int
    links: int
    coordinates: bool = Field(
        description="Its nodes have coordinates, so pictures are drawn with them"
    )
    created_by: str = Field(description="The principal who stored it first")
    created_at: datetime
    sha256: str | None = Field(
        default=None, description="Of `network`, as certificates name it; not in lists"
    )
    network: dict[str, Any] | None = Field(
        default=None, description="As in a problem of kind routing; not in lists"
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
    assumptions: list[str]
    advice: list[str]
    exposure: Exposure | None = Field(
        default=None, description="What agents can find out of each other by opened sums"
    )
    source: PlannedSource | None = Field(
        default=None, description="The blocks that are read, where it is no dataset"
    )
    released_by: list[str] = Field(
        default_factory=list,
        description="Jobs that are asked again: the noise is theirs, nothing more is released",
    )


class UntilSpent(BaseModel):
    """When jobs such as this one have spent blocks of its source. What other jobs spend meanwhile
    is not foreseen."""

    jobs: int = Field(
        description="So many such jobs on the same blocks fit in all, this one among them"
    )
    number: int = Field(
        description="Of accounts, of blocks or of the source, that let no other pass then"
    )
    blocks: list[str] = Field(
        description="Up to 20 of these blocks; empty where all blocks have one account"
    )
    sentence: str = Field(description="The same for people")


class JobWaits(BaseModel):
    """Why a job waits for budget, and until when."""

    not_before: datetime | None = Field(
        description="When shares let it pass, if no budget comes free before"
    )
    until: datetime | None = Field(description="It is decided by then")
    block: str | None = Field(
        default=None, description="The block that lets it pass last; null: the source as a whole"
    )
    detail: str = Field(description="The same for people")


class PlanAnswer(BaseModel):
    """A plan and its price; nothing is spent."""

    plan: PlanBody
    price: Price
    admitted: bool
    privacy: Figures | None = Field(
        default=None,
        description="The budget in figures, where the request said it in other words (preset, "
        "`auto`, accuracy): sent with a job they are the same plan",
    )
    binding: Binding | None = None
    waits: JobWaits | None = Field(
        default=None,
        description="Where it would not be granted at once: that it would wait, or, where "
        "`admitted` is false, that it would be refused since it would not pass in its time",
    )
    until_spent: UntilSpent | None = Field(
        default=None,
        description="Of a job on blocks of a source that is admitted, where fewer than 1000 such "
        "jobs fit",
    )
    asked_again: list[str] | None = Field(
        default=None,
        description="Fields of the problem by which something else can be asked of what is "
        "released, at price 0; empty: nothing else; null: nothing is released of a dataset here",
    )
    reusable: list[str] = Field(default_factory=list, description=REUSABLE)
    reusable_noise: list[str] = Field(
        default_factory=list, description="Those of `reusable` whose own answers are mostly noise"
    )


class JobProgress(BaseModel):
    """Steps done of a planned total."""

    step: int
    total: int


class JobError(BaseModel):
    """Why a job failed: a fixed code and text, never one made from data."""

    code: str
    detail: str


class JobAnswer(BaseModel):
    """A job."""

    id: str
    name: str | None = Field(default=None, description="What who asked calls it")
    kind: str
    dataset: str | None
    dataset_name: str | None = None
    simulation: bool = Field(
        default=False,
        description="Its data are public or made up: nothing is charged, whatever its price would "
        "be",
    )
    mostly_noise: bool = Field(
        default=False,
        description="Its answer says of itself that it is; for those who may read answers",
    )
    headline: str | None = Field(
        default=None,
        description="Its answer in a sentence, with its interval; for those who may read answers, "
        "of jobs that ended since there are such sentences",
    )
    result_gone_at: datetime | None = Field(
        default=None,
        description="When its result, release and events were deleted, at the end of the "
        "operator's retention period",
    )
    state: JobState
    waiting: JobWaits | None = Field(
        default=None, description="Of a job that waits for budget: nothing is reserved for it"
    )
    progress: JobProgress
    price: Price
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    cancel_requested: bool = Field(
        default=False, description="Somebody has asked for its end, and it is being stopped"
    )
    release: list[str] | None = Field(
        default=None, description="Jobs that it asks again, at price 0"
    )
    reusable: list[str] = Field(
        default_factory=list, description=f"{REUSABLE}; of a job that was just accepted"
    )
    problem: dict[str, Any] | None = Field(
        default=None,
        description="What was asked, with every default; where the job is looked up by its id",
    )
    plan: PlanBody | None = Field(
        default=None, description="What is done; where the job is looked up by its id"
    )
    error: JobError | None = None


class CancelAnswer(JobAnswer):
    """A job that shall be cancelled, and what comes of that."""

    cancel: Literal["done", "requested", "too_late"] = Field(
        description="`done`: the job is cancelled. `requested`: whoever runs it stops it, within "
        "about a second where its process lives, and it ends as cancelled. `too_late`: its "
        "release is stored and paid for, so it goes on"
    )
    charge: Literal["none", "full", "undecided"] = Field(
        description="What the job costs then. `undecided`, of a session only: in full if an "
        "agent's message comes first"
    )
    detail: str = Field(description="Both in a sentence")


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
    """A job's result and the certificate of what it gave away."""

    job: JobAnswer
    result: dict[str, Any] = Field(
        description="Fields by name: those that `Results` names for the job's kind"
    )
    certificate: dict[str, Any]


class ChartAnswer(BaseModel):
    """A picture of a result, as the job's page draws it."""

    name: str
    title: str
    caption: str = Field(description="What one sees, and what noise does to it")
    figure: dict[str, Any] = Field(
        description="`data`, `layout` and, behind a slider, `frames`: a figure of plotly"
    )


class ChartList(BaseModel):
    """The pictures of a result, the first of them first on its page."""

    charts: list[ChartAnswer]


class FilterFigures(BaseModel):
    """A budget under one filter."""

    name: str
    spent: Figures
    reserved: Figures
    remaining: Figures
    largest_request: Figures


class DatasetName(BaseModel):
    """A dataset of a budget."""

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
    seq: int = Field(description="Number of all entries")
    hash: str = Field(description="SHA-256 of the canonical JSON of `accounts`")
    accounts: list[tuple[str, int, str]] = Field(
        description="Account, number and hash of its last entry; sorted"
    )
    public_key: str
    signature: str


class EntryPage(BaseModel):
    """Ledger entries in the order of their chain."""

    entries: list[dict[str, Any]]
    next_page_token: str | None


class HealthAnswer(BaseModel):
    """How a process is."""

    status: str
    checks: dict[str, str] | None = Field(
        default=None, description="`ok`, or why not, by the name of each check"
    )
