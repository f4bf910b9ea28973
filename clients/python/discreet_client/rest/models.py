"""The bodies of requests and answers as the contract declares them: dictionaries with
known keys.

`Trip(period=0, origin=1, destination=2, count=5)` makes one, as does `{"period": 0, …}` where a
`Trip` is expected. The service checks what a type cannot express, such as the bounds below a field.
"""

# Made from openapi/openapi.json by `make sdk`.
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Accuracy(TypedDict):
    """A requested accuracy, instead of what may be spent."""

    around: NotRequired[str | None]
    """
    A job with a release about data of the same public shape: the accuracy is then predicted
    for data as it released them; absent: predicted from public figures alone; length >= 1,
    length <= 64
    """
    confidence: NotRequired[float]
    """Probability with which the noise should stay within it; >= 0.5, <= 0.999; default `0.9`"""
    quantity: NotRequired[str | None]
    """
    One of the quantities that the kind predicts before a release; absent: the first of them;
    length >= 1, length <= 200
    """
    within: float | str
    """
    Half the width of the interval: in the unit of the quantity, or text such as `5%` of its
    size
    """


class AffineLatency(TypedDict):
    """`t(y) = free_flow_time (1 + factor y / capacity)`."""

    factor: NotRequired[float]
    """>= 0, <= 1e+06; default `1.0`"""
    type: Literal["affine"]


class AgentPolytope(TypedDict):
    """`A x <= b` and `C x = d`, each with a column for each coordinate; either may be left out."""

    A: NotRequired[list[list[float]]]
    """
    Rows of `A x <= b`; length <= 128, each length >= 1, length <= 128, each >= -1e+06, <=
    1e+06
    """
    C: NotRequired[list[list[float]]]
    """
    Rows of `C x = d`; length <= 128, each length >= 1, length <= 128, each >= -1e+06, <=
    1e+06
    """
    b: NotRequired[list[float]]
    """length <= 128, each >= -1e+09, <= 1e+09"""
    d: NotRequired[list[float]]
    """length <= 128, each >= -1e+09, <= 1e+09"""


class Agreement(TypedDict):
    """
    What agents signed about all broadcasts:
    `discreet_agent.federation.history.unsigned_of_result`.
    """

    history: str
    signatures: dict[str, str]


class ArchiveState(TypedDict):
    """PostgreSQL's archive of its write-ahead log."""

    archived_at: str | None
    """date-time"""
    failed_at: str | None
    """date-time"""


class AuditEntry(TypedDict):
    """A change, and who made it."""

    action: Literal[
        "cap.grant",
        "cap.set",
        "budget_request.decline",
        "dataset.correct",
        "dataset.erase",
        "dataset.place",
        "dataset.register",
        "dataset.retention",
        "key.create",
        "key.revoke",
        "login.end",
        "login.end_by_provider",
        "login.key",
        "login.link",
        "login.link_made",
        "login.provider",
        "object.add",
        "object.remove",
        "person.remove",
        "person.restore",
        "place.fail",
        "read.look",
        "read.remove",
        "roster.remove_member",
        "roster.sign",
        "session.again",
        "session.tokens",
        "source.correct",
        "source.create",
        "source.rule",
        "tenant.create",
        "webhook.create",
        "webhook.remove",
    ]
    at: str
    """date-time"""
    credential: str
    """The key that was used, or the person (`GET /v1/people`)"""
    details: dict[str, Any]
    id: int
    issuer: str | None
    """The identity provider, for a person"""
    object: str | None
    """What was changed, if the action does not say so"""
    principal: str
    """Who made the change, as budgets and the ledger name them"""
    role: Literal["operator", "owner", "analyst", "auditor"]
    subject: str | None
    """The provider's identifier, for a person"""
    tenant_id: str
    """The tenant whose object was changed"""


class AuditLogPage(TypedDict):
    """Changes, newest first."""

    changes: list[AuditEntry]
    next_page_token: str | None


class BackupNote(TypedDict):
    """A known backup."""

    made_at: str
    """The time of the state that it holds; date-time"""
    made_with: Literal["discreet", "other"]
    """Written by `discreet backup`, or reported by `discreet note-backup`"""
    schema_version: str
    """The schema of the database at that time"""


class BackupState(TypedDict):
    """What is known of backups."""

    archive: ArchiveState | None
    """null if the server archives nothing"""
    last: BackupNote | None
    """null if none is known"""


class Ball(TypedDict):
    """Points within `radius` of `centre`."""

    centre: list[float]
    """length >= 1, length <= 1000, each >= -1e+06, <= 1e+06"""
    radius: float
    """> 0, <= 1e+06"""


class Binding(TypedDict):
    """The cap that a request would exceed. Figures are {epsilon, delta}."""

    account: str
    block: NotRequired[str | None]
    """The block"""
    cap: dict[str, float]
    largest: dict[str, float]
    """The largest request that would pass"""
    requested: dict[str, float]
    reserved: dict[str, float]
    scope: NotRequired[str | None]
    """`tenant` or `principal` if such a cap binds"""
    source: NotRequired[str | None]
    """The name of the source, if the cap is that of a block"""
    spent: dict[str, float]
    subject: NotRequired[str | None]
    """Whose cap it is"""


BlockNames = TypedDict(
    "BlockNames",
    {
        "except": NotRequired[list[str] | None],
        "zones": NotRequired[list[str] | dict[str, int] | None],
    },
)


class BlockRequest(TypedDict):
    """A block of a source, or a later version of one."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    block: str
    """Its day, month or label; length >= 1, length <= 100"""
    content: dict[str, Any]
    """
    The same as for a dataset of the source's kind; records of a day or month have a `date`
    besides their fields; `{}` for a block without records
    """
    reader: NotRequired[BlockNames | None]


class BprLatency(TypedDict):
    """`t(y) = free_flow_time (1 + b (y / capacity)^power)`, Bureau of Public Roads 1964."""

    b: NotRequired[float]
    """>= 0, <= 1e+06; default `0.15`"""
    power: NotRequired[float]
    """>= 1, <= 20; default `4.0`"""
    type: Literal["bpr"]


class Cap(TypedDict):
    """The most that may be spent on an account."""

    delta: NotRequired[float]
    """>= 0, < 1; default `0`"""
    epsilon: float
    """> 0, <= 1000"""


class CapRequest(TypedDict):
    """A cap over all data of the tenant, for everybody or for one principal."""

    cap: Cap
    principal: NotRequired[str | None]
    """
    Whose cap it is, with scope `principal`; it outlives the principal's keys; length >= 1,
    length <= 200
    """
    reason: str
    """length >= 1, length <= 1000"""
    scope: Literal["tenant", "principal"]


class CertificateCheck(TypedDict):
    """One check; `holds` is null when it could not be made."""

    detail: str
    holds: bool | None
    name: Literal[
        "signature",
        "price",
        "guarantee",
        "transcript",
        "release",
        "result",
        "table",
        "inclusion",
        "log",
        "witnesses",
    ]


class CertificateRequest(TypedDict):
    """A certificate to check, alone or with the result that it shall bind."""

    certificate: dict[str, Any]
    result: NotRequired[dict[str, Any] | None]
    """The result as `GET /v1/jobs/{id}/result` returned it"""
    tables: NotRequired[dict[str, str]]
    """SHA-256 of its Parquet files by name, hexadecimal"""


class CertificateVerdict(TypedDict):
    """The verdict on a certificate: valid when no check failed."""

    checks: list[CertificateCheck]
    valid: bool


class ChartAnswer(TypedDict):
    """A chart of a result, as the job's page draws it."""

    caption: str
    """What the chart shows, and what noise does to it"""
    figure: dict[str, Any]
    """`data`, `layout` and, behind a slider, `frames`: a Plotly figure"""
    name: str
    title: str


class ChartList(TypedDict):
    """The charts of a result, in the order of its page."""

    charts: list[ChartAnswer]


class CheckpointState(TypedDict):
    """The newest checkpoint of the transparency log."""

    signed_at: str
    """date-time"""
    size: int


class Combined(TypedDict):
    """What combining several releases of the same sums gained."""

    least_alone: float
    """The same for the most accurate of them alone"""
    releases: int
    """How many were combined, weighted by the inverse variance of their noise"""
    standard_deviation: float
    """Standard deviation of the noise on each of their sums, as combined"""


class CorrectionRequest(TypedDict):
    """
    What is different in the public part of a dataset, and its content, where that is read
    again.
    """

    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    content: NotRequired[dict[str, Any] | None]
    """
    The content again, where a field differs that decides how rows are read; absent: the
    stored one is checked anew, or that at its place is read again
    """
    content_from: NotRequired[str | None]
    """length >= 1, length <= 8000"""
    content_stays: NotRequired[bool]
    """
    The content stays there and is not stored: each job fetches it again, and fails,
    uncharged, unless it is unchanged; default `false`
    """
    draft: NotRequired[str | None]
    """matches `^read_[0-9A-Za-z]{1,60}$`"""
    public: NotRequired[dict[str, Any]]
    """
    Fields with their new values (JSON Merge Patch, RFC 7396: null takes a field away); all
    others stay. `unit` stays
    """


class CoupledQpResult(TypedDict):
    """
    For a session only rounds, transcript and evidence; each agent finds its own optimum
    itself.
    """

    bytes_sent: NotRequired[int]
    """By an agent, at most; of protocol job; unit: bytes"""
    evidence: NotRequired[dict[str, Any]]
    """The roster and the agents' signatures; of protocol federated"""
    multipliers: NotRequired[list[float]]
    """Of the constraints; of protocol job"""
    objective: NotRequired[float]
    """The joint cost at `x`; of protocol job"""
    rounds: int
    """Rounds of the sums that were opened; 0 with protocol mpc, which opens none"""
    status: NotRequired[Literal["converged", "iteration_limit", "infeasible"]]
    """
    `converged`: within `tolerance` of what agents use at the end, x is the best that they can
    do and keeps the constraints; of agents apart all of them have signed it.
    `iteration_limit`: that is not so, or, of protocol mpc, its bounds are too wide to tell; x
    is no optimum. `infeasible`: of protocol mpc, nothing that the agents can do keeps the
    limit in every hour
    """
    tables: list[str]
    """Fields with more than a million numbers: left out here and given as Parquet"""
    transcript: str
    """Hash of all broadcasts, hexadecimal"""
    violation: NotRequired[float]
    """Largest entry of the constraints above zero; of protocol job"""
    violations: NotRequired[list[float]]
    """By how much each constraint is above zero, in its own unit; of protocol job"""
    x: NotRequired[list[list[float]]]
    """The optimum, one list an agent; of protocol job"""


class DatasetName(TypedDict):
    """A dataset that is charged to a budget."""

    deleted: bool
    id: str
    name: str


class Day(TypedDict):
    """
    When blocks begin, chosen without looking at the data. The first state of every trajectory
    is of step 0.
    """

    blocks: list[int]
    """
    The step of the day at which each block begins, the first at 0: of 48 steps [0, 12, 34]
    are night, day and evening. A transition belongs to the block of the step that it leaves;
    length >= 2, length <= 96, each >= 0, <= 1000000000
    """
    steps: int
    """Steps after which the blocks begin again: those of a day, or of a week; >= 2, <= 1000000"""


class DeclineRequest(TypedDict):
    """An owner's answer to a request that is not granted."""

    answer: str
    """length >= 1, length <= 500"""


class DraftBlockRequest(TypedDict):
    """A block of a source whose file is here already (`POST /v1/reads`)."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    block: str
    """Its day, month or label; length >= 1, length <= 100"""
    draft: str
    """Instead of a content: a file of `POST /v1/reads`; matches `^read_[0-9A-Za-z]{1,60}$`"""
    reader: NotRequired[BlockNames | None]


class DraftDatasetRequest(TypedDict):
    """A dataset to register whose file is here already (`POST /v1/reads`)."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    draft: str
    """Instead of a content: a file of `POST /v1/reads`; matches `^read_[0-9A-Za-z]{1,60}$`"""
    kind: str
    """length >= 1, length <= 100"""
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: dict[str, Any]
    """The same as for a dataset of this kind whose content is sent"""
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class Encryption(TypedDict):
    """How the sums are hidden."""

    colluding: NotRequired[int]
    """Agents that may pool what they know; >= 1; default `1`"""
    fraction_bits: NotRequired[int]
    """>= 0, <= 62; default `32`"""
    key_bits: NotRequired[int]
    """Of the Paillier modulus; masking has none; default `3072`"""
    scheme: NotRequired[Literal["paillier", "masking"]]
    """default `paillier`"""
    slot_bits: NotRequired[int]
    """>= 16, <= 64, a multiple of 8; default `64`"""


class EntropyTerm(TypedDict):
    """weight Σ u log u, u = A x - b, which must be above 0 on the box."""

    A: NotRequired[list[list[float]] | None]
    """One column a variable; x itself without"""
    b: NotRequired[list[float] | float]
    """One number, or one a row of A; default `0.0`"""
    kind: Literal["entropy"]
    weight: NotRequired[float]
    """> 0; default `1.0`"""


class EntryPage(TypedDict):
    """Ledger entries in the order of their chain."""

    entries: list[dict[str, Any]]
    next_page_token: str | None


class EnvelopeSignature(TypedDict):
    """
    A signature over the type and the bytes of an envelope's payload (DSSE's pre-
    authentication encoding).
    """

    keyid: str
    """SHA-256 of the public key's 32 bytes, hexadecimal"""
    sig: str
    """Ed25519, base64"""


class ErasedAnswer(TypedDict):
    """What remains of erased content."""

    id: str
    remains: list[str]
    """Where its sealed bytes still exist, and until when, in sentences"""


class Exposure(TypedDict):
    """What agents can learn about each other from what all of them are told."""

    agents: int
    """Rounds of the session"""
    rounds: int
    """The most sums that are opened to every agent"""
    sentence: str
    """What one dishonest agent can find out"""
    sums: int
    """The numbers in all of them together"""


class FeatureRange(TypedDict):
    """What a coordinate of `x` is made of."""

    high: float
    """Its value where the coordinate is 1, and above"""
    low: float
    """Its value where the coordinate is 0, and below"""
    name: str
    """length >= 1, length <= 200"""


class FederatedAgents(TypedDict):
    """The number of agents, and public dimensions of their sums."""

    constraints: int
    """Rows of A_g, entries of d; >= 0, <= 16384"""
    count: int
    """>= 1, <= 1000000000"""
    coupled: int
    """Rows of A_u, entries of c; >= 0, <= 16384"""
    reach: NotRequired[float | list[float] | None]
    """
    The largest magnitude of an entry of any agent's (A_u x, A_g x), by box and coefficients:
    one for all rows, or one a row, those of A_u first. The owner signs it; an agent that
    could pass it takes no part, and agents check every sum against it
    """


class FederationTerms(TypedDict):
    """How a session of agents is run; fixed with the job, before anybody joins."""

    agents: int
    """Most agents that may join; >= 1, <= 1000000000"""
    approve_seconds: NotRequired[float]
    """
    Seconds from submission to the signed roster; later the job fails; > 0, <= 7776000;
    default `604800.0`
    """
    join_seconds: NotRequired[float]
    """Seconds from the signed roster to the first round; > 0, <= 604800; default `600.0`"""
    on_missing: NotRequired[Literal["abort", "finish"]]
    """
    `abort`: an agent that misses a round ends the job; `finish`: rounds go on with a quorum;
    default `abort`
    """
    quorum: NotRequired[int | None]
    """Fewest agents that a round needs; all by default; >= 1, <= 1000000000"""
    round_seconds: NotRequired[float]
    """Seconds from a broadcast to the round's deadline; > 0, <= 86400; default `30.0`"""


class Figures(TypedDict):
    """A privacy figure."""

    delta: float
    epsilon: float


class FilterFigures(TypedDict):
    """A budget under one filter."""

    largest_request: Figures
    name: str
    remaining: Figures
    reserved: Figures
    spent: Figures


class FourierFeatures(TypedDict):
    """
    cos(pi c·x), c in {0, …, order}^k, x scaled from [low, high] (Konidaris, Osentoski &
    Thomas 2011).
    """

    high: list[float]
    """length >= 1, length <= 64"""
    low: list[float]
    """length >= 1, length <= 64"""
    order: int
    """>= 0, <= 20"""
    type: Literal["fourier"]


class GrantRequest(TypedDict):
    """A new cap."""

    cap: Cap
    reason: str
    """length >= 1, length <= 1000"""
    request: NotRequired[str | None]
    """
    The request that this grant answers; the ledger's reason then names who asked and why;
    length >= 1, length <= 100
    """


class HeadAnswer(TypedDict):
    """
    The signed head of a tenant's ledger: Ed25519 over the canonical JSON of `accounts`, or of
    `[tenant]` where there are none.
    """

    accounts: list[list[str | int]]
    """
    Each account with the number and hash of its last entry; sorted by account; each length >=
    3, length <= 3
    """
    format: str
    hash: str
    """SHA-256 of the canonical JSON of `accounts`"""
    public_key: str
    seq: int
    """Number of entries in all accounts"""
    signature: str
    tenant: str


class HealthAnswer(TypedDict):
    """The health of a process."""

    checks: NotRequired[dict[str, str] | None]
    """By name of each check: `ok`, or the reason why not"""
    status: str


class IdentityFeatures(TypedDict):
    """The coordinates of x themselves, rows longer than the public `bound` shortened to it."""

    bound: NotRequired[float]
    """> 0, <= 1e+09; default `1.0`"""
    type: Literal["identity"]


class Interval(TypedDict):
    """Two numbers, or two arrays of the field's shape; null where nothing can be said."""

    lower: Any
    upper: Any


class IsolationState(TypedDict):
    """How well the children of a process are isolated, as tested by one of them."""

    level: Literal["full", "partial", "none"]
    reached: list[str]
    """What that child reached but should not have"""
    walls: list[str]
    """The walls that held"""


class Issue(TypedDict):
    """One bad field."""

    cause: NotRequired[str | None]
    """What is wrong, without place and value"""
    column: NotRequired[str | None]
    """Of a table: the column, as it is called"""
    count: NotRequired[int | None]
    """Of how many rows the same is true"""
    detail: str
    expected: NotRequired[str | None]
    """How it is written to be read"""
    found: NotRequired[str | None]
    """The first such value"""
    last: NotRequired[int | None]
    """The last of these rows"""
    pointer: str
    """JSON pointer (RFC 6901) into the request body"""
    row: NotRequired[int | None]
    """Of a table: the line of a CSV file, else the number of the row"""
    way_out: NotRequired[str | None]
    """The rule that would help, such as `reader.decimal`"""


class JobProgress(TypedDict):
    """Steps done of a planned total."""

    step: int
    total: int


class JobWaits(TypedDict):
    """Why a job waits for budget, and until when."""

    block: NotRequired[str | None]
    """The last block to allow it; null for the source as a whole"""
    detail: str
    """The same as a sentence"""
    not_before: str | None
    """When its shares suffice, if no budget is freed before; date-time"""
    until: str | None
    """The job is granted or refused by then; date-time"""


class KeyAnswer(TypedDict):
    """A new API key; `key` is shown only once."""

    expires_at: str | None
    """date-time"""
    id: str
    key: str
    principal: str
    role: Literal["operator", "owner", "analyst", "auditor"]
    tenant: str


class KeyEntry(TypedDict):
    """An API key, without its secret."""

    created_at: str
    """date-time"""
    expires_at: str | None
    """date-time"""
    id: str
    last_used_at: str | None
    """Last use, late by at most the window of the rate limit; date-time"""
    principal: str
    revoked_at: str | None
    """date-time"""
    role: Literal["operator", "owner", "analyst", "auditor"]


class KeyList(TypedDict):
    """The keys of the tenant, without their secrets."""

    keys: list[KeyEntry]


class KeyRequest(TypedDict):
    """An API key to make."""

    expires_at: NotRequired[str | None]
    """RFC 3339 with an offset; in the future, less than ten years away; date-time"""
    principal: str
    """length >= 1, length <= 200"""
    role: Literal["operator", "owner", "analyst", "auditor"]
    tenant: NotRequired[str | None]
    """Operators only: the tenant's name or id; length >= 1, length <= 200"""


class LimitAnswer(TypedDict):
    """A limit that the request exceeded."""

    allowed: int
    came: NotRequired[int | None]
    """null if reading stopped at the limit"""
    setting: str
    """The setting of the limit (`DISCREET_…`), or its fixed name"""
    unit: str


class LimitsTold(TypedDict):
    """How a policy keeps the limits that were asked for; of one load, in the unit of power."""

    cost: float
    """How much less a load saves than without limits, in the money of the price"""
    feeder: NotRequired[list[float | None]]
    """The largest power of a load in each step"""
    kept: bool
    """Whether the expected load is within all limits"""
    price: list[float]
    """
    Price of the limits in each step: what one more unit of power would be worth there, in the
    money of the price
    """
    ramp: NotRequired[float]
    """The largest change of it from step to step"""
    says: str
    """What the limits demand and cost; if they cannot be kept, which one, where and why"""
    strays: float
    """
    The largest standard deviation in any step of the load that is limited, of all or of each,
    about its expectation, where loads move by themselves
    """


class Link(TypedDict):
    """
    A directed link of the network; nodes are 1..n.

    Its travel time is `free_flow_time (1 + b (y / capacity)^power) + fixed_cost` at y trips a
    period; `b` and `power` are those of the problem's `latency` where the link has none of
    its own.
    """

    b: NotRequired[float | None]
    """Of this link; by default the latency's b, or factor where that is affine; >= 0, <= 1e+12"""
    capacity: float
    """> 0, <= 1e+12"""
    fixed_cost: NotRequired[float]
    """
    Added at any flow, in the unit of free_flow_time: a toll or a length by its weight; >= 0,
    <= 1e+09; default `0.0`
    """
    free_flow_time: float
    """>= 0, <= 1e+09"""
    head: int
    """>= 1"""
    power: NotRequired[float | None]
    """
    Of this link, 0 or at least 1; by default the latency's, 1 where that is affine; >= 0, <=
    20
    """
    tail: int
    """>= 1"""


class LoadLimits(TypedDict):
    """Bounds on the expected load, in the unit of `power`."""

    feeder: NotRequired[float | list[float | None] | None]
    """The largest load: one number for all steps, or one for each step, null for no limit"""
    of: Literal["all", "each"]
    """
    Which load is limited: that of all public `participants` together, as on a feeder, or of
    each one
    """
    ramp: NotRequired[float | None]
    """The largest change of the load from one step to the next; >= 0"""


class LogBarrierTerm(TypedDict):
    """-weight Σ log (b - A x); the box must lie inside its domain."""

    A: NotRequired[list[list[float]] | None]
    """One column a variable; x itself without"""
    b: NotRequired[list[float] | float]
    """One number, or one a row of A; default `0.0`"""
    kind: Literal["log_barrier"]
    weight: NotRequired[float]
    """> 0; default `1.0`"""


class Meters(TypedDict):
    """
    How readings become states, chosen without looking at the data. With it a content may be
    meter series.
    """

    carry: NotRequired[int]
    """
    The most periods in a row that take the state before them and do not count as a gap; >= 0,
    <= 100000; default `0`
    """
    gaps: NotRequired[Literal["refuse", "leave_out", "end"]]
    """
    What happens to a participant without readings in a period: the content is refused, the
    participant is left out, or the trajectory ends before the gap (not with `steps`); default
    `refuse`
    """
    interval_seconds: int
    """
    Length of a period, such as 900, a quarter of an hour. Its power is the mean of the
    participant's readings in it; >= 1, <= 31622400
    """
    outside: NotRequired[Literal["clamp", "refuse"]]
    """Power outside the edges counts as the outermost state, or is refused; default `clamp`"""
    start: str
    """
    When the first period begins, with its time zone, such as 2026-01-15T00:00:00+01:00. A
    reading belongs to the period that its time lies in; date-time
    """
    utc_offset: NotRequired[str | None]
    """
    Offset of times that name none, such as +01:00; absent: such times are refused; matches
    `^(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)$`
    """


class MissingAgent(TypedDict):
    """An agent without whom a session could not go on."""

    cause: str
    """A fixed name"""
    detail: str
    """The same in a sentence"""
    fingerprint: str


class MultiAgentContent(TypedDict):
    """
    The private content: each agent's objective, which depends only on its own state, and its
    initial state.
    """

    initial: NotRequired[dict[str, float | list[float]] | None]
    """By agent; of a vector a number for all coordinates, or a list. Absent: the middle"""
    objectives: dict[str, str]


class MultiplierPoint(TypedDict):
    """The multipliers after one step."""

    multipliers: list[float]
    step: int


class NetworkAnswer(TypedDict):
    """A stored network. Its id is derived from its content; neither ever changes."""

    coordinates: bool
    """True if its nodes have coordinates, which charts then use"""
    created_at: str
    """date-time"""
    created_by: str
    """The principal who stored it first"""
    id: str
    """`net_` and 130 bits of the SHA-256 of `network`'s canonical JSON (RFC 8785)"""
    links: int
    name: str
    network: NotRequired[dict[str, Any] | None]
    """The network as a problem of kind routing holds it; not in lists"""
    nodes: int
    sha256: NotRequired[str | None]
    """SHA-256 of `network`, as certificates name it; not in lists"""
    zones: NotRequired[int | None]
    """How many of its first nodes are zones, if that was told when it was stored"""


class NetworkPage(TypedDict):
    """A page of networks, newest first."""

    networks: list[NetworkAnswer]
    next_page_token: str | None


class NoiseSummary(TypedDict):
    """The noise in a plan, for its readers."""

    distribution: str
    quantity: str
    scale: float
    standard_deviation: float


class NoisyGradient(TypedDict):
    """A noised derivative of a constraint with respect to an agent's state."""

    agent: str
    constraint: int
    value: float


class OffPolicyPublic(TypedDict):
    """What is published of a set of trajectories."""

    actions: NotRequired[int | None]
    """
    The number of actions that may be taken in a visit, by the protocol. Where it is 2, a row
    says the probabilities of both, and over one visit what clips cut off is known much better
    (importance_sampling); >= 2, <= 1000000
    """
    columns: NotRequired[dict[str, str] | None]
    """
    What columns are called in a table of your own, by what they are called here: `{"origin":
    "Von", "destination": "Nach"}`
    """
    continuing: NotRequired[bool | None]
    """
    True: by the nature of the data no episode ever ends, and no transition is terminal. The
    common part of all values is then the mean reward / (1 - discount), where `minibatch`
    begins
    """
    features: NotRequired[int | None]
    """Number of coordinates of a state `x`, instead of `states`; >= 1, <= 64"""
    horizon: int
    """The most transitions of a trajectory; >= 1, <= 1000000"""
    least_reward: NotRequired[float | None]
    """
    Public lower bound on a reward, from its meaning: 0 if rewards count good outcomes.
    Absent: -reward_bound. If returns cannot be negative, their range is half as wide, and so
    is their noise
    """
    max_ratio: NotRequired[float | None]
    """
    Public bound on target / behaviour of one step, from the rules of both policies. A
    trajectory then weighs at most this to the power of the horizon, and if that is not
    clipped nothing is cut off; > 0, <= 1e+12
    """
    max_rows: NotRequired[int | None]
    """
    Public bound on the number of transitions, like max_trajectories. Absent: the larger of
    250,000 and ten for each of the trajectories that are declared; >= 1, <= 1000000000
    """
    max_trajectories: NotRequired[int | None]
    """
    Public bound on the number of trajectories, chosen without looking at them: releases take
    the time of so many. Absent: the public number, or 100,000; >= 1, <= 1000000000
    """
    neighbours: NotRequired[Literal["replace", "add_remove"] | None]
    """`replace` where `trajectories` is given, else `add_remove`"""
    off_policy: NotRequired[bool | None]
    """Whether rows have `behaviour` and `target`; follows from the content's columns"""
    overlap: NotRequired[float | None]
    """
    The least probability that the behaviour policy gives to an action that is taken, from the
    protocol and never from the data: no ratio is above 1 / overlap, and rows with less are
    refused; > 0, <= 1
    """
    ranges: NotRequired[list[FeatureRange] | None]
    """
    What the coordinates of `x` are, one range each, in their order: a coordinate is (value -
    low) / (high - low), cut off at 0 and 1. Readers of tables of visits use it. Like
    everything public, it must be chosen without looking at the data; length <= 64
    """
    reader: NotRequired[dict[str, Any] | None]
    """
    Rules by which a table of your own is read, such as `{"decimal": ",", "time_zone":
    "Europe/Berlin"}` (docs/own-files.md); with it or `columns` the content is such a table.
    `zones` and `participants` as lists, and `except`, are used and not stored
    """
    reward_bound: float
    """Public bound on the absolute value of a reward; > 0, <= 1e+12"""
    rewards: NotRequired[list[float] | None]
    """Reward of each transition of the topology, if rewards are public"""
    states: NotRequired[int | None]
    """
    Number of states of a tabular problem; 1 if states are not given, which is enough for
    importance_sampling; >= 1, <= 2000
    """
    target_policy: NotRequired[str | None]
    """
    What the target policy does, in words that answers repeat: `treat when lactate > 2`.
    Readers of tables of visits fill it in if the policy is a rule; length >= 1, length <= 200
    """
    topology: NotRequired[list[list[int]] | None]
    """
    Possible transitions [state, next state]; a next state of `states` is the end of the
    episode; each length >= 2, length <= 2
    """
    trajectories: NotRequired[int | None]
    """Number of trajectories, when it is public; >= 1, <= 1000000000"""
    unit: Literal["trajectory"]
    """One person's trajectory is what a neighbouring dataset changes"""


class OpenedBefore(TypedDict):
    """What was opened of sums with an agent in them: chances to find it out add up over jobs."""

    for_each_agent: float
    """Opened numbers for each agent among whom they were, summed over jobs"""
    jobs: int
    numbers: int


class OperatorData(TypedDict):
    """
    The operator's data: c of the coupled objective, d of the constraints. They are neither
    published nor sent to agents.
    """

    c: list[float]
    d: list[float]


class PersonEntry(TypedDict):
    """A person of an identity provider in a tenant."""

    created_at: str
    """date-time"""
    everywhere: bool
    """True if an operator removed them from all tenants"""
    id: str
    issuer: str
    last_used_at: str | None
    """Last use, late by at most the window of the rate limit; date-time"""
    name: str | None
    """Their name for people, if the provider gave one"""
    principal: str
    """Their name in budgets, caps and the ledger: `issuer#subject`"""
    removed_at: str | None
    """date-time"""
    role: Literal["operator", "owner", "analyst", "auditor"]
    """The role their newest token gave; each token decides anew"""
    subject: str
    """The provider's identifier for the person"""
    tenant: str
    """Its name"""


class PersonList(TypedDict):
    """People, the most recent visitors first."""

    people: list[PersonEntry]


class PersonRequest(TypedDict):
    """Whether a person of an identity provider may come in."""

    active: bool
    """false: remove them; true: let them in again"""
    issuer: NotRequired[str | None]
    """
    The provider; absent: the configured one (DISCREET_OIDC_ISSUER); length >= 1, length <=
    200
    """
    keep_keys: NotRequired[bool]
    """On removal, keep the API keys that they have made; default `false`"""
    subject: str
    """
    The provider's identifier for the person: `sub` of their tokens; length >= 1, length <=
    255
    """


class PersonState(TypedDict):
    """Whether a person may log in."""

    active: bool
    issuer: str
    kept_keys: list[str]
    """Those that stay valid: on request, or because they are an operator's"""
    revoked_keys: list[str]
    """Ids of keys of theirs, or that they had made, that were revoked"""
    subject: str


class PiecewiseLinearTerm(TypedDict):
    """weight max (A x - b), the maximum over the rows."""

    A: NotRequired[list[list[float]] | None]
    """One column a variable; x itself without"""
    b: NotRequired[list[float] | float]
    """One number, or one a row of A; default `0.0`"""
    kind: Literal["piecewise_linear"]
    weight: NotRequired[float]
    """> 0; default `1.0`"""


class PlaceAnswer(TypedDict):
    """Where the content of a dataset stays."""

    address: NotRequired[str | None]
    """Its address, of a web server without a query; for owners, where one dataset is asked for"""
    at: Literal["file", "https", "s3", "postgresql"]
    """A folder of the service's machine, a web server, a bucket or a database"""
    unchanged_at: str
    """When it was last found there as it was registered: then, or by a job; date-time"""


class PlacedBlockRequest(TypedDict):
    """
    A block of a source whose content lies somewhere that the operator allows
    (`DISCREET_CONTENT_PLACES`).
    """

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    block: str
    """Its day, month or label; length >= 1, length <= 100"""
    content_from: str
    """
    `file:///…`, `https://…` or `s3://bucket/…`: one Parquet, CSV or JSON file, or a pattern
    with `*` that matches several Parquet files with equal columns.
    `postgresql://host/database?query=…`: the rows of one SELECT, percent-encoded; or
    `?named=…` instead, a query that the operator wrote; length >= 1, length <= 8000
    """
    content_stays: NotRequired[bool]
    """
    The content stays there and is not stored: each job fetches it again, and fails,
    uncharged, unless it is unchanged; default `false`
    """
    reader: NotRequired[BlockNames | None]


class PlacedDatasetRequest(TypedDict):
    """
    A dataset to register whose content lies somewhere that the operator allows
    (`DISCREET_CONTENT_PLACES`).
    """

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    content_from: str
    """
    `file:///…`, `https://…` or `s3://bucket/…`: one Parquet, CSV or JSON file, or a pattern
    with `*` that matches several Parquet files with equal columns.
    `postgresql://host/database?query=…`: the rows of one SELECT, percent-encoded; or
    `?named=…` instead, a query that the operator wrote; length >= 1, length <= 8000
    """
    content_stays: NotRequired[bool]
    """
    The content stays there and is not stored: each job fetches it again, and fails,
    uncharged, unless it is unchanged; default `false`
    """
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    kind: str
    """length >= 1, length <= 100"""
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: dict[str, Any]
    """The same as for a dataset of this kind whose content is sent"""
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class PlannedBlock(TypedDict):
    """A block that a job reads."""

    block: str
    """Its name in the source"""
    version: str
    """The dataset of this version; a later version with late records is another dataset"""


class PlannedSource(TypedDict):
    """Blocks of a source that a job reads as one dataset, and is charged to."""

    blocks: list[PlannedBlock]
    by: str
    """What a block is: the records of a `day` or `month`, or of a `label`"""
    cap_of: str
    """`block`: charged to the account of each block; `source`: once, to one for all"""
    id: str
    name: str


class PolytopeRows(TypedDict):
    """`A x <= b` within the box, which must then be bounded."""

    A: list[list[float]]
    b: list[float]


class PowerTerm(TypedDict):
    """weight Σ |A x - b|^power."""

    A: NotRequired[list[list[float]] | None]
    """One column a variable; x itself without"""
    b: NotRequired[list[float] | float]
    """One number, or one a row of A; default `0.0`"""
    kind: Literal["power"]
    power: NotRequired[float]
    """> 1, <= 10; default `2.0`"""
    weight: NotRequired[float]
    """> 0; default `1.0`"""


class Price(TypedDict):
    """What a job costs."""

    delta: float
    epsilon: float
    rho: float


class Privacy(TypedDict):
    """
    The privacy budget of one job: in figures, which are read as exact decimals, or in other
    words.
    """

    accuracy: NotRequired[Accuracy | None]
    """
    Instead of epsilon, in plans: the smallest epsilon with which the answer is expected to be
    this accurate; delta is `auto` unless another is given
    """
    delta: NotRequired[float | Literal["auto"]]
    """
    Probability of exceeding it; at most 18 decimals. `auto`: the largest power of ten that is
    at most 1e-6 and 1 / (1000 units), where their number or a bound on it is public, else
    1e-9; a mechanism that needs none is charged 0; default `0`
    """
    epsilon: NotRequired[float | None]
    """Privacy loss bound; at most 9 decimals; > 0, <= 1000"""
    preset: NotRequired[Literal["strict", "usual", "loose"] | None]
    """Instead of epsilon: 0.1, 1 or 4, with delta `auto` unless another is given"""
    rho: NotRequired[float | None]
    """
    Instead of epsilon: the parameter of zero-concentrated DP, with a delta; the mechanism is
    then the one with least noise at this rho, and the most such jobs fit under a cap; > 0, <=
    1000
    """
    unit: NotRequired[str | None]
    """If given, must name the dataset's own unit"""


class ProblemDocument(TypedDict):
    """An error (RFC 9457)."""

    binding: NotRequired[Binding | None]
    code: str
    """Stable name of the error"""
    detail: str
    errors: NotRequired[list[Issue] | None]
    limit: NotRequired[LimitAnswer | None]
    status: int
    title: str
    type: str
    """urn:discreet:problem: followed by the code"""


class ProcessState(TypedDict):
    """A process of the service, as it reports itself."""

    alive: bool
    """True if it reported within the last 60 s"""
    busy: int | None
    """How many jobs a worker is running"""
    helping: bool | None
    """Whether a worker has read a share of a release that another worker runs"""
    host: str
    isolation: IsolationState | None
    """null if it has started no child yet"""
    part: Literal["api", "rpc", "worker"]
    places: int | None
    """How many jobs a worker can run at once"""
    schema_version: str
    """The schema that its code expects"""
    seen_at: str
    """date-time"""
    silent_seconds: float
    started_at: str
    """date-time"""
    version: str


class ProposalAnswer(TypedDict):
    """A description to begin with, by the form of a file alone."""

    columns: dict[str, str]
    reader: dict[str, Any]


class QpSteps(TypedDict):
    """Steps of the shrunken primal-dual subgradient method."""

    dual: NotRequired[float | None]
    """beta; given whenever primal is; > 0"""
    iterations: int
    """>= 1, <= 100000"""
    primal: NotRequired[float | list[float] | None]
    """alpha, for all or one an agent; from the problem's constants when not given"""
    regularization: NotRequired[float]
    """Added curvature; moves the answer by as much; >= 0; default `0.0`"""
    shrink: NotRequired[float]
    """tau; > 0, <= 1; default `1.0`"""


class QuadraticTerm(TypedDict):
    """½ x'P x, P symmetric and positive semidefinite."""

    P: list[list[float]]
    kind: Literal["quadratic"]


class QueueState(TypedDict):
    """Jobs that have not ended."""

    awaiting_agents: int
    leases_over: int
    """Running jobs whose worker has been silent for too long"""
    oldest_wait_seconds: float | None
    """null if none waits"""
    queued: int
    running: int
    waiting_for_budget: int
    """Jobs on sources that wait for shares to be lent; they are in no queue"""


class Range(TypedDict):
    """Two ends."""

    lower: float
    upper: float


class ReadAnswer(TypedDict):
    """A file that is here, for a day, and was not registered."""

    bytes: int
    created_at: str
    """date-time"""
    expires_at: str
    """When it is erased, unless it is registered before; date-time"""
    format: str
    id: str


class ReadRequest(TypedDict):
    """A file to look at before anything is registered."""

    draft: NotRequired[str | None]
    """matches `^read_[0-9A-Za-z]{1,60}$`"""
    format: NotRequired[Literal["csv", "parquet", "json", "xlsx", "omx"] | None]
    """Of the file; absent: as its name or media type says"""
    kind: str
    """The kind of problem that the data are for; length >= 1, length <= 100"""
    public: NotRequired[dict[str, Any]]
    """What is known of the public part until now, with `reader` and `columns`"""


class Reading(TypedDict):
    """The power that a participant's meter shows at a time."""

    kw: float
    participant: str | int
    time: str
    """date-time"""


class Resources(TypedDict):
    """What one job may take, from public figures alone."""

    memory_bytes: int
    opening_seconds: NotRequired[float]
    """The part of that for opening the content; default `0.0625`"""
    release_quantum_seconds: float
    """
    The step on the data takes this long, whatever the data and however it ends; on a machine
    too busy for it twice as long, and so on
    """
    result_seconds: NotRequired[float]
    """
    About how long the work after the release takes, if known; it counts in the order of jobs;
    default `0.0`
    """
    steps: int
    """Steps that progress counts to"""


class RoadNetwork(TypedDict):
    """
    A public network. Zones are its first nodes; nodes before `first_through_node` are not
    passed through.

    Coordinates and names change no flow: pictures and files that results are written to are
    made with them.
    """

    first_through_node: NotRequired[int]
    """>= 1; default `1`"""
    link_names: NotRequired[list[str] | None]
    """
    What each link is called where the network comes from, by position; all different; length
    <= 1000000, each length >= 1, length <= 200
    """
    link_shapes: NotRequired[list[list[list[float]]] | None]
    """
    The points of each link's line between its two nodes, by position; length <= 1000000, each
    each length >= 2, length <= 2
    """
    links: list[Link]
    """length <= 1000000"""
    node_names: NotRequired[list[str] | None]
    """
    What each node is called where the network comes from, by number; all different; length <=
    1000000, each length >= 1, length <= 200
    """
    nodes: int
    """>= 1, <= 1000000"""
    nodes_xy: NotRequired[list[list[float]] | None]
    """
    Coordinates [x, y] of every node, by number; x to the right, y upward, in any unit; length
    <= 1000000, each length >= 2, length <= 2
    """
    period_minutes: NotRequired[float | None]
    """
    Length of the period that capacities are for. Jobs on periods of another length are
    refused; if absent, capacities are taken for those of a dataset's period, however long,
    and the plan says so; > 0, <= 1e+06
    """
    time_unit: NotRequired[Literal["seconds", "minutes", "hours"] | None]
    """
    Unit of free_flow_time and fixed_cost, which answers name beside travel times; no flow
    depends on it
    """


class RosterRequest(TypedDict):
    """Who takes part, signed by the owner's key, which the server never holds."""

    owner_key: str
    """32 bytes in base64; length <= 100"""
    roster: str
    """JSON text, exactly as signed; length <= 4194304"""
    save_as: NotRequired[str | None]
    """Keep these agents as a standing group with this name; length >= 1, length <= 200"""
    signature: str
    """Ed25519, base64; length <= 100"""


class RoutingClassSelected(TypedDict):
    """The same of the trips of one class of users."""

    destination: int
    link: int
    """Its position in the request, from 0"""
    origin: int
    share: float
    """Of the pair's trips"""
    trips: float
    """Of the released demand; unit: trips a period"""
    user_class: str


class RoutingPath(TypedDict):
    """A path from origin to destination, and the share of the pair's trips that take it."""

    links: list[int]
    """Positions of its links in the request, from 0"""
    share: float
    """Shares of a pair sum to 1"""


class RoutingPublic(TypedDict):
    """The public part of a set of trips."""

    columns: NotRequired[dict[str, str] | None]
    """
    What columns are called in a table of your own, by what they are called here: `{"origin":
    "Von", "destination": "Nach"}`
    """
    max_pair: NotRequired[int | None]
    """
    Most trips of one pair of zones in one period, known without the data; content with more
    is refused; >= 1, <= 1000000000
    """
    max_person: NotRequired[int | None]
    """
    Most trips of one person over all periods, known without the data; content with more is
    refused. `max_trips_per_person: auto` takes it; >= 1, <= 1000000
    """
    max_rows: NotRequired[int | None]
    """
    Public bound on the number of cells (period, pair of zones and, where the unit is person,
    person) that have trips, chosen without looking at them: releases take the time of so
    many. Absent: 2,000,000 for requests, 500,000 for persons; >= 1, <= 1000000000
    """
    max_total: NotRequired[int | None]
    """
    Most trips of one period, known without the data; content with more is refused. Plans can
    then tell how full roads are; >= 1, <= 1000000000
    """
    period_minutes: float
    """Length of a period; flows and capacities are per period; > 0, <= 1e+06"""
    periods: int
    """
    How many periods the data cover, such as 30 mornings; answers are means of a period; >= 1,
    <= 100000
    """
    reader: NotRequired[dict[str, Any] | None]
    """
    Rules by which a table of your own is read, such as `{"decimal": ",", "time_zone":
    "Europe/Berlin"}` (docs/own-files.md); with it or `columns` the content is such a table.
    `zones` and `participants` as lists, and `except`, are used and not stored
    """
    trip_scale: NotRequired[int]
    """
    Parts into which a trip may be divided: with 100 the content may have hundredths of trips.
    Noise in trips stays the same; >= 1, <= 1000; default `1`
    """
    unit: Literal["request", "person"]
    """
    What the guarantee hides: each single trip (request), or all trips of each person, which
    needs a column `person`
    """
    user_classes: NotRequired[list[str] | None]
    """
    Names of the classes of users, such as car and truck, if each trip has a `user_class`,
    which is as private as the trip itself. Absent: trips have no classes; length >= 2, length
    <= 8, each matches `^[^\\s/]([^\\x00-\\x1f\\x7f/]{0,38}[^\\s/])?$`
    """
    zones: int
    """
    Number of zones that trips begin and end in. Zone k is node k of the network; >= 1, <=
    3000
    """


class RoutingSelected(TypedDict):
    """The trips of one pair over one of the chosen links."""

    destination: int
    link: int
    """Its position in the request, from 0"""
    origin: int
    share: float
    """Of the pair's trips"""
    trips: float
    """Of the released demand; unit: trips a period"""


class RuleAnswer(TypedDict):
    """Who may spend which share of each block."""

    created_at: str
    """date-time"""
    created_by: str
    lent_days: int
    """Days over which the unused part of a share is lent to all, linearly"""
    shares: dict[str, float]
    """Share of each block by principal, as a fraction"""
    version: int
    """From 1; the newest version applies"""


class SessionAgainAnswer(TypedDict):
    """A job like one that has failed, without some of its agents."""

    agents: list[str]
    """Fingerprints of those"""
    job: str
    link: str
    """For all agents that remain: they start again with it and their own keys"""
    session: str


class SessionAgainRequest(TypedDict):
    """Which agents a job that has failed is started again without."""

    without: NotRequired[list[str] | None]
    """
    Fingerprints; by default the agents whom the error names; length <= 1000, each matches
    `^[0-9a-f]{64}$`
    """


class SessionAgentAnswer(TypedDict):
    """An agent that has enrolled."""

    accepted: bool
    """True if it has the roster and has recorded its charge in its own ledger"""
    account: str
    announcement: dict[str, Any]
    cause: str | None
    """Why the session could not go on without it; null if it could"""
    enrolled_at: str
    """date-time"""
    fingerprint: str
    key: str
    name: str
    on_roster: bool
    receipt: dict[str, Any] | None
    """Its signed receipt for that"""
    speaks: list[str]
    """Versions of protocols, methods and encryptions that it speaks, as it says"""
    unit: str


class SessionTokensAnswer(TypedDict):
    """Links for agents, shown only once."""

    expires_at: NotRequired[str | None]
    """date-time"""
    link: str | None
    """The one link of a standing group, which holds no token"""
    links: list[str]
    """One for each agent, good for one enrolment; in the order of `names`"""
    session: str


class SessionTokensRequest(TypedDict):
    """Agents to invite to a federated job."""

    count: NotRequired[int]
    """>= 1, <= 1000; default `1`"""
    group: NotRequired[str | None]
    """A standing group instead: its members need no token; length >= 1, length <= 200"""
    names: NotRequired[list[str] | None]
    """
    One link for each name, which only an agent of that name can use; instead of `count`;
    length >= 1, length <= 1000, each length >= 1, length <= 200
    """
    owner: str
    """
    SHA-256 of the Ed25519 public key that will sign the roster; every link pins it; matches
    `^[0-9a-f]{64}$`
    """


class ShareBounds(TypedDict):
    """
    Public bounds that determine the number of bits. An agent whose data exceed one does not
    take part.
    """

    iterations: NotRequired[int | None]
    """
    Steps of ADMM, for agents whose costs couple their hours or who have budgets. Null: costs
    are a sum over hours, and the optimum is found exactly, which is faster; >= 1, <= 500
    """
    least_curvature: float
    """
    Of its cost of that: twice the square of A_q over that of A_g or A_u. With `iterations` of
    the eigenvalues of `2 A_q'A_q` over the squares of A_g or A_u; > 0
    """
    most_curvature: float
    """> 0"""
    price: float
    """Of its marginal cost of that, in absolute value, anywhere in its box; > 0"""
    reach: float
    """Of an agent's part of an hour's sum, in absolute value, anywhere in its box; > 0"""
    typical_curvature: NotRequired[float | None]
    """
    Only with `iterations`: the curvature that step sizes follow from. It changes how many
    steps are needed, and nothing else; null: near the least; > 0
    """


class SourceBlock(TypedDict):
    """The newest version of a block, and its budget."""

    account: str
    block: str
    cap: Figures
    created_at: str
    """date-time"""
    dataset: str
    """Its id: DELETE /v1/datasets/{id} erases its content"""
    erased: bool
    """True if its content is gone; it is no longer read"""
    expires_at: str | None
    """date-time"""
    notes: NotRequired[list[str]]
    """Where its table was read by the source's reader: what was left out or changed"""
    place: NotRequired[PlaceAnswer | None]
    """
    Where its content stays, if it is not stored; GET /v1/datasets/{id} tells owners the
    address
    """
    remaining: Figures
    reserved: Figures
    spent: Figures
    version: int
    """From 1; a later version adds late records and is charged to the same account"""


class SourceBlocks(TypedDict):
    """Blocks of a source, as one dataset."""

    blocks: NotRequired[str | list[str] | None]
    """One block, a list of them, or `first/last` for days or months, each of which must exist"""
    id: str
    """length >= 1, length <= 64"""
    last: NotRequired[int | None]
    """Instead of `blocks`: how many of the newest blocks; >= 1, <= 366"""
    versions: NotRequired[list[str] | None]
    """
    The version of each of `blocks`, in their order; absent: the newest. An accepted job names
    all of them; length >= 1, length <= 366
    """


class SourceCorrection(TypedDict):
    """What is different in the public part of a source."""

    public: dict[str, Any]
    """
    Fields with their new values (JSON Merge Patch, RFC 7396: null takes a field away); all
    others stay. `unit` stays
    """


class SourceRule(TypedDict):
    """Who may spend which share of each block of a source."""

    lent_days: NotRequired[int]
    """
    Days over which the unused part of a share is lent to all, linearly from when the block
    was first registered (with `cap_of: source`, when the source was made); >= 1, <= 3650;
    default `28`
    """
    shares: dict[str, float]
    """
    Share of each block by principal, as a fraction with up to six decimals; at most 1
    together. What is in nobody's share is open to everybody at once
    """


class States(TypedDict):
    """What the states and the steps of a result are, all of it public."""

    blocks: NotRequired[list[int]]
    """The step of the day at which each block begins"""
    day_begins: NotRequired[str]
    """Time of step 0 of a day, by the clock of `meters.start`"""
    day_begins_on: NotRequired[str]
    """Its day of the week, such as `Monday`, if the blocks repeat weekly"""
    day_steps: NotRequired[int]
    """Steps of a day, after which blocks begin again"""
    edges: NotRequired[list[float]]
    """State s is edges[s] <= kW < edges[s + 1]"""
    first_step: NotRequired[int]
    """The step of the day at which the horizon begins"""
    participants: NotRequired[int]
    """Number of loads, if public: all together take so many times the power of one"""
    power: list[float]
    """
    Power of each state: as asked, or the middle of its bin; unit: the unit of power of the
    states
    """
    step_seconds: NotRequired[int]
    """Length of a step, if states come from meters"""


class StepSchedule(TypedDict):
    """
    gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, 0 < c2 < c1, c1 + c2 < 1 (eqs 7 and 8), and
    the number of steps.
    """

    alpha: float
    """> 0, <= 1e+06"""
    c1: float
    """> 0, < 1"""
    c2: float
    """> 0, < 1"""
    gamma: float
    """> 0, <= 1e+06"""
    iterations: int
    """>= 1, <= 1000000"""


class SumBudget(TypedDict):
    """The range of the sum of an agent's variables, such as the energy that a vehicle charges."""

    lower: float
    upper: float


class SumNoise(TypedDict):
    """
    Noise inside the sums: the opened sums of all rounds together are then differentially
    private.
    """

    clip: NotRequired[float | None]
    """
    Public bound on the l2 norm of a contribution, longer ones are scaled down; from the boxes
    when not given, which a federated job cannot; > 0
    """
    delta: float
    """>= 0, < 1"""
    epsilon: float
    """> 0, <= 1000"""


class SumRange(TypedDict):
    """The range of the sum of a state's coordinates, such as an energy over hours."""

    lower: float
    """>= -1e+09, <= 1e+09"""
    upper: float
    """May equal `lower`: then the sum is fixed; >= -1e+09, <= 1e+09"""


class TabularFeatures(TypedDict):
    """One weight a state."""

    type: Literal["tabular"]


class TenantAnswer(TypedDict):
    """A tenant."""

    id: str
    name: str


class TenantRequest(TypedDict):
    """A tenant to make."""

    name: str
    """length >= 1, length <= 200"""


class TransitionRow(TypedDict):
    """
    One transition; `state, next_state` (neither where there is one state) or `x, x_next`;
    both probabilities of the action or none.
    """

    action: NotRequired[Any]
    behaviour: NotRequired[float]
    next_state: NotRequired[int]
    """>= 0, <= 1000000000"""
    reward: float
    state: NotRequired[int]
    """>= 0, <= 1000000000"""
    step: int
    """>= 0, <= 1000000000"""
    target: NotRequired[float]
    terminal: bool
    trajectory: str | int
    x: NotRequired[list[float]]
    x_next: NotRequired[list[float]]


class Trip(TypedDict):
    """
    Trips of one pair in one period, in whole trips or in multiples of 1/`trip_scale`;
    `person` if the unit is a person, `user_class` if trips have classes: one of the public
    `user_classes`.
    """

    count: float
    """>= 0, <= 1000000000"""
    destination: int
    """>= 0, <= 1000000000"""
    origin: int
    """>= 0, <= 1000000000"""
    period: int
    """>= 0, <= 1000000000"""
    person: NotRequired[str | int]
    user_class: NotRequired[str]


class Uncertainty(TypedDict):
    """
    How far the noise may have moved a result, from what was released and the public
    distribution of the noise.
    """

    kinds: dict[str, Literal["noise", "noise_and_bins", "confidence"]]
    """
    By field of `values`, what its intervals allow for. `noise`: the noise alone (noise
    interval, NI). `noise_and_bins`: the noise, and where readings lie in the bins of their
    states. `confidence`: the noise, and who is in the data (confidence interval, CI)
    """
    level: float
    """Probability with which an interval holds the number that it is of"""
    mostly_noise: bool
    """Whether the answer as a whole is mostly noise"""
    noise_dominates: dict[str, bool | list[bool]]
    """By field: whether it, or each of its rows, is mostly noise"""
    values: dict[str, Interval]
    """By field of the result; a field without an entry has no honest interval"""


class UntilSpent(TypedDict):
    """
    How many jobs such as this one its blocks still allow. What other jobs may spend meanwhile
    is not foreseen.
    """

    blocks: list[str]
    """Up to 20 of these blocks; empty if all blocks share one account"""
    jobs: int
    """How many such jobs fit on the same blocks, including this one"""
    number: int
    """How many accounts, of blocks or of the source, then allow no further job"""
    sentence: str
    """The same as a sentence"""


class UserClass(TypedDict):
    """
    The weight and passenger car equivalent of a class of users.

    A link costs it `time + fixed_cost_weight * fixed_cost`, the time at the flow of all
    classes.
    """

    fixed_cost_weight: NotRequired[float]
    """
    What the links' fixed costs count for it: 0.2 where its time is worth five times as much
    money, or 0 where it is free of toll; >= 0, <= 1e+06; default `1.0`
    """
    name: str
    """
    One of the dataset's public user_classes; matches
    `^[^\\s/]([^\\x00-\\x1f\\x7f/]{0,38}[^\\s/])?$`
    """
    pce: NotRequired[float]
    """Passenger cars that one of its trips counts as on a link; >= 0.01, <= 100; default `1.0`"""


class Versions(TypedDict):
    """Versions of the process that answers, and of the database."""

    database_schema_version: str
    postgres: str
    schema_version: str
    """The schema that this process's code expects"""
    service: str


class WaitingTenant(TypedDict):
    """A tenant whose jobs wait."""

    oldest_wait_seconds: float
    queued: int
    running: int
    share: float
    """Its share of the time that all waiting jobs have waited so far, in [0, 1]"""
    tenant: str
    """Its name"""


class WebhookAnswer(TypedDict):
    """A webhook. Its secret is never returned again."""

    created_at: str
    """date-time"""
    disabled_at: str | None
    """Nothing is sent since then: it failed for too long, or answered 410; date-time"""
    events: list[Literal["job.finished", "job.failed", "job.cancelled", "budget.exhausted"]]
    failing_since: str | None
    """The first failed delivery since the last successful one; date-time"""
    id: str
    last_error: str | None
    """
    `timeout`, `no_connection`, `address_refused`, `secret_unreadable` or `status_` and the
    number
    """
    url: str


class WebhookCreated(TypedDict):
    """A new webhook."""

    created_at: str
    """date-time"""
    disabled_at: str | None
    """Nothing is sent since then: it failed for too long, or answered 410; date-time"""
    events: list[Literal["job.finished", "job.failed", "job.cancelled", "budget.exhausted"]]
    failing_since: str | None
    """The first failed delivery since the last successful one; date-time"""
    id: str
    last_error: str | None
    """
    `timeout`, `no_connection`, `address_refused`, `secret_unreadable` or `status_` and the
    number
    """
    secret: str
    url: str


class WebhookList(TypedDict):
    """The webhooks of a tenant."""

    webhooks: list[WebhookAnswer]


class WebhookRequest(TypedDict):
    """An address to tell of events."""

    events: list[Literal["job.finished", "job.failed", "job.cancelled", "budget.exhausted"]]
    """length >= 1, length <= 20"""
    secret: NotRequired[str | None]
    """`whsec_` and 24 to 64 bytes in base64; made and shown once when absent; length <= 100"""
    url: str
    """https://…; length >= 9, length <= 2000"""


class WitnessState(TypedDict):
    """A witness that the installation names."""

    behind_seconds: float
    """For how long there has been a checkpoint that it has not signed"""
    name: str
    signed_at: str | None
    """When that signature arrived; date-time"""
    signed_newest: bool
    size: int | None
    """Size of the largest checkpoint that it has signed; null if none"""


Terms: TypeAlias = QuadraticTerm | PowerTerm | PiecewiseLinearTerm | LogBarrierTerm | EntropyTerm


class AgentData(TypedDict):
    """
    One agent's part, k variables. A_u: rows of c by k; A_g: rows of d by k; A_q: any rows by
    k; a_l: k. `terms`: convex costs in addition to `|A_q x|² + a_l · x`. `budget`: least and
    most sum of its variables; `polytope`: rows that they satisfy; both within a bounded box.
    """

    A_g: list[list[float]]
    A_q: NotRequired[list[list[float]]]
    """default `[]`"""
    A_u: list[list[float]]
    a_l: list[float]
    """length >= 1"""
    budget: NotRequired[SumBudget | None]
    lower: NotRequired[list[float] | float]
    """default `0.0`"""
    polytope: NotRequired[PolytopeRows | None]
    terms: NotRequired[list[Terms]]
    """
    Convex costs beside those of A_q and a_l, such as a price in steps or a wear that grows
    with a power; length <= 16; default `[]`
    """
    upper: list[float] | float


class AgentFigures(TypedDict):
    """An agent with its name in expressions."""

    ball: NotRequired[Ball | None]
    """In which the coordinates lie, in the box"""
    budget: NotRequired[SumRange | None]
    """What the coordinates add up to, within the box"""
    dimension: NotRequired[int | None]
    """
    Of a state that is a vector: an agent `ev` has the coordinates `ev_1`, `ev_2`, …; absent:
    one number, by the agent's own name; >= 1, <= 1000
    """
    lower: float | list[float]
    """Of the state, or of each coordinate: one number for all, or a list"""
    name: str
    """matches `^[A-Za-z_][A-Za-z0-9_]{0,31}$`"""
    polytope: NotRequired[AgentPolytope | None]
    """Rows that the coordinates keep, within the box"""
    radius: float
    """
    Neighbouring trajectories of this agent's state differ by at most this in l2, over all
    steps; > 0, <= 1e+09
    """
    upper: float | list[float]


class BlockAnswer(TypedDict):
    """A version of a block. Its size is not disclosed."""

    account: str
    block: str
    created_at: str
    """date-time"""
    dataset: str
    """Its id: DELETE /v1/datasets/{id} erases its content"""
    expires_at: str | None
    """date-time"""
    notes: NotRequired[list[str]]
    """Where its table was read by the source's reader: what was left out or changed"""
    place: NotRequired[PlaceAnswer | None]
    """
    Where its content stays, if it is not stored; GET /v1/datasets/{id} tells owners the
    address
    """
    version: int
    """From 1; a later version adds late records and is charged to the same account"""


class BudgetAnswer(TypedDict):
    """A budget."""

    cap: Figures
    datasets: list[DatasetName]
    filters: list[FilterFigures]
    id: str
    largest_request: Figures
    remaining: Figures
    reserved: Figures
    scope: Literal["data", "tenant", "principal", "agent"]
    spent: Figures
    subject: str
    unit: str


class BudgetList(TypedDict):
    """All budgets of the tenant."""

    budgets: list[BudgetAnswer]


class BudgetRequestAnswer(TypedDict):
    """A request for a larger budget. It changes nothing until an owner grants it."""

    account: str
    answer: str | None
    """The owner's reason"""
    answered_at: str | None
    """date-time"""
    answered_by: str | None
    created_at: str
    """date-time"""
    id: str
    more: Figures
    """How much the cap should be raised by"""
    principal: str
    """Who asks"""
    reason: str
    state: Literal["open", "granted", "declined"]


class BudgetRequestList(TypedDict):
    """The newest requests on a budget, at most a hundred."""

    requests: list[BudgetRequestAnswer]


class BudgetRequestRequest(TypedDict):
    """More of a budget, for a reason: asked of an owner."""

    more: Cap
    """How much the cap should be raised by"""
    reason: str
    """length >= 1, length <= 500"""


class CapList(TypedDict):
    """The caps on the tenant and on its principals."""

    caps: list[BudgetAnswer]


class CoupledQp(TypedDict):
    """
    Agents minimize a joint quadratic cost under joint constraints, over sums that only they
    can open.

    `protocol: job` runs operator and agents in one process, with all data at the server: only
    for `mode: simulation`.
    """

    agents: list[AgentData] | FederatedAgents
    encryption: NotRequired[Encryption]
    """
    default `{"colluding": 1, "fraction_bits": 32, "key_bits": 3072, "scheme": "paillier",
    "slot_bits": 64}`
    """
    exposure: NotRequired[Literal["accepted"] | None]
    """
    `accepted`: the owner knows that the agents are few for the sums that are opened to them;
    each agent says the same in its demands
    """
    federation: NotRequired[FederationTerms | None]
    """Needed with protocol `federated`"""
    kind: Literal["coupled_qp"]
    method: NotRequired[Literal["spds", "rpds", "auto"] | None]
    """
    `spds`: the paper's shrunken primal-dual subgradient method, with `steps`. `rpds`: its
    regularized one, which does not shrink and needs `steps.regularization`. `auto`: prices by
    a quasi-Newton method and exact answers of the agents, with no steps to choose; ends by
    itself, often after 10 to 20 rounds. Without it `spds` where there are steps or noise,
    else `auto`
    """
    mode: NotRequired[Literal["private", "simulation"]]
    """default `private`"""
    mpc: NotRequired[ShareBounds | None]
    """Public bounds; required with protocol `mpc`"""
    noise: NotRequired[SumNoise | None]
    operator: OperatorData
    protocol: NotRequired[Literal["job", "federated", "mpc"]]
    """default `job`"""
    steps: NotRequired[QpSteps | None]
    tolerance: NotRequired[float | None]
    """> 0, < 1; default `0.001`"""


class DatasetAnswer(TypedDict):
    """A registered dataset. Its content is never returned."""

    account: str
    block: NotRequired[str | None]
    """That block"""
    created_at: str
    """date-time"""
    delete_after_job: bool
    """The content is erased after the first job that succeeds on it"""
    expires_at: str | None
    """When the content is erased; null if it is kept; date-time"""
    id: str
    kind: str
    mode: Literal["private", "simulation"]
    name: str
    notes: NotRequired[list[str]]
    """
    Where a table was read by its description: what was left out or changed, in sentences;
    only in the answer to who registers it
    """
    place: NotRequired[PlaceAnswer | None]
    """Where its content stays, if it is not stored"""
    public: dict[str, Any]
    revision: NotRequired[int]
    """1, and one more with each correction of its public part; default `1`"""
    source: NotRequired[str | None]
    """The source, if it is a version of a block"""
    undeclared: NotRequired[dict[str, str]]
    """
    Public fields that are not declared and that later questions may need, each with what it
    buys; a correction declares them
    """


class DatasetPage(TypedDict):
    """A page of datasets, newest first."""

    datasets: list[DatasetAnswer]
    next_page_token: str | None


class DrEnsemble(TypedDict):
    """
    Steer a load ensemble through T steps.

    `counts`: every participant's transitions, normalized by their number, are summed and
    released with noise; a participant is a point of the simplex, whatever the record's
    length. `dirichlet`: every row of a transition matrix is answered by one Dirichlet draw.
    """

    clip: NotRequired[float | Literal["auto"] | None]
    """
    Public bound on the l2 norm of a participant's histogram: less noise, some bias. `auto`
    takes the bound with the least expected error, by public figures
    """
    concentration: NotRequired[float | None]
    """k of the last three policies; absent: the Dirichlet mechanism's own; > 0, <= 1e+12"""
    dataset: NotRequired[str | None]
    """Id of a dataset of this kind; otherwise `release` is needed"""
    discomfort_weight: float
    """
    Cost of moving loads against their habits, in the money of `price` or `utility`: the
    larger, the less they are moved; > 0, <= 1e+12
    """
    event: NotRequired[list[list[int]] | None]
    """
    Steps that the answer compares with all others, with and without control: [[first, end],
    …], each from `first` to before `end`. Absent: the expensive ones, if the price has two
    levels; length <= 1000, each length >= 2, length <= 2
    """
    first_step: NotRequired[int]
    """
    The step of the day at step 0, if the dataset has a `day`: with 48 steps a day, 36 is six
    in the evening; >= 0, <= 1000000000; default `0`
    """
    initial: list[float] | Literal["released"]
    """
    Distribution of the loads over the states at step 0, chosen without looking at the data;
    or `released`, the distribution of their time in the release
    """
    kind: Literal["dr_ensemble"]
    limits: NotRequired[LoadLimits | None]
    """Limits on the expected load: the best policy that keeps them is found"""
    method: NotRequired[Literal["auto", "counts", "dirichlet"]]
    """default `auto`"""
    policy: NotRequired[Literal["exact", "taylor", "digamma", "average"]]
    """default `exact`"""
    power: NotRequired[list[float] | None]
    """
    Power of each state. Absent: the middles of the bins between the public `edges` of the
    dataset; length >= 2, length <= 2000
    """
    price: NotRequired[list[float] | None]
    """
    Money per unit of power in each step; the utility is then minus price times power. A price
    per kWh is multiplied by the hours of a step: 0.30 per kWh is 0.075 per kW in steps of a
    quarter of an hour. `discreet convert prices` makes it from a file of day-ahead prices;
    length >= 2, length <= 100000
    """
    prior: NotRequired[float]
    """
    Added to each parameter of a Dirichlet draw; lets small epsilons be met; >= 0, <= 1e+06;
    default `0.0`
    """
    release: NotRequired[str | list[str] | None]
    """
    Instead of `dataset`: one or several jobs whose release is asked again, at price 0. Fields
    that were fixed at the release must equal those of that job
    """
    samples: NotRequired[int | None]
    """Draws of the average policy; absent: its closed form; >= 1, <= 10000"""
    uncertainty: NotRequired[bool]
    """Whether the result says how far the noise may have moved its numbers; default `true`"""
    utility: NotRequired[list[list[float]] | None]
    """Money for each step and state, instead of `price`; length >= 2, length <= 100000"""


class DrEnsembleContent(TypedDict):
    """
    The private content: state sequences, one a participant, or a transition matrix, or
    readings of meters.
    """

    power: NotRequired[list[Reading] | None]
    """Readings of meters, in any order; for a public part with `meters`"""
    trajectories: NotRequired[list[list[int]] | None]
    """each each >= 0, <= 1000000000"""
    transitions: NotRequired[list[list[float]] | None]
    """each each >= 0, <= 1"""


class DrEnsemblePublic(TypedDict):
    """
    What is published of an ensemble. With `row_change` its content is a transition matrix,
    else trajectories.
    """

    columns: NotRequired[dict[str, str] | None]
    """
    What columns are called in a table of your own, by what they are called here: `{"origin":
    "Von", "destination": "Nach"}`
    """
    day: NotRequired[Day | None]
    """
    Blocks of hours with transition matrices of their own, at the same noise. Absent: one
    matrix for all hours, by which an uncontrolled load goes to its mean and stays there. It
    cannot be added once something was spent on the data
    """
    edges: NotRequired[list[float] | None]
    """
    Increasing power in kW, chosen without looking at the data: state s is edges[s] <= kW <
    edges[s + 1]. Its power is the middle unless a problem gives one; length >= 3, length <=
    2001
    """
    max_rows: NotRequired[int | None]
    """
    Public bound on the states of all trajectories together, chosen without looking at them:
    releases take the time of so many. Absent: the larger of 500,000 and ten for each public
    participant; >= 1, <= 1000000000
    """
    meters: NotRequired[Meters | None]
    """How readings of meters become states, by `edges`; without it the content holds states"""
    min_probability: NotRequired[float | None]
    """Floor of the transitions in the support; > 0, < 1"""
    participants: NotRequired[int | None]
    """
    If given, it is public and neighbours replace one participant; otherwise neighbours add or
    remove one; >= 2, <= 1000000000
    """
    reader: NotRequired[dict[str, Any] | None]
    """
    Rules by which a table of your own is read, such as `{"decimal": ",", "time_zone":
    "Europe/Berlin"}` (docs/own-files.md); with it or `columns` the content is such a table.
    `zones` and `participants` as lists, and `except`, are used and not stored
    """
    row_change: NotRequired[float | None]
    """l1 distance h of neighbouring rows: two entries move by at most h/2; > 0, < 1"""
    states: int
    """>= 2, <= 2000"""
    steps: NotRequired[int | None]
    """
    The number of states of every trajectory, if it is the same for all and public: 96 for a
    day of quarter-hours; >= 2, <= 1000000
    """
    support: NotRequired[Literal["all"] | list[list[int]]]
    """Transitions [from, to] that are possible; all others have probability 0; default `all`"""
    unit: Literal["participant", "row"]
    """What the noise hides: one participant, or one row of the matrix"""


class DrEnsembleResult(TypedDict):
    """What follows from the released transitions."""

    achieved_policy_saving: NotRequired[float]
    """
    What ordering the probabilities of `policy` saves the true loads; only for simulations;
    unit: the money of the price
    """
    achieved_power: NotRequired[list[float]]
    """
    Expected power of the true loads if they follow the signal; only for simulations; unit:
    the unit of power of the states
    """
    achieved_saving: NotRequired[float]
    """
    What the true loads save by following the signal; only for simulations; unit: the money of
    the price
    """
    block_transitions: NotRequired[list[list[list[float]]]]
    """Instead of `transitions`, if the dataset has a `day`: [block][from][to]"""
    combined: NotRequired[Combined]
    """For several releases: what combining them gained"""
    cost_of_privacy: NotRequired[list[list[float]]]
    """
    Extra cost of following the signal over the best control of the true loads; only for
    simulations; unit: the money of the price
    """
    cost_to_go: NotRequired[list[float]]
    """
    Expected cost of following the signal from each state at step 0, discomfort included;
    unit: the money of the price
    """
    default_power: NotRequired[list[float]]
    """Expected power without control; unit: the unit of power of the states"""
    energy_ratio: NotRequired[float]
    """
    Energy over all steps if the signal is followed, divided by that without control: below 1
    load is shed, at 1 it is shifted
    """
    event: NotRequired[list[int]]
    """The steps of `event_saving`, as asked or the expensive ones"""
    event_saving: NotRequired[float]
    """
    Energy that a load that follows draws less than without control during the event, over all
    its steps; unit: kWh of steps of meters, else the unit of power times a step
    """
    expected_power: NotRequired[list[float]]
    """
    Expected power in each step of a load that follows the signal, from `initial`; unit: the
    unit of power of the states
    """
    limits: NotRequired[LimitsTold]
    """How the policy keeps the `limits` that were asked for"""
    policy: NotRequired[list[list[list[float]]]]
    """
    For loads whose moves can be ordered, probabilities that are optimal for the released
    transitions: [step][from][to]. What that saves is `policy_saving`
    """
    policy_saving: NotRequired[float]
    """
    What ordering the probabilities of `policy` saves at least, net of discomfort; often a
    loss, as discomfort grows with every error of the released transitions; unit: the money of
    the price
    """
    rebound: NotRequired[float]
    """
    Energy that a load that follows draws more than without control outside the event, before
    or after it; unit: kWh of steps of meters, else the unit of power times a step
    """
    saving: NotRequired[float]
    """
    What following the signal saves over all steps from `initial`, net of discomfort: of loads
    that may lie behind the release, the lower of two models' medians; unit: the money of the
    price
    """
    signal: NotRequired[list[list[float]]]
    """
    The signal that loads follow: what each state of a step costs more than the cheapest one,
    from there on. A load draws its own next state a, accepts it with probability
    exp(-signal[step + 1][a] / discomfort_weight), else draws again. All 0: no control; unit:
    the money of the price
    """
    states: NotRequired[States]
    """Meaning of the states, from the problem and the public part of the dataset"""
    tables: list[str]
    """Fields with more than a million numbers: left out here and given as Parquet"""
    transitions: NotRequired[list[list[float]]]
    """The released default transition matrix P[from][to]; rows sum to 1"""
    true_default_power: NotRequired[list[float]]
    """
    Expected power of the true loads without control; only for simulations; unit: the unit of
    power of the states
    """
    true_expected_power: NotRequired[list[float]]
    """
    Expected power under the best control of the true loads; only for simulations; unit: the
    unit of power of the states
    """
    true_saving: NotRequired[float]
    """
    The most that control of the true loads can save; only for simulations; unit: the money of
    the price
    """
    uncertainty: NotRequired[Uncertainty]
    """How far the noise may have moved the numbers of this result"""


class EnvelopeAnswer(TypedDict):
    """An in-toto statement in an envelope (DSSE)."""

    payload: str
    """The statement in base64; its predicate is the requested certificate or head"""
    payloadType: str
    """application/vnd.in-toto+json"""
    signatures: list[EnvelopeSignature]


class JobError(TypedDict):
    """Why a job failed: a fixed code and text, never one made from data."""

    agents: NotRequired[list[MissingAgent] | None]
    """Of a session: the agents without whom it could not go on"""
    code: str
    detail: str


class LogState(TypedDict):
    """The transparency log and its witnesses."""

    checkpoint: CheckpointState | None
    pending: int
    """Ledger entries not yet in the log; 10000 stands for more too"""
    witnesses: list[WitnessState]
    witnesses_needed: int


class LookAnswer(TypedDict):
    """What a file would be read as."""

    bytes: int
    columns: list[str]
    """The names of its columns"""
    count: int | None
    """Rows of the file; null where it cannot be read"""
    created_at: str
    """date-time"""
    expires_at: str
    """When it is erased, unless it is registered before; date-time"""
    format: str
    id: str
    issues: list[dict[str, Any]]
    """What is wrong: row, column, cause, found, expected, way_out, count, last"""
    left_out: list[dict[str, Any]]
    """Why rows are left out, and how many"""
    notes: list[str]
    proposal: ProposalAnswer
    rows: list[dict[str, Any]]
    """The first rows as they are understood"""


class MultiAgent(TypedDict):
    """
    Minimize the sum of the agents' objectives subject to `constraints` <= 0, by a noised
    primal-dual iteration.

    All entries of the constraints' values and gradients that depend on a state get Gaussian
    noise in every step. Its scales are split at least cost such that the whole transcript
    moves by one unit of the single event that is charged.
    """

    colluding: NotRequired[int | None]
    """
    With masks: the most agents that may pool what they know with the cloud; 1 by default; >=
    1, <= 1000000000
    """
    constraints: list[str]
    """
    Expressions in the names of agents or of their coordinates, convex, meant <= 0; length >=
    1, length <= 100, each length >= 1, length <= 100000
    """
    dataset: NotRequired[str | None]
    """Id of a dataset of this kind; otherwise `release` is needed"""
    federation: NotRequired[FederationTerms | None]
    """Needed with protocol `federated`"""
    kind: Literal["multi_agent"]
    masks: NotRequired[Literal["none", "sparse"]]
    """
    With protocol `federated`: `none`: agents send the cloud their states. `sparse`: they send
    masked parts of the constraints' values with noise in them, of which the cloud opens the
    sums alone, also when agents drop; constraints are linear then; default `none`
    """
    protocol: NotRequired[Literal["job", "federated"]]
    """default `job`"""
    release: NotRequired[str | list[str] | None]
    """
    Instead of `dataset`: one or several jobs whose release is asked again, at price 0. Fields
    that were fixed at the release must equal those of that job
    """
    schedule: StepSchedule
    uncertainty: NotRequired[bool]
    """Whether the result says how far the noise may have moved its numbers; default `true`"""


class MultiAgentPublic(TypedDict):
    """The public part of the agents."""

    agents: list[AgentFigures]
    """length >= 2, length <= 2000"""
    max_operations: NotRequired[int | None]
    """
    Public bound on the operations that derivatives of all objectives take, chosen without
    looking at them: releases take the time of so many. Absent: 50 for each coordinate; >= 1,
    <= 100000
    """
    unit: Literal["trajectory"]
    """One agent's trajectory of states is what neighbours change"""


class MultiAgentResult(TypedDict):
    """Functions of only the noised outputs."""

    agreement: NotRequired[Agreement]
    """How the chain of all broadcasts ends, and who signed it; of protocol federated"""
    average_multipliers: NotRequired[list[float]]
    """Averaged over the second half of the steps"""
    average_state: NotRequired[dict[str, float]]
    """Averaged over the second half of the steps; only for simulations"""
    multiplier_path: list[MultiplierPoint]
    """Multipliers at up to 100 public steps"""
    multipliers: NotRequired[list[float]]
    """Of each constraint, after the last step"""
    noisy_gradients: list[NoisyGradient]
    """Noised derivatives of the constraints, averaged over the second half"""
    noisy_values: NotRequired[list[float]]
    """Noised values of the constraints, averaged over the second half"""
    state: NotRequired[dict[str, float]]
    """State of each agent after the last step; only for simulations"""
    state_path: NotRequired[list[list[float]]]
    """States at the steps of `multiplier_path`, by agent; only for simulations"""
    survivors: NotRequired[list[str]]
    """
    Who was in the sum of each step, a bitmap in hexadecimal whose first bit is the roster's
    first agent; of protocol federated with masks
    """
    tables: list[str]
    """Fields with more than a million numbers: left out here and given as Parquet"""
    uncertainty: NotRequired[Uncertainty]
    """How far the noise may have moved the numbers of this result"""


class NetworkRequest(TypedDict):
    """A road network to store: what jobs of kind routing may name instead of holding it."""

    name: str
    """length >= 1, length <= 200"""
    network: RoadNetwork
    zones: NotRequired[int | None]
    """
    Number of zones, which are the first of its nodes, if its files tell it. Lists show it,
    and pages begin a dataset with it; datasets say their own; >= 1
    """


class OffPolicyContent(TypedDict):
    """The private content."""

    transitions: list[TransitionRow]


class OffPolicyDataset(TypedDict):
    """Trajectories of people under a behaviour policy."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    content: OffPolicyContent
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    kind: Literal["off_policy_evaluation"]
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: OffPolicyPublic
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class OffPolicyEvaluation(TypedDict):
    """
    Weights of a linear value function of the target policy, or its value over the people in
    the data.

    `importance_sampling` releases the value, by clipped weights of whole trajectories,
    `per_decision` by those of single steps, for rewards that come along the way. Of a value
    function `moments` releases noised sums over trajectories and solves in closed form;
    `minibatch` noises Poisson-sampled gradient steps; `gradient` is GPOPE, one trajectory a
    step; `dp_lsw` and `dp_lsl` are Monte Carlo regressions with smooth sensitivity. `auto` is
    importance_sampling where the data have the probabilities of actions and the request names
    nothing of a value function, such as `initial`; else moments where the topology is public
    or features are few, else minibatch.
    """

    clip: NotRequired[float | Literal["auto"] | None]
    """
    Public bound on the l2 norm of what one trajectory adds; absent or `auto`: from public
    bounds
    """
    dataset: NotRequired[str | None]
    """Id of a dataset of this kind; otherwise `release` is needed"""
    discount: float
    """
    Weight of a reward one step later relative to one now; 1 if its time does not matter (only
    importance_sampling and per_decision: methods that fit a value function need less); >= 0,
    <= 1
    """
    estimand: NotRequired[Literal["sum", "mean_per_visit"]]
    """
    What a policy is worth: the sum of a person's rewards, or `mean_per_visit`, their mean
    over that person's visits, which lies in the range of one reward (importance_sampling,
    with discount 1); default `sum`
    """
    features: NotRequired[TabularFeatures | FourierFeatures | IdentityFeatures | None]
    """Features of the value function; absent: tabular. importance_sampling uses none"""
    initial: NotRequired[Literal["released"] | list[float] | list[list[float]] | None]
    """
    An assumption, which must not come from the data: a distribution over the states, or
    equally likely initial states x; `released`: the states as often as they were visited
    according to the release
    """
    kind: Literal["off_policy_evaluation"]
    max_importance: NotRequired[float | Literal["auto"] | None]
    """
    Public cap on importance ratios; 10 when not given; `auto`: of least expected error by
    public figures, shown in the plan's advice. With importance_sampling it caps the weights
    of whole trajectories, with per_decision those of steps, and absent means `auto`
    """
    method: NotRequired[
        Literal[
            "auto",
            "importance_sampling",
            "per_decision",
            "moments",
            "minibatch",
            "gradient",
            "constant",
            "dp_lsw",
            "dp_lsl",
        ]
    ]
    """default `auto`"""
    regularization: NotRequired[float | None]
    """
    Ridge of `moments` in units of one trajectory; penalty of `dp_lsl`, absent: the public
    number of trajectories; >= 0, <= 1e+12
    """
    release: NotRequired[str | list[str] | None]
    """
    Instead of `dataset`: one or several jobs whose release is asked again, at price 0. Fields
    that were fixed at the release must equal those of that job
    """
    return_bounds: NotRequired[list[float] | None]
    """
    The least and the most that all rewards of one person add up to, known without the data: 0
    and 1 if somebody is well at the end or not. Noise is in proportion to the range; values
    beyond it count as the nearer end. Absent: what the bounds on a reward allow
    (importance_sampling); length >= 2, length <= 2
    """
    rule_visits: NotRequired[int | None]
    """
    The target policy decides in so many visits from the first on, and people are then treated
    as before; absent: in all of them. Of fewer visits weights are smaller and intervals
    shorter (importance_sampling); >= 1, <= 1000000
    """
    sampling: NotRequired[float | None]
    """Probability with which a trajectory takes part in a step of `minibatch`; > 0, <= 1"""
    source: NotRequired[SourceBlocks | None]
    """Instead of `dataset`: blocks of a source, read and charged together"""
    step_size: NotRequired[float | None]
    """> 0, <= 1e+06"""
    steps: NotRequired[int | None]
    """>= 1, <= 10000000"""
    uncertainty: NotRequired[bool]
    """Whether the result says how far the noise may have moved its numbers; default `true`"""


class OffPolicyEvaluationResult(TypedDict):
    """
    The values of two policies over the people in the data, or a linear value function of the
    target policy.
    """

    behaviour_value: NotRequired[float]
    """
    Value of the policy that was followed, over the people in the data (importance_sampling);
    unit: the unit of rewards
    """
    clipped_difference: NotRequired[Range]
    """The same of the difference (importance_sampling); unit: the unit of rewards"""
    clipped_mass: NotRequired[float]
    """How much of the weights, whose mean is 1, was cut off (importance_sampling)"""
    clipped_value: NotRequired[Range]
    """
    The interval of 90 % of the value of the target policy with clipped weights, which the
    true value may lie outside of; where any may be cut off (importance_sampling); unit: the
    unit of rewards
    """
    combined: NotRequired[Combined]
    """For several releases: what combining them gained"""
    covers: NotRequired[str]
    """What the interval of policy_value covers, as a sentence (importance_sampling)"""
    difference: NotRequired[float]
    """
    policy_value - behaviour_value, for the same people (importance_sampling); unit: the unit
    of rewards
    """
    doubt: NotRequired[str]
    """
    A warning if the mean of the weights is impossible for correct probabilities, with that
    mean (importance_sampling)
    """
    effective_size: NotRequired[float]
    """
    Effective sample size: so many trajectories of equal weight would be as informative
    (importance_sampling)
    """
    estimand: NotRequired[str]
    """What the values are of: which rewards, and in which visits (importance_sampling)"""
    largest_weight: NotRequired[float]
    """The value at which weights of trajectories are clipped (importance_sampling)"""
    policy_value: NotRequired[float]
    """
    Of the target policy: over the people in the data, estimated with clipped weights
    (importance_sampling; its interval is without clips), or the mean of the value function
    over `initial`, where it is given; unit: the unit of rewards
    """
    robust_bounds: NotRequired[Range]
    """
    Bounds on the value of the target policy without clipping, with 90 % confidence, whatever
    was cut off (importance_sampling); unit: the unit of rewards
    """
    tables: list[str]
    """Fields with more than a million numbers: left out here and given as Parquet"""
    target_policy: NotRequired[str]
    """What the target policy does, if the dataset's owner has described it"""
    uncertainty: NotRequired[Uncertainty]
    """How far the noise may have moved the numbers of this result"""
    values: NotRequired[list[float]]
    """The value of each state; only for tabular features; unit: the unit of rewards"""
    weights: NotRequired[list[float]]
    """Theta, one number per feature; unit: the unit of rewards"""


class OperationsAnswer(TypedDict):
    """
    The state of the installation. It names tenants and how long their jobs wait, and says
    nothing else about them.
    """

    at: str
    """date-time"""
    backup: BackupState
    checks: dict[str, str]
    """By name of each check of `/readyz`: `ok`, or the reason why not"""
    keys: str
    """Where keys are kept: `file`, `pkcs11`, `awskms`; the place of new keys first"""
    log: LogState
    processes: list[ProcessState]
    queue: QueueState
    tenants: list[WaitingTenant]
    """Tenants whose jobs wait, longest wait first; 20 at most"""
    versions: Versions


class PlanBody(TypedDict):
    """What a job would do."""

    advice: list[str]
    assumptions: list[str]
    """Holds if: what the guarantee takes for granted"""
    events: list[dict[str, Any]]
    exposure: NotRequired[Exposure | None]
    """What agents can learn about each other from opened sums"""
    iterations: dict[str, int]
    model: NotRequired[list[str]]
    """What the answer takes for granted; the guarantee does not rest on it"""
    neighbours: str
    noise: list[NoiseSummary]
    not_covered: NotRequired[list[str]]
    """What the guarantee says nothing of"""
    parts_by: NotRequired[str | None]
    """
    The release is a sum that several processes may make, each of a part of the content, with
    all records of one `person` (`participant`, `trajectory`, `request`) in one part,
    whichever file they came from: rows are put into parts by a hash of whose they are, before
    anything is clipped. Absent: one process reads the content as a whole
    """
    public_digest: NotRequired[str | None]
    """
    SHA-256, hexadecimal, of the canonical JSON of the dataset's public part that this plan
    was made of, of blocks that of all as one dataset. Absent: it has none
    """
    released_by: NotRequired[list[str]]
    """Jobs that are asked again: their noise is used, and nothing more is released"""
    resources: Resources
    sampled_by: NotRequired[str | None]
    """Such units are drawn, and in memory for the next steps alone"""
    source: NotRequired[PlannedSource | None]
    """The blocks that are read, for a source instead of a dataset"""
    unit: str


class Routing(TypedDict):
    """
    Route the mean demand of a period over a network.

    `counts` releases the trips of every ordered pair of zones over all periods. One request
    moves one count by 1; a person with at most k trips in the whole dataset
    (`max_trips_per_person`; further trips are left out) moves them by k in l1 and in l2,
    since all may be of one pair. With `max_norm_per_person` c they move them by c in l2 at
    most.

    `gradient` (unit request only) releases the unit flows of all pairs after one regularized
    gradient step per period; how far one request moves them is
    `unit_flow_descent.sensitivity`.
    """

    closed_links: NotRequired[list[int]]
    """
    Links that nobody can take, by their positions from 0: the result then says what that
    changes too; length <= 10000, each >= 0, <= 1000000000; default `[]`
    """
    dataset: NotRequired[str | None]
    """Id of a dataset of this kind; otherwise `release` is needed"""
    kind: Literal["routing"]
    latency: NotRequired[AffineLatency | BprLatency]
    """
    How travel times grow with flows, on links of which the network says no b and power
    itself; default `{"factor": 1.0, "type": "affine"}`
    """
    max_norm_per_person: NotRequired[int | None]
    """
    Bound on the l2 norm of a person's trips by pair (500 trips spread over 20 pairs: 112),
    beside max_trips_per_person: further trips are left out, and with a delta there is less
    noise; >= 1, <= 1000000
    """
    max_trips_per_person: NotRequired[int | Literal["auto"] | None]
    """
    Most trips of one person that count, over all periods. `auto`: the dataset's public
    max_person
    """
    method: NotRequired[Literal["auto", "counts", "gradient"]]
    """default `auto`"""
    network: RoadNetwork | str
    """The network, or the id of a stored one"""
    objective: NotRequired[Literal["system_optimum", "user_equilibrium"]]
    """
    system_optimum: ways that make all trips together as short as can be; user_equilibrium:
    each takes the way that is shortest for itself, as people drive; default `system_optimum`
    """
    regularization: NotRequired[float | None]
    """Of method gradient: alpha of its term alpha/2 |x|², in trips times time; > 0, <= 1e+15"""
    relative_gap: NotRequired[float]
    """>= 1e-12, <= 0.01; default `1e-10`"""
    release: NotRequired[str | list[str] | None]
    """
    Instead of `dataset`: one or several jobs whose release is asked again, at price 0. Fields
    that were fixed at the release must equal those of that job
    """
    select_links: NotRequired[list[int]]
    """
    Links, by their positions from 0, of which the result says which pairs' trips use them;
    length <= 100, each >= 0, <= 1000000000; default `[]`
    """
    skims: NotRequired[bool]
    """Whether the result has the travel time of every pair of zones; default `false`"""
    source: NotRequired[SourceBlocks | None]
    """Instead of `dataset`: blocks of a source, read and charged together"""
    uncertainty: NotRequired[bool]
    """Whether the result says how far the noise may have moved its numbers; default `true`"""
    user_classes: NotRequired[list[UserClass]]
    """
    What classes of users weigh and count, of the dataset's public user_classes; one that is
    left out weighs fixed costs by 1 and counts 1 passenger car; length <= 8; default `[]`
    """


class RoutingClassPair(TypedDict):
    """The same of the trips of one class of users."""

    destination: int
    origin: int
    paths: list[RoutingPath]
    user_class: str


class RoutingContent(TypedDict):
    """The private content."""

    trips: list[Trip]


class RoutingDataset(TypedDict):
    """Trips of the users of a network."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    content: RoutingContent
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    kind: Literal["routing"]
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: RoutingPublic
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class RoutingPair(TypedDict):
    """How the trips of one ordered pair of zones are routed."""

    destination: int
    origin: int
    paths: list[RoutingPath]


class RoutingResult(TypedDict):
    """
    The post-processing of released trips or, with the method gradient, of the released
    routing.
    """

    closed: NotRequired[list[str]]
    """The links of `closed_links`, as people call them: nobody can take these"""
    combined: NotRequired[Combined]
    """For several releases: what combining them gained"""
    demand: NotRequired[list[list[float]]]
    """
    Released mean demand of a period, zones by zones; of the method counts; unit: trips a
    period
    """
    demand_by_class: NotRequired[list[list[list[float]]]]
    """Released mean demand of a period of each class, zones by zones; unit: trips a period"""
    iterations: NotRequired[int]
    """Steps that the assignment took"""
    latency_law: NotRequired[str]
    """The law by which travel times grow with flows, as a sentence"""
    link_flow_changes: NotRequired[list[float]]
    """
    What closing adds to the flow of each link, in the order of the request; with
    closed_links; unit: trips a period
    """
    link_flows: NotRequired[list[float]]
    """
    Flow of each link, in the order of the request; of the method counts. Of classes of users
    in passenger cars, by their `pce`; unit: trips a period
    """
    link_flows_by_class: NotRequired[list[list[float]]]
    """
    Trips of each class over each link, one of several divisions of the same flows where ways
    differ by no fixed cost: so it has no interval; unit: trips a period
    """
    policy: NotRequired[list[RoutingPair]]
    """Paths with their shares, for every ordered pair of distinct zones"""
    policy_by_class: NotRequired[list[RoutingClassPair]]
    """
    The same of each class of users for itself, where trips have classes: `policy` is of the
    trips of all then
    """
    relative_gap: NotRequired[float]
    """Upper bound on how far the assignment is above its minimum"""
    select_link: NotRequired[list[RoutingSelected]]
    """
    Which pairs' trips use the links of `select_links`; intervals: the true trips on this
    policy
    """
    select_link_by_class: NotRequired[list[RoutingClassSelected]]
    """The same of each class of users, in the place of `select_link` where trips have classes"""
    skims: NotRequired[list[list[float]]]
    """
    Travel time of a trip of each pair, in the mean of its paths at the released flows, fixed
    costs among it; intervals: where the true trips follow this policy; unit: the unit of
    free_flow_time
    """
    skims_by_class: NotRequired[list[list[list[float]]]]
    """
    The same of each class of users, with its own weight of fixed costs, in the place of
    `skims` where trips have classes; unit: the unit of free_flow_time
    """
    status: NotRequired[Literal["converged", "iteration_limit"]]
    """Whether the assignment reached the gap that was asked for"""
    tables: list[str]
    """Fields with more than a million numbers: left out here and given as Parquet"""
    total_travel_time: NotRequired[float]
    """
    Of the released demand, fixed costs of links among it, by each class's own weight; of the
    method counts; unit: trips a period times the unit of free_flow_time
    """
    total_travel_time_change: NotRequired[float]
    """
    What closing adds to the total travel time of the same released demand on all roads; with
    closed_links; unit: trips a period times the unit of free_flow_time
    """
    true_best_total_travel_time: NotRequired[float]
    """
    Cost of the best policy for the true mean demand; only for simulations; unit: trips a
    period times the unit of free_flow_time
    """
    true_total_travel_time: NotRequired[float]
    """
    Cost of the policy for the true mean demand; only for simulations; unit: trips a period
    times the unit of free_flow_time
    """
    uncertainty: NotRequired[Uncertainty]
    """How far the noise may have moved the numbers of this result"""
    undetermined_links: NotRequired[list[int]]
    """
    Positions of links whose flow the model does not determine, from 0: they cost the same at
    any flow and others are as good, so that optimal assignments differ there. Such flows have
    no interval; the total travel time is the same in all
    """
    unit_flows: NotRequired[list[list[float]]]
    """Share of each pair's trips at each link; of the method gradient"""
    user_classes: NotRequired[list[str]]
    """The classes of users, in the order of what is told by class; where trips have some"""


class SessionAnswer(TypedDict):
    """The session of a federated job."""

    agents: list[SessionAgentAnswer]
    approve_by: str | None
    """When the session stops waiting for the signed roster; null if it does not wait; date-time"""
    approved_at: str | None
    """date-time"""
    error: JobError | None
    """Why it failed, and what was charged"""
    id: str
    job: str
    kind: str
    opened_before: OpenedBefore
    """Of the enrolled agent of whom most was opened without noise in other jobs"""
    owner: str | None
    parameters: dict[str, Any] | None
    """What the owner signs with the roster besides the agents"""
    roster: str | None
    round: int
    """Completed rounds"""
    state: Literal[
        "queued", "awaiting_agents", "waiting", "running", "succeeded", "failed", "cancelled"
    ]
    terms: dict[str, Any]
    tokens: dict[str, int]


class SourceAnswer(TypedDict):
    """A source: data that keep arriving, in blocks. Only its public part may be corrected."""

    account: str | None
    """The account of all blocks, with `cap_of: source`"""
    block_bytes: int
    """The most that the content of a block takes in memory"""
    blocks: NotRequired[list[SourceBlock] | None]
    """In their order; not in lists"""
    by: Literal["day", "month", "label"]
    cap: Figures
    """The cap that a new account begins with"""
    cap_of: Literal["block", "source"]
    created_at: str
    """date-time"""
    created_by: str
    id: str
    kind: str
    mode: Literal["private", "simulation"]
    name: str
    public: dict[str, Any]
    """The public part of each block"""
    retention_days: int | None
    revision: NotRequired[int]
    """1, and one more with each correction of its public part; default `1`"""
    rule: NotRequired[RuleAnswer | None]
    """Who may spend which share; null if whoever comes first may spend. Not in lists"""


class SourcePage(TypedDict):
    """A page of sources, newest first."""

    next_page_token: str | None
    sources: list[SourceAnswer]


class SourceRequest(TypedDict):
    """A source to make: data that will come in blocks."""

    block_bytes: NotRequired[int | None]
    """
    The most memory that the content of a block takes, chosen without looking at the data. A
    job reads as many blocks as together fit into the limit of one content. Absent: 1/32 of
    that limit; >= 1024
    """
    by: Literal["day", "month", "label"]
    """
    Which records a block has: those of a day (`2026-10-01`) or month (`2026-10`), by the
    column `date` of every record, which is checked; or those to which the owner gives a label
    """
    cap: Cap
    """The most that may be spent on each block, or on the whole source with `cap_of: source`"""
    cap_of: NotRequired[Literal["block", "source"]]
    """
    `block`: each block has an account, and a job is charged to every block it reads.
    `source`: all blocks have one account, to which each job is charged once; default `block`
    """
    kind: str
    """Kind of problem, the same as for a dataset; length <= 100"""
    mode: NotRequired[Literal["private", "simulation"]]
    """Mode of all blocks; default `private`"""
    name: str
    """Unique among the tenant's sources; length >= 1, length <= 200"""
    public: dict[str, Any]
    """The public part of each block, the same as for a dataset of this kind"""
    retention_days: NotRequired[int | None]
    """
    The content of each version is erased after so many days; absent: the installation's
    setting applies; >= 1, <= 36500
    """
    rule: NotRequired[SourceRule | None]
    """
    Who may spend which share of each block; `PUT /v1/sources/{id}/rule` changes it. Absent:
    whoever comes first may spend
    """


class CancelAnswer(TypedDict):
    """A job after a request to cancel it, and the outcome."""

    cancel: Literal["done", "requested", "too_late"]
    """
    `done`: the job is cancelled. `requested`: the process that runs it stops it, within about
    a second if it is alive, and the job ends as cancelled. `too_late`: its release is stored
    and paid for, so it goes on
    """
    cancel_requested: NotRequired[bool]
    """Its cancellation was requested, and it is being stopped; default `false`"""
    charge: Literal["none", "full", "undecided"]
    """
    What the job then costs. `undecided`, for sessions only: the full price if an agent's
    message arrives first
    """
    created_at: str
    """date-time"""
    created_by: str
    dataset: str | None
    dataset_name: NotRequired[str | None]
    detail: str
    """Both fields as a sentence"""
    error: NotRequired[JobError | None]
    finished_at: str | None
    """date-time"""
    headline: NotRequired[str | None]
    """
    Its answer in a sentence, with its interval; only for those who may read answers, and null
    for jobs of versions without such sentences
    """
    id: str
    kind: str
    mostly_noise: NotRequired[bool]
    """True if its answer is mostly noise; only for those who may read answers; default `false`"""
    name: NotRequired[str | None]
    """The name its sender gave it"""
    plan: NotRequired[PlanBody | None]
    """The plan; only when the job is looked up by its id"""
    price: Price
    problem: NotRequired[dict[str, Any] | None]
    """The problem with every default; only when the job is looked up by its id"""
    progress: JobProgress
    release: NotRequired[list[str] | None]
    """Jobs whose release it asks again, at price 0"""
    result_gone_at: NotRequired[str | None]
    """
    When its result, release and events were deleted, at the end of the operator's retention
    period; date-time
    """
    reusable: NotRequired[list[str]]
    """
    At most ten jobs that have already released what is asked, least noise first: name one in
    `problem.release` instead of the dataset, and the answer costs nothing; only when a job
    was just accepted
    """
    simulation: NotRequired[bool]
    """
    True if its data are public or synthetic: nothing is charged, whatever its price; default
    `false`
    """
    started_at: str | None
    """date-time"""
    state: Literal[
        "queued", "awaiting_agents", "waiting", "running", "succeeded", "failed", "cancelled"
    ]
    waiting: NotRequired[JobWaits | None]
    """Only for a job that waits for budget: nothing is reserved for it"""


class DrEnsembleDataset(TypedDict):
    """Trajectories of loads through the states of an ensemble, or their transition matrix."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    content: DrEnsembleContent
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    kind: Literal["dr_ensemble"]
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: DrEnsemblePublic
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class JobAnswer(TypedDict):
    """A job."""

    cancel_requested: NotRequired[bool]
    """Its cancellation was requested, and it is being stopped; default `false`"""
    created_at: str
    """date-time"""
    created_by: str
    dataset: str | None
    dataset_name: NotRequired[str | None]
    error: NotRequired[JobError | None]
    finished_at: str | None
    """date-time"""
    headline: NotRequired[str | None]
    """
    Its answer in a sentence, with its interval; only for those who may read answers, and null
    for jobs of versions without such sentences
    """
    id: str
    kind: str
    mostly_noise: NotRequired[bool]
    """True if its answer is mostly noise; only for those who may read answers; default `false`"""
    name: NotRequired[str | None]
    """The name its sender gave it"""
    plan: NotRequired[PlanBody | None]
    """The plan; only when the job is looked up by its id"""
    price: Price
    problem: NotRequired[dict[str, Any] | None]
    """The problem with every default; only when the job is looked up by its id"""
    progress: JobProgress
    release: NotRequired[list[str] | None]
    """Jobs whose release it asks again, at price 0"""
    result_gone_at: NotRequired[str | None]
    """
    When its result, release and events were deleted, at the end of the operator's retention
    period; date-time
    """
    reusable: NotRequired[list[str]]
    """
    At most ten jobs that have already released what is asked, least noise first: name one in
    `problem.release` instead of the dataset, and the answer costs nothing; only when a job
    was just accepted
    """
    simulation: NotRequired[bool]
    """
    True if its data are public or synthetic: nothing is charged, whatever its price; default
    `false`
    """
    started_at: str | None
    """date-time"""
    state: Literal[
        "queued", "awaiting_agents", "waiting", "running", "succeeded", "failed", "cancelled"
    ]
    waiting: NotRequired[JobWaits | None]
    """Only for a job that waits for budget: nothing is reserved for it"""


class JobPage(TypedDict):
    """A page of jobs, newest first."""

    jobs: list[JobAnswer]
    next_page_token: str | None


class JobRequest(TypedDict):
    """A problem with the privacy that may be spent on it."""

    name: NotRequired[str | None]
    """Your name for it, in lists and on its page; length >= 1, length <= 200"""
    privacy: NotRequired[Privacy | None]
    """The budget; required unless the guarantee is cryptographic, and left out then"""
    problem: Routing | DrEnsemble | OffPolicyEvaluation | MultiAgent | CoupledQp
    seed: NotRequired[int | None]
    """For datasets of mode simulation only; >= 0, <= 9007199254740991"""
    wait: NotRequired[float | None]
    """
    Days that it may wait for budget, on blocks of a source with a rule: 3 if absent, at most
    30; with 0 it is accepted or refused at once, as jobs on other data are; >= 0, <= 30
    """


class MultiAgentDataset(TypedDict):
    """Objectives and initial states of agents, for a problem that runs in one process."""

    accept_doubts: NotRequired[bool]
    """
    Register the content although a check finds that it cannot be right, such as behaviour
    probabilities whose weights have a mean far from 1. It is not kept, and nobody else is
    told; default `false`
    """
    account: NotRequired[str | None]
    """Account of another dataset about the same people; both are then charged there"""
    already_read: NotRequired[bool]
    """
    The content is what `public.reader` and `public.columns` have made of a table where it
    lies, with the columns of its kind: they are stored, and not applied again; default
    `false`
    """
    cap: NotRequired[Cap | None]
    """Needed unless `account` is given"""
    content: MultiAgentContent
    delete_after_job: NotRequired[bool]
    """The content is erased after the first job that succeeds on it; default `false`"""
    kind: Literal["multi_agent"]
    mode: NotRequired[Literal["private", "simulation"]]
    """`simulation` declares the content public; default `private`"""
    name: str
    """length >= 1, length <= 200"""
    public: MultiAgentPublic
    retention_days: NotRequired[int | None]
    """
    The content is erased after so many days; absent: the installation's setting applies; >=
    1, <= 36500
    """


class PlanAnswer(TypedDict):
    """A plan and its price; nothing is spent."""

    admitted: bool
    asked_again: NotRequired[list[str] | None]
    """
    Fields of the problem that may differ when the release is asked again, at price 0; empty
    if none may; null if the job releases nothing about a dataset
    """
    binding: NotRequired[Binding | None]
    plan: PlanBody
    price: Price
    privacy: NotRequired[Figures | None]
    """
    The budget in figures, if the request gave it otherwise (preset, `auto`, accuracy): a job
    with these figures has the same plan
    """
    reusable: NotRequired[list[str]]
    """
    At most ten jobs that have already released what is asked, least noise first: name one in
    `problem.release` instead of the dataset, and the answer costs nothing
    """
    reusable_noise: NotRequired[list[str]]
    """Those of `reusable` whose own answers are mostly noise"""
    until_spent: NotRequired[UntilSpent | None]
    """For an admitted job on blocks of a source, if fewer than 1000 such jobs fit"""
    waits: NotRequired[JobWaits | None]
    """
    If it would not be granted at once: that it would wait or, with `admitted` false, that it
    would be refused because its shares would not suffice in time
    """


class RehearsalRequest(TypedDict):
    """A problem to run on synthetic data: the body of a job, and how it is to be rehearsed."""

    around: NotRequired[str | None]
    """
    A job of this kind that has a release: the synthetic data are then made from that release
    instead of public figures only; length >= 1, length <= 64
    """
    epsilons: NotRequired[list[float]]
    """
    The ladder; length >= 1, length <= 8, each > 0, <= 1000; default `["0.1", "0.3", "1",
    "3"]`
    """
    name: NotRequired[str | None]
    """Your name for it; absent: named after the rehearsed kind; length >= 1, length <= 200"""
    privacy: NotRequired[Privacy | None]
    """Only its `delta` is used, for all epsilons"""
    problem: Routing | DrEnsemble | OffPolicyEvaluation | MultiAgent | CoupledQp
    public: NotRequired[dict[str, Any] | None]
    """The public part that a dataset would have; absent: that of the problem's dataset"""
    seed: NotRequired[int]
    """Seed of the data and the noise; >= 0, <= 9007199254740991; default `0`"""
    units: NotRequired[int | None]
    """
    Number of privacy units in the synthetic data; absent: the public number, or the kind's
    default; >= 1, <= 1000000000
    """


class ResultAnswer(TypedDict):
    """A job's result and the certificate of its privacy loss."""

    certificate: dict[str, Any]
    job: JobAnswer
    result: dict[str, Any]
    """Fields by name: those that `Results` names for the job's kind"""


class Results(TypedDict):
    """The fields of a result, by the kind of its problem."""

    coupled_qp: CoupledQpResult
    dr_ensemble: DrEnsembleResult
    multi_agent: MultiAgentResult
    off_policy_evaluation: OffPolicyEvaluationResult
    routing: RoutingResult


DatasetRequest: TypeAlias = (
    RoutingDataset | DrEnsembleDataset | OffPolicyDataset | MultiAgentDataset
)
"""A dataset to register."""
