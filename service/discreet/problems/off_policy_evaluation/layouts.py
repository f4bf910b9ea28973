"""What a page asks about a file of trajectories: visits, or steps from one state to the next."""

from __future__ import annotations

from discreet.problems.datasets import Column, ReaderRule
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic

ASSUMES = (
    "What another policy would have been worth can be computed only from the known probabilities "
    "with which treatments were chosen, in an experiment or by a documented rule. If you enter "
    "0.5 and 0.5 and that is not how it was, values come out wrong, and little will show it."
)
OTHER_FILES = (
    "Your file has one visit a row, and its date? Change the public part: `ranges` say what "
    "features are called and between what they lie. Then visits are read here."
)
"""Shown where states are coordinates and the public part does not name them."""


RULES = (
    ReaderRule(
        "behaviour",
        "Known probability of each treatment, one per line",
        "figures",
        says="Such as “treat: 2/3”, under the policy that was followed: a number, a fraction, or a "
        "formula of columns such as 1/(1+exp(2-0.03*age)). Leave it empty where a column says it.",
    ),
    ReaderRule(
        "target",
        "Policy to be evaluated",
        "policy",
        says="A rule on columns that were known before the treatment, such as “age >= 65 and "
        '"Blood pressure" > 140 -> treat, else wait”, or probabilities as above. It is published '
        "as you write it. Empty: the policy that was followed.",
    ),
    ReaderRule(
        "rewards",
        "Values of outcomes that are words, one per line",
        "figures",
        says="Such as “improved: 1”. Yes and no, true and false are 1 and 0 without being listed.",
    ),
    ReaderRule(
        "last_row",
        "A patient’s last visit",
        "choice",
        (
            (None, "as usual"),
            ("terminal", "ends the episode"),
            ("next_state", "only shows the state that the patient reached"),
        ),
        "Usual is that it ends the episode, and where the public part is “continuing”, that it "
        "only shows a state.",
    ),
    ReaderRule(
        "missing",
        "A missing value",
        "choice",
        (
            (None, "is refused"),
            ("carry", "of a feature is taken from the visit before"),
            ("leave_out", "leaves out the patient, with all visits"),
        ),
    ),
    ReaderRule(
        "interval",
        "Time between visits",
        "number",
        says="In days where times are dates. Empty: visits follow each other whatever the time "
        "between them.",
    ),
    ReaderRule(
        "gaps",
        "A missing visit",
        "choice",
        ((None, "is refused"), ("end", "leaves out this patient’s later visits")),
        "Only where a time between visits is given.",
    ),
)


def rules(public: OffPolicyPublic) -> tuple[ReaderRule, ...]:
    """Of visits, which need what states are: their number, or the public ranges of features."""
    return RULES if public.states is not None or public.ranges is not None else ()


def columns(public: OffPolicyPublic) -> list[Column]:
    """Of visits, and apart from them those of steps; of steps alone where no visit can be read."""
    if not rules(public):
        return steps(public)
    own = visits(public)
    known = {one.name for one in own}
    apart = (one for one in steps(public) if one.name not in known)
    return [*own, *(Column(one.name, one.says, needed=False, apart=True) for one in apart)]


def steps(public: OffPolicyPublic) -> list[Column]:
    """The columns of the contract."""
    if public.states is not None:
        several = public.states > 1
        places = [
            Column("state", "State, counted from 0", needed=several),
            Column("next_state", "State after it, counted from 0", needed=several),
        ]
    else:
        places = [
            Column(f"{name}_{axis}", f"Coordinate {axis} of the state{after}")
            for name, after in (("x", ""), ("x_next", " after it"))
            for axis in range(public.features or 0)
        ]
    chances = () if public.off_policy is False else ("behaviour", "target")
    return [
        Column("trajectory", "Whose row it is"),
        Column("step", "Place in the trajectory, counted from 0"),
        *places,
        Column("reward", "Reward of the step"),
        Column("terminal", "Whether the trajectory ends here"),
        *(
            Column(
                name,
                f"Probability of the action under the {name} policy",
                needed=bool(public.off_policy),
            )
            for name in chances
        ),
    ]


def visits(public: OffPolicyPublic) -> list[Column]:
    """The columns of visits (docs/own-files.md)."""
    if public.ranges is None:
        places = [Column("state", "State, counted from 0", needed=(public.states or 1) > 1)]
    else:
        places = [
            Column(told.name, f"{told.low:g} to {told.high:g} become 0 to 1")
            for told in public.ranges
        ]
    chances = (
        Column("action", "What was done", needed=False),
        Column("probability", "Known probability with which that was chosen", needed=False),
        Column("target", "Its probability under the policy to be evaluated", needed=False),
    )
    return [
        Column("patient", "Whose visit it is"),
        Column("time", "When it was: a number or a date", needed=public.horizon > 1, times=True),
        *places,
        Column("reward", "How it came out"),
        *(() if public.off_policy is False else chances),
        Column("terminal", "Whether the episode ended", needed=False),
    ]
