"""What `discreet init` asks of a table of visits."""

from __future__ import annotations

from discreet.problems.datasets import DATES_ASKED, FileQuestion

RULE = "age >= 65 and pressure > 140 -> treat, else wait"
QUESTIONS = (
    FileQuestion("patient", "Which column says whose visit it is?", "column"),
    FileQuestion("time", "Which column says when it was?", "column"),
    FileQuestion("reward", "Which column says how it came out?", "column"),
    FileQuestion(
        "action",
        "Which column says what was done? None where no other policy is to be evaluated",
        "column",
        needed=False,
    ),
    FileQuestion("horizon", "How many visits does a patient have at most?"),
    FileQuestion("reward_bound", "How much does one outcome count at most?", usual="1"),
    FileQuestion(
        "reader.rewards",
        "What do outcomes count that are words, such as: improved 1, worse 0? Nothing where they "
        "are numbers, or yes and no",
        "figures",
        needed=False,
    ),
    FileQuestion(
        "reader.behaviour",
        "How probable was each treatment at every visit, such as: treat 0.5, wait 0.5? It must be "
        "known, from an experiment or a documented rule",
        "figures",
        needed=False,
    ),
    FileQuestion(
        "reader.target",
        f"Which policy is to be evaluated: one treatment for all, or a rule such as {RULE}? It "
        "uses the names of your columns, in quotes where they contain signs, and only what was "
        "known before the treatment",
        "policy",
        needed=False,
    ),
    DATES_ASKED,
)
