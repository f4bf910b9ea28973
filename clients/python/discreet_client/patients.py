"""Tables of visits to transitions: (patient, time, features or state, action, reward), one row a
visit.

Next state, end and step follow from each patient's rows in the order of their times, so what
becomes of a patient follows from that patient's rows alone: neighbouring datasets stay neighbours.
Features become coordinates from 0 to 1 by public ranges, (value - low) / (high - low), and what
lies outside counts to the nearer end; nothing is standardized by what the data are.

This runs where the data are; the service takes transitions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_client import feature_rules
from discreet_client.expressions import DERIVED, FUNCTIONS, NAME, Expression, parse, value
from discreet_client.feature_rules import Rule
from discreet_client.names import name_of
from discreet_client.reading import (
    Notes,
    Reading,
    bound,
    check_rules,
    count,
    counted,
    is_figure,
    ranges_of,
    word,
)
from discreet_client.tables import Floats, Ints, Table, TableError, missing

NEEDED = ("patient", "time", "reward")
OPTIONAL = ("action", "probability", "target", "terminal")
RULES = ("behaviour", "gaps", "interval", "last_row", "missing", "rewards", "target")
MISSING = ("refuse", "carry", "leave_out")
LONGEST_WORDS = 200
REST = "rest"
"""The probability of an action that is what the others leave."""
NEARLY = 1e-9
MOST_PARTS = 10**6
"""Below the line of a probability that is written as a fraction."""
POLICIES = {
    "behaviour": ("probability", "policy that was followed"),
    "target": ("target", "target policy"),
}
"""The column that has the probability of the action that was taken, and what people call the
policy."""

Truths = NDArray[np.bool_]
_PLAIN_CHANCE = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_VARIABLE = re.compile(rf"(?<![\w.]){NAME.pattern}")


def transitions_of(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Reading:
    """Transitions of visits. public: the dataset's, with `states`, or with `ranges` [{name, low,
    high}] of features.

    rules, all of them public:
        behaviour, target: the probability of each action, {action: p}, p a number or a fraction
            such as "2/3", where every visit has the same, under the policy that was followed and
            under the one to be evaluated. The columns `probability`
            and `target` say it of each visit instead. `behaviour` may be a formula of columns,
            {"treat": "1/(1+exp(2-0.03*age))", "wait": "rest"} (`expressions`), as a trial knows it
            that drew by them; a visit whose ratio is above `public.max_ratio` is refused. `target`
            may be a rule on features, `age >=
            65 -> treat, else none` (`discreet_client.feature_rules`), which is published as
            `target_policy`
        rewards: what each outcome that is a text counts, {text: number}; where none counts less
            than 0, `least_reward` is 0 if nothing else is said, which halves the noise
        last_row: `terminal`, a patient's last visit ends the episode; or `next_state`, it only says
            where the patient came to, and its reward is not counted (the default where
            `public.continuing`). A column `terminal` says of each visit whether it ended the
            episode; a last one that did not is such a next state
        interval: between visits, in the unit of `time`, of dates in days; without it visits are
        steps as they follow gaps: `refuse`, or `end`: of a patient who missed a visit what is
        before the first gap is kept missing: `refuse`, or `carry`: a feature's value that is
        missing is that of the visit before; or `leave_out`
            patients of whom any value is missing, with all their visits

    Raises TableError for what is wrong, naming place and column.
    """
    check_rules(rules, RULES, "patients")
    rules = _in_figures(rules)
    ranges, states, horizon = ranges_of(public), count(public, "states"), count(public, "horizon")
    rule, formulas = _rule(rules, public, columns), _formulas(rules)
    table = _named(_timed(table, public, columns), ranges, states, columns, rule, formulas)
    notes = Notes()
    if word(rules, "missing", MISSING) == "leave_out":
        table = _complete(table, notes)
    owner = _patients(table)
    time, dates = table.times("time")
    order = np.lexsort((time, owner))
    table, owner, time = table.ordered(order), owner[order], time[order]
    first = np.append(True, owner[1:] != owner[:-1])
    last = np.append(first[1:], True)
    table.refuse(
        ~first & (np.diff(time, prepend=-np.inf) == 0),
        "time",
        "this patient has a visit of this time already",
    )

    kept, final = np.ones(owner.size, dtype=bool), last
    if "interval" in rules:
        gap = _gaps(table, first, time, rules, " days" if dates else "")
        before = np.cumsum(gap)
        kept = before == before[first][owner]
        final = last | np.append(gap[1:], False)
        if not kept.all():
            few = int(np.count_nonzero(~kept))
            says = f"left out: {counted(few, 'visit', kept.size)} after a gap"
            notes.leave_out(says, "a visit after a gap", few)
    if "terminal" in table.columns:
        terminal = table.truths("terminal")
        says = "this patient has visits after the one that ended the episode"
        table.refuse(terminal & ~last, "terminal", says)
    else:
        terminal = last & _last_row_ends(public, rules)
    here = np.flatnonzero(kept & (terminal | ~final))
    if not here.size:
        raise TableError("no patient has two visits, so there is no transition")
    there = np.where(terminal[here], here, np.minimum(here + 1, owner.size - 1))
    patients = int(first.sum())
    if alone := patients - np.unique(owner[here]).size:
        notes.leave_out(
            f"left out: {counted(alone, 'patient', patients)} with a single visit, which has no "
            "next state",
            "a patient with a single visit",
            alone,
        )
    if seen := int((kept & final & ~terminal).sum()) - alone:
        notes.append(
            f"the last visit of {counted(seen, 'patient', patients)} is a next state only: no end "
            "is known"
        )
    _, begin, number = np.unique(owner[here], return_index=True, return_inverse=True)
    step = np.arange(here.size) - begin[number.ravel()]
    beyond = np.zeros(owner.size, dtype=bool)
    beyond[here] = step >= (horizon or here.size)
    table.refuse(
        beyond,
        "time",
        f"this patient has more visits than the public horizon, {horizon}",
        about="public.horizon",
    )

    found: dict[str, NDArray[Any]] = {"trajectory": number.ravel(), "step": step}
    if ranges:
        x = _scaled(table, ranges, first, rules)
        for axis in range(len(ranges)):
            found |= {f"x_{axis}": x[here, axis], f"x_next_{axis}": x[there, axis]}
    else:
        state = _numbered(table, states or 1)
        found |= {"state": state[here], "next_state": state[there]}
    found |= {"reward": _rewards(table, public, rules)[here], "terminal": terminal[here]}
    chances = _chances(table, rules, rule, first, notes)
    if formulas:
        _refuse_large(table, public, chances)
    if not chances and "action" in columns:
        notes.append(
            f"column {columns['action']} is not used, and nothing is said of another policy: that "
            "needs the known probabilities of what was done (columns probability and target, or "
            "reader.behaviour and reader.target). What is evaluated is the policy that was "
            "followed"
        )
    found |= {name: chance[here] for name, chance in chances.items()}
    told = completed(public, rules, columns)
    return Reading(told, found, notes, table.places[here], tuple(notes.left_out))


def completed(
    public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> dict[str, Any]:
    """The public part with what its own rules say of features, weights, policy and rewards."""
    rules, ranges = _in_figures(rules), ranges_of(public)
    rule = _rule(rules, public, columns)
    return {
        **({"features": len(ranges)} if ranges else {}),
        **_largest_ratio(rules, rule),
        **_in_words(rules, rule),
        **_least_reward(rules),
        **public,
    }


def checks(
    table: Table, public: Mapping[str, Any], rules: Mapping[str, Any], columns: Mapping[str, str]
) -> Iterator[Callable[[], Any]]:
    """Each column by itself, for who has to mend a file."""
    rules = _in_figures(rules)
    ranges, states = ranges_of(public), count(public, "states")
    rule, formulas = _rule(rules, public, columns), _formulas(rules)
    table = _named(_timed(table, public, columns), ranges, states, columns, rule, formulas)
    if word(rules, "missing", MISSING) == "leave_out":
        table = _complete(table, Notes())
    alone = np.ones(table.rows, dtype=bool)
    yield lambda: _patients(table)
    yield lambda: table.times("time")
    if not ranges:
        yield lambda: _numbered(table, states or 1)
    for told in ranges:
        if word(rules, "missing", MISSING) == "refuse":
            yield partial(_scaled, table, [told], alone, rules)
        else:
            yield partial(table.numbers, str(told["name"]), may_lack=True)
    if rule is not None:
        for feature in rule.features:
            if word(rules, "missing", MISSING) == "refuse":
                yield partial(_values, table, feature, rule, alone, rules)
            elif feature not in rule.texts():
                yield partial(table.numbers, feature, may_lack=True)
    yield lambda: table.values("reward")
    rewarded = table.ordered(np.flatnonzero(~missing(table.columns["reward"])))
    if rewarded.rows:
        yield lambda: _rewards(rewarded, public, rules)
    yield lambda: _chances(
        table, rules, None if rule is None else _without_features(rule), alone, []
    )


def _in_figures(rules: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rules with probabilities such as "2/3" as numbers: as a trial that drew 2 to 1 knows
    them."""

    def figure(chance: Any) -> Any:
        parts = chance.split("/") if isinstance(chance, str) else ()
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            return chance
        above, below = (int(part) for part in parts)
        return above / below if 0 < below <= MOST_PARTS and above <= below else chance

    return {
        name: (
            {action: figure(chance) for action, chance in said.items()}
            if name in POLICIES and isinstance(said, Mapping)
            else said
        )
        for name, said in rules.items()
    }


def _timed(table: Table, public: Mapping[str, Any], columns: Mapping[str, str]) -> Table:
    """The table; where nobody has more than one visit, no column need say when it was."""
    if "time" in columns or "time" in table.columns:
        return table
    if count(public, "horizon") == 1:
        return replace(table, columns={**table.columns, "time": np.zeros(table.rows)})
    if any(columns.get(role, role) not in table.columns for role in ("patient", "reward")):
        return table
    raise TableError(
        "no column time: a row is one visit, and a column says when it was (--columns time=…, or "
        "columns={'time': …} in Python). Where every patient has one visit, horizon is 1; a table "
        "with columns for each visit is turned into rows first (docs/own-files-patients.md, A row "
        f"for each patient). Columns are: {table.listed()}"
    )


def _rule(
    rules: Mapping[str, Any], public: Mapping[str, Any], columns: Mapping[str, str]
) -> Rule | None:
    """The target policy where it is a rule on features."""
    said = rules.get("target")
    if not isinstance(said, str):
        return None
    rule = feature_rules.parse(said, "reader.target")
    roles = {
        part.strip(): role
        for role in (*NEEDED, *OPTIONAL)
        for part in (role, *columns.get(role, role).split("+"))
    }
    for feature in rule.features:
        own = columns.get(feature, feature)
        if role := roles.get(feature, roles.get(own)):
            named = feature if feature == role else f"{feature}, which is the {role},"
            raise TableError(
                "reader.target: a rule is on features that are known before it is decided, and "
                f"{named} is none"
            )
    if public.get("target_policy", str(rule)) != str(rule):
        raise TableError(
            f"public.target_policy is what the rule in reader.target says, {rule}: leave it out"
        )
    followed = rules.get("behaviour")
    if isinstance(followed, Mapping) and followed:
        known = {
            name_of(str(action))
            for action, chance in followed.items()
            if isinstance(chance, str) or (is_figure(chance) and chance > 0)
        }
        if never := [action for action in rule.actions if action not in known]:
            raise TableError(
                f"reader.target: the rule takes {never[0]!r}, which reader.behaviour never does: "
                "what nobody was given cannot be evaluated. It does "
                f"{', '.join(map(str, followed))}"
            )
    return rule


def _without_features(rule: Rule) -> Rule:
    """For a look at the actions alone."""
    return Rule((), rule.otherwise)


def _largest_ratio(rules: Mapping[str, Any], rule: Rule | None) -> dict[str, float]:
    """`max_ratio` of two policies that are public rules; nothing where a column says one of
    them."""
    followed = rules.get("behaviour")
    if _formulas(rules):
        return {}
    if rule is not None and isinstance(followed, Mapping):
        chances = {name_of(str(action)): chance for action, chance in followed.items()}
        return {"max_ratio": max(1 / chances[action] for action in rule.actions)}
    policies = [policy for name in POLICIES if isinstance(policy := rules.get(name), Mapping)]
    if len(policies) < len(POLICIES):
        return {}
    followed, target = (
        {name_of(str(action)): chance for action, chance in policy.items()} for policy in policies
    )
    return {
        "max_ratio": max(
            target.get(action, 0) / chance for action, chance in followed.items() if chance > 0
        )
    }


def _in_words(rules: Mapping[str, Any], rule: Rule | None) -> dict[str, str]:
    """What the target policy does, where that is a public rule, of actions one that is short enough
    to be read."""
    if rule is not None:
        return {"target_policy": str(rule)}
    policy = rules.get("target")
    if not isinstance(policy, Mapping):
        return {}
    certain = [action for action, chance in policy.items() if chance == 1]
    words = (
        f"always {certain[0]}"
        if certain
        else ", ".join(f"{action} {chance:g}" for action, chance in policy.items())
    )
    return {"target_policy": words} if len(words) <= LONGEST_WORDS else {}


def _least_reward(rules: Mapping[str, Any]) -> dict[str, int]:
    """0 where every outcome is a text, of which the public rule `rewards` counts none below 0."""
    counts = rules.get("rewards")
    if not isinstance(counts, Mapping):
        return {}
    return {"least_reward": 0} if all(count >= 0 for count in counts.values()) else {}


def _patients(table: Table) -> Ints:
    return table.owners(
        "patient", "this is named like a total: leave its line out; a patient's name is needed"
    )


def names_in(
    _: Mapping[str, Any], rules: Mapping[str, Any], encoding: str | None
) -> dict[str, Container[str]]:
    """Actions and outcomes that the description names, by column: one may be called `NA`."""
    found: dict[str, set[str]] = {"action": set(), "reward": set()}
    for rule, column in (("behaviour", "action"), ("target", "action"), ("rewards", "reward")):
        if isinstance(said := rules.get(rule), Mapping):
            found[column] |= {name_of(str(name)) for name in said}
    return dict(found)


def _complete(table: Table, notes: Notes) -> Table:
    """Patients all of whose values are there: it is decided of each from that patient's rows
    alone."""
    owner = _patients(table)
    lacks = np.zeros(owner.size, dtype=bool)
    for values in table.columns.values():
        lacks |= missing(values)
    without = np.unique(owner[lacks])
    if not without.size:
        return table
    notes.leave_out(
        f"left out: {counted(without.size, 'patient', int(owner.max()) + 1)} with a value that is "
        "missing",
        "a patient with a value that is missing",
        without.size,
    )
    rows = np.flatnonzero(~np.isin(owner, without))
    if not rows.size:
        raise TableError("every patient lacks a value, so all would be left out")
    return table.ordered(rows)


def _gaps(table: Table, first: Truths, time: Floats, rules: Mapping[str, Any], unit: str) -> Truths:
    """Which visits come more than an interval after the same patient's visit before."""
    said, interval = word(rules, "gaps", ("refuse", "end")), rules["interval"]
    if not is_figure(interval) or not interval > 0:
        raise TableError(f"reader.interval is a number above 0, not {str(interval)[:40]}")
    with np.errstate(over="ignore"):
        steps = np.rint(np.diff(time, prepend=time[0]) / interval)
    than = f"an interval of {interval:g}{unit} after this patient's visit before"
    table.refuse(~first & (steps < 1), "time", f"less than {than}")
    gap: Truths = ~first & (steps > 1)
    if said == "refuse":
        table.refuse(
            gap, "time", f"more than {than} (reader.gaps: end keeps what is before)", about="gaps"
        )
    return gap


def _last_row_ends(public: Mapping[str, Any], rules: Mapping[str, Any]) -> bool:
    words = ("next_state", "terminal") if public.get("continuing") else ("terminal", "next_state")
    return word(rules, "last_row", words) == "terminal"


def _rewards(table: Table, public: Mapping[str, Any], rules: Mapping[str, Any]) -> Floats:
    reward, most = _outcomes(table, rules), bound(public, "reward_bound")
    table.refuse(
        np.abs(reward) > most,
        "reward",
        f"the public reward_bound is {most:g}",
        reward,
        "public.reward_bound",
    )
    if public.get("least_reward") is not None:
        least = float(public["least_reward"]) if is_figure(public["least_reward"]) else math.nan
        if math.isnan(least):
            raise TableError(
                f"public.least_reward is a finite number, not {str(public['least_reward'])[:40]}"
            )
        table.refuse(
            reward < least,
            "reward",
            f"the public least_reward is {least:g}",
            reward,
            "public.least_reward",
        )
    return reward


def _outcomes(table: Table, rules: Mapping[str, Any]) -> Floats:
    """What each visit's outcome counts: its number, or that of its text by the rule `rewards`."""
    if "rewards" not in rules:
        says = ' (reader.rewards says what texts count: {"improved": 1, "worse": 0})'
        return table.numbers("reward", truths=True, of_texts=says)
    said = rules["rewards"]
    if not isinstance(said, Mapping) or not said or not all(map(is_figure, said.values())):
        raise TableError(
            'reader.rewards: what each text counts is needed, as in {"improved": 1, "worse": 0}'
        )
    counts = {name_of(str(outcome)): float(figure) for outcome, figure in said.items()}
    once, of = table.once("reward")
    outcomes = once[of]
    unknown = np.array([outcome not in counts for outcome in once.tolist()], dtype=bool)[of]
    table.refuse(
        unknown, "reward", f"reader.rewards knows {', '.join(counts)}", outcomes, "rewards"
    )
    found: Floats = np.array([counts[one] for one in once.tolist()], dtype=np.float64)[of]
    return found


def _named(
    table: Table,
    ranges: Sequence[Mapping[str, Any]],
    states: int | None,
    columns: Mapping[str, str],
    rule: Rule | None,
    formulas: Mapping[str, Expression | Steps],
) -> Table:
    """The table by our names. Where nothing is said of states, or there is one, no column says
    which."""
    table = replace(
        table, lacking=" (reader.missing: leave_out keeps only the other patients)", lacks="missing"
    )
    features = [str(told["name"]) for told in ranges]
    needed = [*NEEDED, *features, *(() if ranges or (states or 1) == 1 else ["state"])]
    needed += (
        [] if rule is None else [feature for feature in rule.features if feature not in needed]
    )
    taken = {
        part.strip() for role in (*NEEDED, *OPTIONAL) for part in columns.get(role, "").split("+")
    }
    for name in _variables(formulas):
        if columns.get(name, name) in taken:
            raise TableError(
                "reader.behaviour: a formula is of features that are known before what is done, "
                f"and {name} is none"
            )
    needed += [one for one in _variables(formulas) if one not in needed]
    return table.named(
        columns, needed, [*OPTIONAL, *(() if ranges or "state" in needed else ["state"])]
    )


def _numbered(table: Table, states: int) -> Ints:
    if "state" not in table.columns:
        return np.zeros(table.rows, dtype=np.int64)
    found = table.integers("state")
    says = f"public.states is {states}, so states are 0 to {states - 1}"
    if found.min() == 1 and found.max() == states:
        says = f"count from 0; yours look 1-based: {says}"
    table.refuse((found < 0) | (found >= states), "state", says, found, "public.states")
    return found


def _scaled(
    table: Table, ranges: Sequence[Mapping[str, Any]], first: Truths, rules: Mapping[str, Any]
) -> Floats:
    """float64[rows, features], in [0, 1]."""
    found = np.empty((first.size, len(ranges)))
    for axis, told in enumerate(ranges):
        name, low, high = str(told["name"]), float(told["low"]), float(told["high"])
        if not (low < high and high - low < np.inf):
            raise TableError(
                f"public.ranges: low of {name} is to be below its high, not {low:g} and {high:g}"
            )
        values = table.numbers(name, may_lack=True)
        values = values[_sources(table, name, first, rules)]
        found[:, axis] = np.clip((values - low) / (high - low), 0.0, 1.0)
    return found


def _sources(table: Table, name: str, first: Truths, rules: Mapping[str, Any]) -> Ints:
    """int64[rows]: the row that each takes a feature's value from, as `reader.missing` says of
    those that lack it."""
    rows, lacks = np.arange(first.size), missing(table.columns[name])
    if word(rules, "missing", MISSING) != "carry":
        says = (
            "a value is missing (reader.missing: carry takes the one before, leave_out keeps only "
            "the other patients)"
        )
        table.refuse(lacks, name, says, about="missing")
        return rows
    source = np.maximum.accumulate(np.where(lacks, -1, rows))
    begin = np.maximum.accumulate(np.where(first, rows, 0))
    says = (
        "a value is missing, and this patient has none before (reader.missing: leave_out keeps "
        "only the other patients)"
    )
    table.refuse(source < begin, name, says, about="missing")
    return source


def _values(
    table: Table, feature: str, rule: Rule, first: Truths, rules: Mapping[str, Any]
) -> NDArray[Any]:
    """A feature of a rule: numbers where it compares it with such, else texts."""
    sources = _sources(table, feature, first, rules)
    if feature not in rule.texts():
        return table.numbers(feature, may_lack=True)[sources]
    whole = table.ordered(sources)
    return replace(whole, places=table.places).names(feature)


def _by_rule(
    table: Table, rules: Mapping[str, Any], rule: Rule, first: Truths, notes: list[str]
) -> Floats:
    """1 where the action that was taken is the rule's, else 0; a note of what it says of no row."""
    if "action" not in table.columns:
        table.named({}, ["action"])
    values = {feature: _values(table, feature, rule, first, rules) for feature in rule.features}
    for feature, texts in rule.texts().items():
        for text in sorted(texts - set(values[feature].tolist())):
            notes.append(f"reader.target: no visit has {feature} = {text!r}")
    actions = table.names("action")
    there = set(actions.tolist())
    notes += [
        f"reader.target: no visit has the action {one!r}"
        for one in rule.actions
        if one not in there
    ]
    takes: Floats = (actions == rule.chosen(values, actions.size)).astype(np.float64)
    return takes


def _chances(
    table: Table, rules: Mapping[str, Any], rule: Rule | None, first: Truths, notes: list[str]
) -> dict[str, Floats]:
    """Probabilities of the action that was taken under both policies; none where nothing is said of
    either."""
    found = {}
    for policy, (column, _) in POLICIES.items():
        if column in table.columns:
            if policy == "target" and rule is not None:
                raise TableError(
                    "reader.target: the table has a column target beside this rule, and one "
                    "policy is evaluated: leave one of the two out, or have the column by another "
                    "name"
                )
            chance = table.numbers(column)
            says = "a probability must be between 0 and 1" + (
                ", and above 0 of an action that was taken" if policy == "behaviour" else ""
            )
            table.refuse(
                (chance < 0) | (chance > 1) | ((chance == 0) & (policy == "behaviour")),
                column,
                says,
                chance,
            )
            found[policy] = chance
        elif policy == "target" and rule is not None:
            found[policy] = _by_rule(table, rules, rule, first, notes)
        elif policy in rules:
            formulas = _formulas(rules) if policy == "behaviour" else {}
            chance_of = _by_formulas(table, rules, formulas, first) if formulas else None
            found[policy] = _of_policy(table, policy, rules[policy], chance_of)
    if len(found) == 1:
        policy = next(name for name in POLICIES if name not in found)
        column, called = POLICIES[policy]
        raise TableError(
            f"the probability of the action under the {called} is needed too: a column {column} of "
            f"each visit, or public.reader.{policy} with the probability of each action"
        )
    return found


@dataclass(frozen=True)
class Steps:
    """A probability by cases on numbers: `age >= 65 -> 0.7, else 0.4`."""

    rule: Rule

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.rule.features)

    def at(self, point: Mapping[str, float]) -> float:
        here = {name: np.array([figure]) for name, figure in point.items()}
        return float(self.rule.chosen(here, 1)[0])


def _steps(said: str, where: str) -> Steps:
    rule = feature_rules.parse(said, where, figures=True)
    if rule.texts():
        raise TableError(
            f"{where}: probabilities by cases compare numbers alone; where they depend on a text, "
            "a column probability says that of the action taken"
        )
    if not all(_PLAIN_CHANCE.fullmatch(one) for one in rule.actions):
        raise TableError(
            f"{where}: each case gives a probability, as in age >= 65 -> 0.7, else 0.4"
        )
    return Steps(rule)


def _formulas(rules: Mapping[str, Any]) -> dict[str, Expression | Steps]:
    """What the rule `behaviour` says by columns, by action; the one action that has the rest of it
    has none. Empty where each probability is a number."""
    said = rules.get("behaviour")
    if not isinstance(said, Mapping) or not any(
        isinstance(one, str) and _VARIABLE.search(one) for one in said.values()
    ):
        return {}
    found: dict[str, Expression | Steps] = {}
    for action, chance in said.items():
        if chance == REST:
            continue
        where = f"reader.behaviour, {str(action)[:40]}"
        steps = _steps(chance, where) if "->" in str(chance) else None
        written = {one[0] for one in _VARIABLE.finditer(str(chance))} - {*FUNCTIONS, *DERIVED}
        names = written if steps is None else steps.names
        if roles := names & {*NEEDED, *OPTIONAL}:
            raise TableError(
                "reader.behaviour: a formula is of features that are known before what is done, "
                f"and {min(roles)} is none"
            )
        if steps is not None:
            found[name_of(str(action))] = steps
            continue
        try:
            found[name_of(str(action))] = parse(str(chance), names, most_characters=LONGEST_WORDS)
        except ValueError as error:
            raise TableError(
                f"{where}: {error}; a formula is written as 1/(1+exp(2-0.03*age)), cases as "
                "age >= 65 -> 0.7, else 0.4, and one action may have the rest"
            ) from None
    if len(said) - len(found) > 1:
        raise TableError("reader.behaviour: one action has the rest, not several")
    return found


def _variables(formulas: Mapping[str, Expression | Steps]) -> list[str]:
    return sorted({name for one in formulas.values() for name in one.names})


def _chance_at(one: Expression | Steps, point: Mapping[str, float]) -> float:
    return one.at(point) if isinstance(one, Steps) else value(one, point)


def _by_formulas(
    table: Table,
    rules: Mapping[str, Any],
    formulas: Mapping[str, Expression | Steps],
    first: Truths,
) -> dict[str, Floats]:
    """The probability of each action in each row. WrongCell where these are none."""
    names, rows = _variables(formulas), first.size
    values = [
        table.numbers(name, may_lack=True)[_sources(table, name, first, rules)] for name in names
    ]
    points = np.array(values).T if names else np.zeros((rows, 0))
    once, of = np.unique(points, axis=0, return_inverse=True)
    each = {
        action: np.array(
            [_chance_at(one, dict(zip(names, point, strict=True))) for point in once.tolist()]
        )
        for action, one in formulas.items()
    }
    whole = np.sum(list(each.values()), axis=0)
    for action in rules["behaviour"]:
        each.setdefault(name_of(str(action)), np.maximum(1 - whole, 0))
    whole = np.sum(list(each.values()), axis=0)
    wrong = ~(np.abs(whole - 1) <= NEARLY)
    for chance in each.values():
        wrong |= ~((chance >= 0) & (chance <= 1))
    says = "here reader.behaviour gives no probabilities of all actions that sum to 1"
    column = names[0] if names else "action"
    table.refuse(wrong[of.ravel()], column, says, table.columns[column], "behaviour")
    return {action: chance[of.ravel()] for action, chance in each.items()}


def _refuse_large(table: Table, public: Mapping[str, Any], chances: Mapping[str, Floats]) -> None:
    """WrongCell of visits whose ratio of both probabilities is above the public bound."""
    most = bound(public, "max_ratio")
    if chances and most < math.inf:
        ratio = chances["target"] / chances["behaviour"]
        says = (
            f"the target policy's probability is more than public.max_ratio, {most:g}, times that "
            "of reader.behaviour"
        )
        table.refuse(ratio > most * (1 + NEARLY), "action", says, ratio, "public.max_ratio")


def _of_policy(
    table: Table, name: str, policy: Any, by_row: Mapping[str, Floats] | None = None
) -> Floats:
    if by_row is not None:
        policy = dict.fromkeys(by_row, 1 / len(by_row))  # its actions; the rows have their own
    if not isinstance(policy, Mapping) or not policy or not all(map(is_figure, policy.values())):
        wrong = next(
            (
                f", not {str(chance)[:40]!r} of {str(action)[:40]}"
                for action, chance in (policy.items() if isinstance(policy, Mapping) else ())
                if not is_figure(chance)
            ),
            "",
        )
        raise TableError(
            f'reader.{name}: the probability of each action is needed, as in {{"treat": 0.5, '
            f'"wait": 0.5}}{wrong}'
            + (f"; or a rule on features, {feature_rules.WRITTEN}" if name == "target" else "")
        )
    chances = {name_of(str(action)): float(chance) for action, chance in policy.items()}
    if not (min(chances.values()) >= 0 and abs(sum(chances.values()) - 1) <= 1e-9):
        raise TableError(
            f"reader.{name}: probabilities of all actions sum to 1, not {sum(chances.values()):g}"
        )
    if "action" not in table.columns:
        table.named({}, ["action"])
    once, of = table.once("action")
    actions = once[of]
    unknown = np.array([action not in chances for action in once.tolist()], dtype=bool)[of]
    table.refuse(
        unknown, "action", f"reader.{name} knows the actions {', '.join(chances)}", actions, name
    )
    found = np.array([chances[action] for action in once.tolist()])[of]
    for action, chance in (by_row or {}).items():
        here = actions == action
        found[here] = chance[here]
    if name == "behaviour":
        table.refuse(
            found == 0,
            "action",
            "reader.behaviour says that this action is never taken, and it was",
            actions,
            name,
        )
    return found
