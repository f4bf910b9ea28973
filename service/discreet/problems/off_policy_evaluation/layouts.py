"""What files of trajectories look like: steps, as they are sent, or visits, from which a page makes
steps."""

from __future__ import annotations

from discreet.problems.datasets import Column, Layout
from discreet.problems.off_policy_evaluation.public import MAX_STATES, OffPolicyPublic

WHO = (
    *("patient", "person", "subject", "episode", "id"),
    *("patienten", "patientin", "patnr", "patientennummer", "proband", "fall"),
)
REWARD = ("r", "outcome", "score", "ergebnis", "erfolg")
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


def layouts(public: OffPolicyPublic) -> list[Layout]:
    """Visits need what states are: their number, or the public ranges of features."""
    found = [Layout("a step, from one state to the next", steps(public))]
    if public.states is not None or public.ranges is not None:
        facts = {
            "horizon": public.horizon,
            "continuing": bool(public.continuing),
            "off_policy": public.off_policy,
        }
        found.append(Layout("a visit, and when it was", visits(public), "visits", facts))
    return found


def steps(public: OffPolicyPublic) -> list[Column]:
    """The columns of an upload."""
    if public.states is not None:
        several = public.states > 1
        last = public.states - 1
        says = "State after it, counted from 0"
        places = [
            Column(
                "state",
                "integers",
                "State, counted from 0",
                0,
                last,
                needed=several,
                words=("s", "from"),
            ),
            Column(
                "next_state", "integers", says, 0, MAX_STATES, needed=several, words=("next", "to")
            ),
        ]
    else:
        places = [
            Column(f"{name}_{axis}", "numbers", f"Coordinate {axis} of the state{after}")
            for name, after in (("x", ""), ("x_next", " after it"))
            for axis in range(public.features or 0)
        ]
    chances = () if public.off_policy is False else ("behaviour", "target")
    return [
        Column("trajectory", "names", "Whose row it is", words=WHO, owner=True),
        Column(
            "step",
            "integers",
            "Place in the trajectory, counted from 0",
            0,
            public.horizon - 1,
            words=("t",),
        ),
        *places,
        Column(
            "reward",
            "numbers",
            "Reward of the step",
            public.lowest_reward,
            public.reward_bound,
            words=REWARD,
        ),
        Column(
            "terminal", "truths", "Whether the trajectory ends here", words=("done", "last", "end")
        ),
        *(
            Column(
                name,
                "numbers",
                f"Probability of the action under the {name} policy",
                0,
                1,
                needed=bool(public.off_policy),
                words=(f"p_{name}", f"{name}_probability"),
            )
            for name in chances
        ),
    ]


def visits(public: OffPolicyPublic) -> list[Column]:
    """Columns of a visit, by the names that the reader of the client knows (docs/own-files.md)."""
    if public.ranges is None:
        last = (public.states or 1) - 1
        says = "State, counted from 0"
        places = [
            Column("state", "integers", says, 0, last, needed=last > 0, words=("s", "status"))
        ]
    else:
        places = [
            Column(
                told.name,
                "numbers",
                f"{told.low:g} to {told.high:g} become 0 to 1",
                scale=(told.low, told.high),
            )
            for told in public.ranges
        ]
    chances = (
        Column(
            "action",
            "names",
            "What was done",
            needed=False,
            words=("treatment", "a", "therapie", "behandlung", "medikation"),
            doubtful=("arm",),
        ),
        Column(
            "probability",
            "numbers",
            "Known probability with which that was chosen",
            0,
            1,
            needed=False,
            words=("behaviour", "propensity", "p_behaviour"),
        ),
        Column(
            "target",
            "numbers",
            "Its probability under the policy to be evaluated",
            0,
            1,
            needed=False,
            words=("p_target", "target_probability"),
        ),
    )
    return [
        Column(
            "patient", "names", "Whose visit it is", words=(*WHO, "pid", "trajectory"), owner=True
        ),
        Column(
            "time",
            "moments",
            "When it was: a number or a date",
            words=(
                *("date", "day", "visit", "week", "month"),
                *("datum", "tag", "visite", "besuch", "woche", "monat"),
                *("visitdate", "besuchsdatum", "visitendatum", "behandlungsdatum"),
            ),
            usual="0" if public.horizon == 1 else "",
        ),
        *places,
        Column(
            "reward",
            "numbers",
            "Reward of the visit",
            public.lowest_reward,
            public.reward_bound,
            words=REWARD,
        ),
        *(() if public.off_policy is False else chances),
        Column(
            "terminal",
            "truths",
            "Whether the episode ended",
            needed=False,
            words=("done", "last", "end"),
        ),
    ]
