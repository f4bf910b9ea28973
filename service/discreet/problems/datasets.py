"""The contract of a kind's datasets: what is published of them, and how their private content is
read."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, StringConstraints

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.contents import PRIVATE, Content, Mode, Packed, UnitRows
from discreet.problems.numbers import Delta, Epsilon, Flag, Frozen, Seen


def _registered(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError(
            "the id of a registered dataset is needed; POST /v1/datasets registers one and "
            "returns its id"
        )
    return value


DatasetId = Annotated[str, BeforeValidator(_registered)]


class Cap(Frozen):
    """The most that may be spent on an account."""

    epsilon: Epsilon
    delta: Delta = Field(default=Decimal(0))


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), Seen]


AcceptDoubts = Annotated[
    Flag,
    Field(
        description="Register the content although a check finds that it cannot be right, such as "
        "behaviour probabilities whose weights have a mean far from 1. It is not kept, and nobody "
        "else is told"
    ),
]


AlreadyRead = Annotated[
    Flag,
    Field(
        description="The content is what `public.reader` and `public.columns` have made of a table "
        "where it lies, with the columns of its kind: they are stored, and not applied again"
    ),
]
DraftId = Annotated[
    str,
    StringConstraints(pattern=r"^read_[0-9A-Za-z]{1,60}$"),
    Field(description="Instead of a content: a file of `POST /v1/reads`"),
]


class DatasetSettings(Frozen):
    """What accompanies the content of a dataset that is registered."""

    name: Name
    cap: Cap | None = Field(default=None, description="Needed unless `account` is given")
    mode: Mode = Field(default="private", description="`simulation` declares the content public")
    account: str | None = Field(
        default=None,
        description="Account of another dataset about the same people; both are then charged there",
    )
    retention_days: Annotated[int, Field(strict=True, ge=1, le=36500)] | None = Field(
        default=None,
        description="The content is erased after so many days; absent: the installation's "
        "setting applies",
    )
    delete_after_job: Flag = Field(
        default=False, description="The content is erased after the first job that succeeds on it"
    )
    accept_doubts: AcceptDoubts = False
    already_read: AlreadyRead = False


@dataclass(frozen=True)
class Column:
    """A column that the reader of tables knows, for a page on which somebody says which column of
    a file it is."""

    name: str
    says: str
    """What a value means, in a few words."""
    needed: bool = True
    times: bool = False
    """Whether a file may say it in two columns, a day and its time of day."""
    apart: bool = False
    """Whether it is of files of another shape than the usual one."""


@dataclass(frozen=True)
class ReaderRule:
    """A rule of the reader of tables, `public.reader`, as a page asks for it."""

    name: str
    asks: str
    sort: Literal["text", "number", "choice", "lines", "figures", "policy", "zones"] = "text"
    """A `choice` is of `choices`; `lines` are a list of texts; `figures` are texts with a number
    each; a `policy` is those, or a rule on features; `zones` are a network or a list of names."""
    choices: Sequence[tuple[Any, str]] = ()
    """Values in words; None is the rule's absence."""
    says: str = ""


LEFT_OUT = ((None, "is refused"), ("leave_out", "is left out"))
TIME_ZONE = ReaderRule(
    "time_zone", "Time zone of times that say none", says="A place’s, such as Europe/Berlin."
)


class Dataset(DatasetSettings):
    """A dataset of one kind to register: `public` is published, `content` never leaves except by a
    mechanism."""

    ROW_BYTES: ClassVar[int] = 0
    """Fewest bytes of content that a row of an uploaded table becomes: what has too many rows is
    refused unread."""

    RECORDS: ClassVar[str] = ""
    """The array of a content that says where the rows of each unit begin, `start[units + 1]`, if
    the content has it; otherwise each row is a unit. All other arrays have a row in each entry of
    their first axis. Only of kinds with releases that are sums over parts."""

    OWNER: ClassVar[str] = ""
    """The column of an uploaded table that says whose a row is. In CSV it is text, or Arrow would
    make people whose numbers have more digits than a float one person."""

    ROWS: ClassVar[Mapping[str, Any]] = {}
    """Arrays of a JSON content that are read in pieces, by name with the type of an item: see
    `DatasetOfRows`."""

    USUAL: ClassVar[tuple[str, ...]] = ()
    """Public fields that need not be given and mostly are: forms show them first."""

    MADE_UP: ClassVar[tuple[str, ...]] = ()
    """Public fields of the kind's example that a form for own data leaves empty: they are of the
    example's making, need not be said, and left standing they would ask a file for what it has
    not."""

    ASSUMES: ClassVar[str] = ""
    """What must be true of any content, and cannot be seen in it: said before it is registered."""

    FIGURES: ClassVar[frozenset[str]] = frozenset()
    """Public fields that bound what the content may be, or say what it means, and make nothing else
    of a row: where only these are corrected the stored content is checked anew, and stays as it is.
    All others decide how rows are read, here or by the reader of whoever sent them."""

    LATER: ClassVar[Mapping[str, str]] = {}
    """Public fields that need not be declared, and that questions need later: what each buys, in
    words that follow a colon."""

    kind: str
    public: Any
    content: Any = Field(json_schema_extra=PRIVATE)

    @classmethod
    def read_public(cls, public: Any) -> Any:
        """The public part as its model; pydantic's ValidationError when it is not valid."""
        model: Any = cls.model_fields["public"].annotation
        return model.model_validate(public)

    @classmethod
    @abstractmethod
    def read_rows(cls, public: Any, content: Any) -> Content:
        """Canonical content from the validated `content` of a JSON body. InvalidInput with pointers
        below /content."""

    @classmethod
    @abstractmethod
    def read_table(cls, public: Any, table: pa.Table) -> Content:
        """Canonical content from an uploaded table. InvalidInput naming column and row."""

    @classmethod
    def read_batches(
        cls, public: Any, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> Content:
        """Canonical content from an uploaded table that comes in batches.

        Here the table is put together first; a kind whose canonical form sums rows can do with less
        memory.
        """
        return cls.read_table(public, pa.Table.from_batches(batches, schema))

    @classmethod
    def by_units(cls, public: Any, schema: pa.Schema) -> UnitRows | None:
        """How the rows of a table that does not fit memory are read, with all rows of one unit in
        one part; None where the kind cannot do that with such a table, which is then read at once.

        The content is that of `read_table`, byte for byte.
        """
        return None

    @classmethod
    def columns(cls, public: Any) -> Sequence[Column]:
        """The columns that the reader of tables knows for this public part."""
        return ()

    @classmethod
    def reader_rules(cls, public: Any) -> Sequence[ReaderRule]:
        """The reader's rules of this kind's own."""
        return ()

    @classmethod
    def other_files(cls, public: Any) -> str:
        """What to do with a file of another shape, as people of the field have them; empty where
        there is no advice."""
        return ""

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        """Public parts, each with the columns of a small table of such content: one for every form
        that uploads have.

        They are read before a reader's rights go, so that nothing has to be loaded or compiled
        afterwards.
        """
        return ()

    @classmethod
    def sample_files(cls) -> Iterable[tuple[dict[str, Any], str, Any]]:
        """Public parts with a description, forms, and small files of them, right and wrong: bytes,
        or rows of JSON and Parquet (objects), rows of a sheet, of a matrix of zones 7 and 9. They
        are read at the same time."""
        return ()

    @classmethod
    def sample_contents(cls) -> Iterable[dict[str, Any]]:
        """`{public, content}` of JSON contents of other forms than the example has, read at the
        same time."""
        return ()

    @classmethod
    def describe(cls, public: Any, content: Content) -> Any:
        """The public part, completed by what the form of the content says: which columns there are,
        never a value."""
        return public

    @classmethod
    def doubt_sums(cls, public: Any, content: Content) -> NDArray[np.float64] | None:
        """Sums over the units of a content, or of a part of one, by which `doubts` judges the
        whole; None where there is nothing to be judged."""
        return None

    @classmethod
    def doubts(cls, sums: NDArray[np.float64]) -> list[FieldIssue]:
        """Why the content cannot be right, for its owner alone, though each value may be."""
        return []

    @classmethod
    def require_plausible(cls, sums: NDArray[np.float64] | None) -> None:
        """InvalidInput for a content that cannot be right."""
        if sums is not None and (issues := cls.doubts(sums)):
            raise InvalidInput(issues)

    @classmethod
    def sizes(cls, public: Any, content: Content) -> Mapping[str, tuple[int, int]]:
        """What the time of a release depends on, beside public figures: how much of it there is in
        the content, and the most that there may be, by the public field that declares the latter.
        Plans take the time of the most."""
        return {}

    @classmethod
    def most_bytes(cls, public: Any) -> int | None:
        """The most memory that a content takes by the bounds that its public part declares; None
        where it declares none."""
        return None

    @classmethod
    def check_sizes(cls, public: Any, content: Content, mode: Mode) -> None:
        """InvalidInput where the content is larger than what is declared or, while it is private,
        than what may be without a declaration: releases on it would take longer than others, and so
        tell how much there is."""
        issues = []
        for name, (found, most) in cls.sizes(public, content).items():
            declared = getattr(public, name) is not None
            if found > most and (declared or mode == "private"):
                says = (
                    f"the content has {found}"
                    if declared
                    else f"the content has {found}, and without this public bound at most {most} "
                    "are taken: declare a bound that you would have chosen without looking at the "
                    "data; every job takes the time of it"
                )
                issues.append(FieldIssue(f"/public/{name}", says))
        if issues:
            raise InvalidInput(issues)

    @classmethod
    def undeclared(cls, public: Mapping[str, Any]) -> dict[str, str]:
        """Those of `LATER` that a public part, as it is published, does not declare."""
        return {name: buys for name, buys in cls.LATER.items() if public.get(name) is None}

    @classmethod
    def check_again(cls, public: Any, content: Content) -> None:
        """InvalidInput where a canonical content is none of this public part, which differs in
        `FIGURES` alone from that by which it was read."""

    @classmethod
    def most_units(cls, public: Any) -> int | None:
        """The number of units in the content, or an upper bound, from public figures; None if
        none gives it."""
        return None

    @classmethod
    def relation(cls, public: Any) -> dict[str, Any]:
        """What neighbouring contents differ by, beyond the unit's name: facts by name. Datasets of
        one account agree in every fact that both have, or the sum of their prices would speak of no
        one relation."""
        return {}

    def rows(self) -> Content:
        """The canonical content of this dataset."""
        return self.read_rows(self.public, self.content)

    def described(self) -> Self:
        """This dataset with its public part completed."""
        return self.model_copy(update={"public": self.describe(self.public, self.rows())})


class DatasetOfRows(Dataset):
    """A dataset whose JSON content has arrays that may be long: they become columns while they are
    read."""

    ROWS: ClassVar[Mapping[str, Any]]

    @classmethod
    @abstractmethod
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        """Validated items of one of `ROWS` as arrays. Of several pieces each array is put behind
        that of the other."""

    @classmethod
    @abstractmethod
    def read_packed(cls, public: Any, packed: Mapping[str, Packed]) -> Content:
        """Canonical content from the packed arrays of a JSON body, of those that it has. Like
        `read_rows`."""

    @classmethod
    def read_rows(cls, public: Any, content: Any) -> Content:
        given = {name: getattr(content, name) for name in cls.ROWS}
        return cls.read_packed(
            public, {name: cls.pack(name, rows) for name, rows in given.items() if rows is not None}
        )
