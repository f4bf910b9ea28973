"""What may be asked of the service, validated: the same for the API, the pages and `discreet
solve`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import Field, RootModel, StringConstraints, model_validator

from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems import AnyDataset, AnyProblem
from discreet.problems.datasets import (
    AcceptDoubts,
    AlreadyRead,
    Cap,
    DatasetSettings,
    DraftId,
    Name,
)
from discreet.problems.numbers import Epsilon, Flag, Frozen, Positive, Privacy, Seen
from discreet.problems.rehearsals.job import LADDER, MOST_STEPS
from discreet.problems.reuse import JobId
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.sources import BlockName, SourceRule, SourceSettings
from discreet.storage.jobs import WebhookEvent

MOST_WAIT_DAYS = 30
Role = Literal["operator", "owner", "analyst", "auditor"]


Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class DatasetRequest(RootModel[AnyDataset]):
    """A dataset to register."""


Where = Annotated[
    str,
    StringConstraints(min_length=1, max_length=8000, strip_whitespace=True),
    Field(
        description="`file:///…`, `https://…` or `s3://bucket/…`: one Parquet, CSV or JSON file, "
        "or a pattern with `*` that matches several Parquet files with equal columns. "
        "`postgresql://host/database?query=…`: the rows of one SELECT, percent-encoded; or "
        "`?named=…` instead, a query that the operator wrote"
    ),
]


Stays = Annotated[
    Flag,
    Field(
        description="The content stays there and is not stored: each job fetches it again, and "
        "fails, uncharged, unless it is unchanged"
    ),
]


class PlacedDatasetRequest(DatasetSettings):
    """A dataset to register whose content lies somewhere that the operator allows
    (`DISCREET_CONTENT_PLACES`)."""

    kind: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    public: dict[str, Any] = Field(
        description="The same as for a dataset of this kind whose content is sent"
    )
    content_from: Where
    content_stays: Stays = False


class DraftDatasetRequest(DatasetSettings):
    """A dataset to register whose file is here already (`POST /v1/reads`)."""

    kind: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    public: dict[str, Any] = Field(
        description="The same as for a dataset of this kind whose content is sent"
    )
    draft: DraftId


class ReadRequest(Frozen):
    """A file to look at before anything is registered."""

    kind: Annotated[str, StringConstraints(min_length=1, max_length=100)] = Field(
        description="The kind of problem that the data are for"
    )
    public: dict[str, Any] = Field(
        default_factory=dict,
        description="What is known of the public part until now, with `reader` and `columns`",
    )
    format: Literal["csv", "parquet", "json", "xlsx", "omx"] | None = Field(
        default=None, description="Of the file; absent: as its name or media type says"
    )
    draft: DraftId | None = None


class CorrectionRequest(Frozen):
    """What is different in the public part of a dataset, and its content, where that is read
    again."""

    public: dict[str, Any] = Field(
        default_factory=dict,
        description="Fields with their new values (JSON Merge Patch, RFC 7396: null takes a field "
        "away); all others stay. `unit` stays",
    )
    content: dict[str, Any] | None = Field(
        default=None,
        description="The content again, where a field differs that decides how rows are read; "
        "absent: the stored one is checked anew, or that at its place is read again",
        json_schema_extra={"x-private": True},
    )
    content_from: Where | None = None
    content_stays: Stays = False
    draft: DraftId | None = None
    already_read: AlreadyRead = False

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = {name: getattr(self, name) for name in ("content", "content_from", "draft")}
        if len(given := [name for name, one in ways.items() if one is not None]) > 1:
            says = "give either the content itself, its address or a draft"
            raise FieldError(given[1], says)
        if self.content_stays and self.content_from is None:
            raise FieldError("content_stays", "goes with content_from")
        return self


class SourceCorrection(Frozen):
    """What is different in the public part of a source."""

    public: dict[str, Any] = Field(
        description="Fields with their new values (JSON Merge Patch, RFC 7396: null takes a field "
        "away); all others stay. `unit` stays"
    )


class NetworkRequest(Frozen):
    """A road network to store: what jobs of kind routing may name instead of holding it."""

    name: Name
    network: RoadNetwork
    zones: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Number of zones, which are the first of its nodes, if its files tell it. "
        "Lists show it, and pages begin a dataset with it; datasets say their own",
    )

    @model_validator(mode="after")
    def _zones_are_nodes(self) -> Self:
        if self.zones is not None and self.zones > self.network.nodes:
            says = f"{self.zones} zones, and the network has {self.network.nodes} nodes"
            raise FieldError("zones", says)
        return self

    @property
    def known(self) -> dict[str, int]:
        """Figures beside the network's own."""
        return {} if self.zones is None else {"zones": self.zones}


class SourceRequest(SourceSettings):
    """A source to make: data that will come in blocks."""

    kind: Annotated[str, StringConstraints(max_length=100)] = Field(
        description="Kind of problem, the same as for a dataset"
    )
    public: dict[str, Any] = Field(
        description="The public part of each block, the same as for a dataset of this kind"
    )
    rule: SourceRule | None = Field(
        default=None,
        description="Who may spend which share of each block; `PUT /v1/sources/{id}/rule` changes "
        "it. Absent: whoever comes first may spend",
    )


class BlockNames(Frozen):
    """What of a source's rules may hold names, and is not stored: it comes with each block."""

    zones: list[str] | dict[str, int] | None = None
    except_: list[str] | None = Field(default=None, alias="except")


class BlockRequest(Frozen):
    """A block of a source, or a later version of one."""

    block: BlockName = Field(description="Its day, month or label")
    content: dict[str, Any] = Field(
        description="The same as for a dataset of the source's kind; records of a day or month "
        "have a `date` besides their fields; `{}` for a block without records",
        json_schema_extra={"x-private": True},
    )
    accept_doubts: AcceptDoubts = False
    already_read: AlreadyRead = False
    reader: BlockNames | None = None


class PlacedBlockRequest(Frozen):
    """A block of a source whose content lies somewhere that the operator allows
    (`DISCREET_CONTENT_PLACES`)."""

    block: BlockName = Field(description="Its day, month or label")
    content_from: Where
    content_stays: Stays = False
    accept_doubts: AcceptDoubts = False
    reader: BlockNames | None = None


class DraftBlockRequest(Frozen):
    """A block of a source whose file is here already (`POST /v1/reads`)."""

    block: BlockName = Field(description="Its day, month or label")
    draft: DraftId
    accept_doubts: AcceptDoubts = False
    reader: BlockNames | None = None


Wait = Annotated[float, Field(ge=0, le=MOST_WAIT_DAYS)]


class JobRequest(Frozen):
    """A problem with the privacy that may be spent on it."""

    problem: AnyProblem
    privacy: Privacy | None = Field(
        default=None,
        description="The budget; required unless the guarantee is cryptographic, and left out then",
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)] | None = Field(
        default=None, description="For datasets of mode simulation only"
    )
    name: Name | None = Field(
        default=None, description="Your name for it, in lists and on its page"
    )
    wait: Wait | None = Field(
        default=None,
        description="Days that it may wait for budget, on blocks of a source with a rule: 3 if "
        "absent, at most 30; with 0 it is accepted or refused at once, as jobs on other data are",
    )


class RehearsalRequest(Frozen):
    """A problem to run on synthetic data: the body of a job, and how it is to be rehearsed."""

    problem: AnyProblem
    public: dict[str, Any] | None = Field(
        default=None,
        description="The public part that a dataset would have; absent: that of the problem's "
        "dataset",
    )
    privacy: Privacy | None = Field(
        default=None, description="Only its `delta` is used, for all epsilons"
    )
    epsilons: Annotated[tuple[Epsilon, ...], Field(min_length=1, max_length=MOST_STEPS)] = Field(
        default=LADDER, description="The ladder"
    )
    units: Positive | None = Field(
        default=None,
        description="Number of privacy units in the synthetic data; absent: the public number, or "
        "the kind's default",
    )
    around: JobId | None = Field(
        default=None,
        description="A job of this kind that has a release: the synthetic data are then made from "
        "that release instead of public figures only",
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=2**53 - 1)] = Field(
        default=0, description="Seed of the data and the noise"
    )
    name: Name | None = Field(
        default=None, description="Your name for it; absent: named after the rehearsed kind"
    )


RequestId = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class GrantRequest(Frozen):
    """A new cap."""

    cap: Cap
    reason: Annotated[
        str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True), Seen
    ]
    request: RequestId | None = Field(
        default=None,
        description="The request that this grant answers; the ledger's reason then names who "
        "asked and why",
    )


class BudgetRequestRequest(Frozen):
    """More of a budget, for a reason: asked of an owner."""

    more: Cap = Field(description="How much the cap should be raised by")
    reason: Annotated[
        str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True), Seen
    ]


class DeclineRequest(Frozen):
    """An owner's answer to a request that is not granted."""

    answer: Annotated[
        str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True), Seen
    ]


class CapRequest(Frozen):
    """A cap over all data of the tenant, for everybody or for one principal."""

    scope: Literal["tenant", "principal"]
    principal: Name | None = Field(
        default=None,
        description="Whose cap it is, with scope `principal`; it outlives the principal's keys",
    )
    cap: Cap
    reason: Annotated[
        str, StringConstraints(min_length=1, max_length=1000, strip_whitespace=True), Seen
    ]


class CertificateRequest(Frozen):
    """A certificate to check, alone or with the result that it shall bind."""

    certificate: dict[str, Any]
    result: dict[str, Any] | None = Field(
        default=None, description="The result as `GET /v1/jobs/{id}/result` returned it"
    )
    tables: dict[str, Digest] = Field(
        default_factory=dict,
        max_length=1000,
        description="SHA-256 of its Parquet files by name, hexadecimal",
    )


class TenantRequest(Frozen):
    """A tenant to make."""

    name: Name


class KeyRequest(Frozen):
    """An API key to make."""

    role: Role
    principal: Name
    tenant: Name | None = Field(default=None, description="Operators only: the tenant's name or id")
    expires_at: datetime | None = Field(
        default=None,
        description="RFC 3339 with an offset; in the future, less than ten years away",
    )


class PersonRequest(Frozen):
    """Whether a person of an identity provider may come in."""

    subject: Annotated[str, StringConstraints(min_length=1, max_length=255)] = Field(
        description="The provider's identifier for the person: `sub` of their tokens"
    )
    active: bool = Field(strict=True, description="false: remove them; true: let them in again")
    keep_keys: bool = Field(
        default=False,
        strict=True,
        description="On removal, keep the API keys that they have made",
    )
    issuer: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="The provider; absent: the configured one (DISCREET_OIDC_ISSUER)"
    )


class WebhookRequest(Frozen):
    """An address to tell of events."""

    url: Annotated[str, StringConstraints(min_length=9, max_length=2000)] = Field(
        description="https://…"
    )
    events: Annotated[list[WebhookEvent], InPieces(min_length=1, max_length=20)]
    secret: Annotated[str, StringConstraints(max_length=100)] | None = Field(
        default=None,
        description="`whsec_` and 24 to 64 bytes in base64; made and shown once when absent",
        json_schema_extra={"writeOnly": True},
    )


Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class SessionTokensRequest(Frozen):
    """Agents to invite to a federated job."""

    owner: Fingerprint = Field(
        description="SHA-256 of the Ed25519 public key that will sign the roster; every link "
        "pins it"
    )
    count: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    names: Annotated[list[Name], InPieces(min_length=1, max_length=1000)] | None = Field(
        default=None,
        description="One link for each name, which only an agent of that name can use; instead "
        "of `count`",
    )
    group: Name | None = Field(
        default=None, description="A standing group instead: its members need no token"
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.names is not None and (self.group is not None or "count" in self.model_fields_set):
            raise FieldError(
                "names", "each name gets one link: give neither `count` nor `group` with names"
            )
        for place, name in enumerate(self.names or ()):
            if not name.isprintable():
                raise FieldError(
                    f"names/{place}",
                    "a name has printable characters: people compare it in a terminal",
                )
        if self.names is not None and len(set(self.names)) < len(self.names):
            raise FieldError("names", "names differ from each other")
        return self


class SessionAgainRequest(Frozen):
    """Which agents a job that has failed is started again without."""

    without: tuple[Annotated[str, Field(pattern="^[0-9a-f]{64}$")], ...] | None = Field(
        default=None,
        max_length=1000,
        description="Fingerprints; by default the agents whom the error names",
    )


class RosterRequest(Frozen):
    """Who takes part, signed by the owner's key, which the server never holds."""

    roster: Annotated[str, StringConstraints(max_length=1 << 22)] = Field(
        description="JSON text, exactly as signed"
    )
    signature: Annotated[str, StringConstraints(max_length=100)] = Field(
        description="Ed25519, base64"
    )
    owner_key: Annotated[str, StringConstraints(max_length=100)] = Field(
        description="32 bytes in base64"
    )
    save_as: Name | None = Field(
        default=None, description="Keep these agents as a standing group with this name"
    )
