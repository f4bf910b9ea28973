"""Policies that are rules on features: `age >= 65 and pressure > 140 -> treat, else none`.

    rule       = { condition "->" action ("," | ";") } "else" action
    condition  = comparisons, joined with `and`, `or`, `not` and parentheses
    comparison = feature (">=" | ">" | "<=" | "<" | "=" | "!=") value

The first condition that holds says the action. A feature is a column, in its own unit, as it stands
in the row of the visit; a value is a number or a text, and texts are only compared by `=` and `!=`.
Names and texts of several words need quotes only where they hold signs, or one of the words above:
`Blood pressure > 140`, `"pressure (mmHg)" > 140`.

A rule is public. What it says of a visit follows from that visit's row alone, so neighbours stay
neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from unicodedata import category

import numpy as np
from numpy.typing import NDArray

from discreet_client.names import name_of
from discreet_client.tables import TableError

Truths = NDArray[np.bool_]

LONGEST = 200
"""Letters of a rule: as many as `public.target_policy` may have."""
MOST_WRITTEN = 10 * LONGEST
"""Letters of what is read as a rule at all: spaces, parentheses and `not` may fall away."""
DEEPEST = 20
"""Parentheses and `not` within each other."""
WRITTEN = 'such as "age >= 65 and pressure > 140 -> treat, else none"'
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": np.greater_equal,
    "<=": np.less_equal,
    ">": np.greater,
    "<": np.less,
    "=": np.equal,
    "!=": np.not_equal,
}
OF_TEXTS = ("=", "!=")
WRITINGS = {"≥": ">=", "≤": "<=", "≠": "!=", "==": "=", "→": "->", ";": ","}
KEYWORDS = ("and", "or", "not", "else")
_PART = re.compile(
    r"""\s*(?:
        (?P<sign>->|→|>=|<=|==|!=|≥|≤|≠|[<>=(),;])
      | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?![\w.]))
      | "(?P<quoted>[^"]*)"
      | (?P<word>\w(?:[\w.%/]|-(?!>))*)
    )""",
    re.VERBOSE,
)
_PLAIN = re.compile(r"[^\W\d](?:[\w.%/]|-(?!>))*(?: [^\W\d](?:[\w.%/]|-(?!>))*)*")


_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of characters that are invisible, or that reorder visible ones."""


class Part(NamedTuple):
    """Of a rule's text: `what` is sign, number, text, word or end, and `at` the place of its first
    letter."""

    what: str
    text: str
    at: int


@dataclass(frozen=True)
class Comparison:
    """Of a feature with a number or a text, as it is written."""

    feature: str
    sign: str
    value: str
    of_numbers: bool

    def __str__(self) -> str:
        return (
            f"{_quoted(self.feature)} {self.sign} "
            f"{self.value if self.of_numbers else _quoted(self.value)}"
        )

    def comparisons(self) -> Iterator[Comparison]:
        yield self

    def holds(self, values: dict[str, NDArray[Any]]) -> Truths:
        value = float(self.value) if self.of_numbers else name_of(self.value)
        return np.asarray(SIGNS[self.sign](values[self.feature], value), dtype=np.bool_)


@dataclass(frozen=True)
class Joined:
    """Conditions that hold all of them (`and`), or of which one holds (`or`)."""

    word: str
    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(
            f"({one})" if isinstance(one, Joined) else str(one) for one in self.parts
        )

    def comparisons(self) -> Iterator[Comparison]:
        for one in self.parts:
            yield from one.comparisons()

    def holds(self, values: dict[str, NDArray[Any]]) -> Truths:
        each = [one.holds(values) for one in self.parts]
        return np.asarray(
            (np.logical_and if self.word == "and" else np.logical_or).reduce(each), dtype=np.bool_
        )


@dataclass(frozen=True)
class Not:
    """What does not hold."""

    part: Condition

    def __str__(self) -> str:
        return f"not ({self.part})"

    def comparisons(self) -> Iterator[Comparison]:
        yield from self.part.comparisons()

    def holds(self, values: dict[str, NDArray[Any]]) -> Truths:
        return ~self.part.holds(values)


Condition = Comparison | Joined | Not


@dataclass(frozen=True)
class Rule:
    """A policy that takes one action at each visit."""

    cases: tuple[tuple[Condition, str], ...]
    otherwise: str

    def __str__(self) -> str:
        """The rule as it is understood, in one writing: what is published of it."""
        cases = [f"{condition} -> {_quoted(action)}, " for condition, action in self.cases]
        return f"{''.join(cases)}else {_quoted(self.otherwise)}"

    @property
    def actions(self) -> tuple[str, ...]:
        """All that it may take, as `names.name_of` has them."""
        return tuple(
            dict.fromkeys(
                name_of(one) for one in (*(action for _, action in self.cases), self.otherwise)
            )
        )

    @property
    def comparisons(self) -> list[Comparison]:
        return [one for condition, _ in self.cases for one in condition.comparisons()]

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.feature for one in self.comparisons))

    def chosen(self, values: dict[str, NDArray[Any]], rows: int) -> NDArray[Any]:
        """The action that it takes in each row: object[rows]. Values of each feature are
        float64[rows], or names of `names.names_of` where it is compared with texts."""
        found = np.full(rows, name_of(self.otherwise), dtype=object)
        free = np.ones(rows, dtype=np.bool_)
        for condition, action in self.cases:
            here = free & condition.holds(values)
            found[here] = name_of(action)
            free &= ~here
        return found

    def texts(self) -> dict[str, set[str]]:
        """With which texts each feature of texts is compared."""
        found: dict[str, set[str]] = {}
        for one in self.comparisons:
            if not one.of_numbers:
                found.setdefault(one.feature, set()).add(name_of(one.value))
        return found


def parse(text: Any, name: str, *, figures: bool = False) -> Rule:
    """The rule that a text says. TableError, with the place, for what is none; `name` is what it is
    called there. figures: whether its cases may give numbers, such as probabilities."""
    if not isinstance(text, str) or not text.strip():
        raise TableError(f"{name}: a rule is needed, {WRITTEN}")
    rule = None if len(text) > MOST_WRITTEN else _Parser(text, name, figures=figures).rule()
    if rule is None or len(str(rule)) > LONGEST:
        raise TableError(
            f"{name}: a rule has at most {LONGEST} characters, since everybody who reads an "
            "answer reads it"
        )
    mixed = {one.feature for one in rule.comparisons if one.of_numbers} & set(rule.texts())
    if mixed:
        raise TableError(
            f"{name}: {min(mixed)} is compared with a number and with a text: it can be one of the "
            "two"
        )
    return rule


class _Parser:
    """By recursive descent; `or` joins what `and` has joined."""

    def __init__(self, text: str, name: str, *, figures: bool = False) -> None:
        self.figures = figures
        self.text, self.name, self.parts, self.place, self.depth = text, name, list[Part](), 0, 0
        at = 0
        while at < len(text.rstrip()):
            found = _PART.match(text, at)
            if found is None:
                raise self.error(
                    len(text) - len(text[at:].lstrip()),
                    "this is neither a name, a number nor a sign",
                )
            what = str(found.lastgroup)
            said = WRITINGS.get(found[what], found[what]) if what == "sign" else found[what]
            self.parts.append(Part("text" if what == "quoted" else what, said, found.start(what)))
            at = found.end()
        self.parts.append(Part("end", "", len(text.rstrip())))

    def error(self, at: int, says: str) -> TableError:
        here = "".join(
            "?" if category(letter) in _UNSEEN else letter
            for letter in self.text[at : at + 20].strip()
        )
        where = f"at {here!r}, letter {at + 1}" if here else "at the end"
        return TableError(f"{self.name}, {where}: {says}; a rule is written {WRITTEN}")

    @property
    def next(self) -> Part:
        return self.parts[self.place]

    def keyword(self) -> str:
        """The word of the language that comes next, or the sign; empty where it is neither."""
        word = self.next.text.lower() if self.next.what == "word" else ""
        return word if word in KEYWORDS else self.next.text if self.next.what == "sign" else ""

    def take(self, *words: str) -> bool:
        found = self.keyword() in words
        self.place += found
        return found

    def need(self, word: str, says: str) -> None:
        if not self.take(word):
            raise self.error(self.next.at, says)

    def rule(self) -> Rule:
        cases = []
        while not self.take("else"):
            condition = self.joined("or")
            self.need("->", "a condition is followed by -> and an action")
            cases.append((condition, self.named("an action")))
            says = "an action is followed by a comma, and the last one by else and an action"
            self.need(",", says)
        otherwise = self.named("the action after else")
        if self.next.what != "end":
            raise self.error(self.next.at, "nothing may follow the action after else")
        return Rule(tuple(cases), otherwise)

    def joined(self, word: str) -> Condition:
        self.depth += 1
        if self.depth > 2 * DEEPEST:
            raise self.error(self.next.at, "this is nested in too many parentheses")
        parts: list[Condition] = []
        while not parts or self.take(word):
            one = self.joined("and") if word == "or" else self.single()
            parts += one.parts if isinstance(one, Joined) and one.word == word else (one,)
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Joined(word, tuple(parts))

    def single(self) -> Condition:
        denied = False
        while self.take("not"):
            denied = not denied
        if self.take("("):
            found = self.joined("or")
            self.need(")", "a closing parenthesis is needed here")
        else:
            found = self.comparison()
        if not denied:
            return found
        return found.part if isinstance(found, Not) else Not(found)

    def comparison(self) -> Comparison:
        feature = self.named("the name of a feature")
        sign = self.next
        if self.keyword() not in SIGNS:
            raise self.error(sign.at, "a feature is followed by one of >=, >, <=, <, =, !=")
        self.place += 1
        value, of_numbers = self.next.text, self.next.what == "number"
        if of_numbers:
            self.place += 1
            if self.next.what in ("number", "word", "text") and not self.keyword():
                says = "a number is followed by and, or, -> or a closing parenthesis"
                raise self.error(self.next.at, says)
            if self.keyword() == "," and self.parts[self.place + 1].what == "number":
                raise self.error(self.next.at, "a number has a decimal point here, not a comma")
        else:
            value = self.named("a number or a text")
            if sign.text not in OF_TEXTS:
                raise self.error(sign.at, "a text can be compared only by = or !=")
        return Comparison(feature, sign.text, value, of_numbers)

    def named(self, what: str) -> str:
        """One text in quotes, or words up to the next sign or word of the language."""
        if self.next.what == "text" and self.next.text.strip():
            for at, letter in enumerate(self.next.text, start=self.next.at):
                if category(letter) in _UNSEEN:
                    raise self.error(
                        at,
                        f"the character U+{ord(letter):04X} is invisible, and everybody who "
                        "reads an answer reads its rule",
                    )
            self.place += 1
            return self.parts[self.place - 1].text.strip()
        if self.figures and self.next.what == "number":
            self.place += 1
            return self.parts[self.place - 1].text
        words = list[str]()
        while (self.next.what == "word" and not self.keyword()) or (
            words and self.next.what == "number"
        ):
            words.append(self.next.text)
            self.place += 1
        if not words:
            raise self.error(self.next.at, f"{what} is needed here, in quotes if it contains signs")
        return " ".join(words)


def _quoted(name: str) -> str:
    """A name as a rule has it: in quotes where it could be read as something else."""
    words = name.split(" ")
    plain = _PLAIN.fullmatch(name) is not None and not any(
        word.lower() in KEYWORDS for word in words
    )
    return name if plain else f'"{name}"'
