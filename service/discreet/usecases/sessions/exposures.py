"""What sessions have opened of the same agents, over all jobs of a tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from discreet.problems.plans import Plan
from discreet.storage import jobs, sessions
from discreet.usecases.sessions import records


async def before(
    connection: Any, job_id: str, fingerprints: Iterable[str]
) -> tuple[Fraction, int, int]:
    """Of the agent of whom most was opened in other jobs of the tenant: the numbers opened without
    noise for each agent among whom they were (`exposure.Opens`), summed over jobs; how many
    numbers, and in how many jobs. A session that has not ended counts with all that it may open."""
    found: dict[str, tuple[Fraction, int, int]] = {}
    names = set(fingerprints)
    for row in await sessions.earlier(connection, job_id, sorted(names)):
        problem = records.stored_problem(row)
        if problem is None:
            continue
        listed = records.listed_of(bytes(row["roster"]))
        opens = problem.opens(
            Plan.model_validate(row["plan"]),
            len(listed),
            row["round"] if row["state"] in jobs.FINAL else None,
        )
        if not opens.numbers:
            continue
        for name in listed & names & set(row["agents"]):
            share, numbers, count = found.get(name, (Fraction(0), 0, 0))
            found[name] = share + opens.share, numbers + opens.numbers, count + 1
    return max(found.values(), default=(Fraction(0), 0, 0))


def view(told: tuple[Fraction, int, int]) -> Mapping[str, Any]:
    """The same as it is shown."""
    share, numbers, count = told
    return {"for_each_agent": float(share), "numbers": numbers, "jobs": count}
