"""A ledger entry and its mechanism events in sentences for a privacy officer. Figures come from the
entry alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.dashboard import rounding
from discreet.ledger.entries import ENTRIES
from discreet.privacy.events import REGISTRY
from discreet.privacy.mechanism import MechanismEvent
from discreet.problems import JOBS, KINDS
from discreet.problems.results import in_words

FINGERPRINT_DIGITS = 64
MOST_LETTERS = 24

NORMS = {
    "l1": "summed over all published numbers",
    "l2": "in Euclidean length over all published numbers",
    "row": "moved within one row of shares",
    "score": "in the score of each candidate",
    "smooth": "in units of a smooth bound on the local sensitivity",
}


MENDING = {
    "content_differs": "lay the registered content there again, or register what lies there now as "
    "a dataset of its own, and",
    "content_missing": "lay the registered content there again, or register it at its new place, "
    "and",
    "place_unreadable": "when its keeper has the place in order,",
    "place_forbidden": "ask the operator of this installation to allow the place, and",
    "too_many_failed_reads": "wait a day, and",
    "content_not_read": "wait a little, and",
}
"""What helps a failed job, before "submit a new job", where that does not lie in the problem."""

CHANGES = {
    "cap.grant": "cap of a budget changed",
    "cap.set": "cap over all data set",
    "budget_request.decline": "request for more declined",
    "dataset.correct": "public part of a dataset corrected",
    "dataset.erase": "dataset erased",
    "dataset.place": "place of a content that stays told again",
    "dataset.register": "dataset registered",
    "dataset.retention": "time until erasure changed",
    "key.create": "key made",
    "key.revoke": "key revoked",
    "login.end": "logged out",
    "login.end_by_provider": "logged out by the identity provider",
    "login.key": "logged in with a key",
    "login.link": "logged in with a link",
    "login.link_made": "login link made",
    "login.provider": "logged in with the identity provider",
    "object.add": "public object stored",
    "object.remove": "public object removed",
    "person.remove": "person removed",
    "person.restore": "person let in again",
    "read.look": "file read before its registration",
    "read.remove": "file removed before its registration",
    "roster.remove_member": "agent removed from a roster",
    "roster.sign": "roster of agents signed",
    "session.again": "session started again without some agents",
    "session.tokens": "links for agents made",
    "source.correct": "public part of a source corrected",
    "source.create": "source made",
    "source.rule": "shares of a source set",
    "tenant.create": "tenant made",
    "place.fail": "content not read from its place",
    "webhook.create": "webhook made",
    "webhook.remove": "webhook removed",
}
"""What entries of the audit log say was done."""

STATES = {"waiting": "waiting for budget", "awaiting_agents": "waiting for agents"}
"""States of jobs whose name does not say what they wait for."""


def state(name: str) -> str:
    """The state of a job in words."""
    return STATES.get(name, name.replace("_", " "))


def change(action: str) -> str:
    """A change in words; of a later version by its name."""
    return CHANGES.get(action, action)


def field(name: str, kind: str) -> str:
    """A field of a result in words."""
    return in_words(name, JOBS[kind].Fields if kind in JOBS else None)


COUNTED = {name: text for problem in KINDS.values() for name, text in problem.words.items()}
"""What plans count, where its own name does not say it."""


def iterations(name: str) -> str:
    """What a plan counts in words."""
    return COUNTED.get(name, name.replace("_", " ").capitalize())


def who(actor: str) -> str:
    """Who made an entry, for tables: agents are known by 64 digits of a fingerprint, of which the
    first do."""
    if len(actor) == FINGERPRINT_DIGITS and set(actor) <= set("0123456789abcdef"):
        return f"agent {actor[:12]}…"
    return actor if len(actor) <= MOST_LETTERS else f"{actor[:MOST_LETTERS]}…"


def kind(name: str) -> str:
    """The name of a kind of problem."""
    return JOBS[name].title if name in JOBS else name.replace("_", " ")


def made_up(name: str) -> str:
    """What a user has to replace in the example of a kind."""
    return KINDS[name].made_up if name in KINDS else ""


def title(entry_kind: str) -> str:
    return ENTRIES[entry_kind][0]


def meaning(entry: Mapping[str, Any]) -> str:
    return ENTRIES[entry["kind"]][1].format(actor=entry["actor"] or "somebody")


def event(one: Mapping[str, Any]) -> list[str]:
    """One mechanism event in sentences: what was published, how it was noised, whom it hides."""
    count = int(one.get("count", 1))
    times = "once" if count == 1 else f"{count:,} times, one after the other".replace(",", " ")
    mechanism = REGISTRY.get(one["mechanism"], MechanismEvent)  # an entry may be of a later version
    said = [
        f"Published {times}: {mechanism.published}.",
        f"The noise hides whether the data differ by this: {one['neighbours']}.",
        mechanism.scale_sentence.format(scale=rounding.down(one["scale"])),
    ]
    if one["norm"] != "smooth":
        scaled = mechanism.scale_sentence == MechanismEvent.scale_sentence
        times = (
            f": its scale is {rounding.down(one['scale'] / one['sensitivity'])} times as large"
            if scaled
            else ""
        )
        said.append(
            "Such a difference can change what is published by at most "
            f"{rounding.up(one['sensitivity'])}, {NORMS.get(one['norm'], one['norm'])}; the noise "
            f"is measured against that{times}."
        )
    sampling = one.get("sampling")
    if sampling is not None and sampling["scheme"] == "poisson":
        said.append(
            f"Each step uses a unit with probability {rounding.up(sampling['probability'])}, at "
            "random."
        )
    elif sampling is not None:
        said.append(f"Each step uses one unit of {sampling['population']}, drawn at random.")
    if "charged_epsilon" in one:
        said.append(
            f"Charged: epsilon {rounding.up(rounding.epsilon(one['charged_epsilon']))},"
            f" delta {rounding.up(rounding.delta(one['charged_delta']))}."
        )
    return said


def mending(job: Mapping[str, Any]) -> str:
    """What to do before a failed job is submitted again."""
    code = job.get("error", {}).get("code")
    return MENDING.get(code, "correct the problem or its limits and")


def at_place(scheme: str) -> str:
    """In what kind of place a content stays, by the scheme of its address."""
    return {
        "file": "in a folder of the service's machine",
        "https": "on a web server",
        "s3": "in a bucket",
        "postgresql": "in a database",
    }.get(scheme, f"at an address of {scheme}")
