"""Synthetic objectives of public agents: each prefers a state of its own within its bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.problems.base import Synthesis
from discreet.problems.contents import Profile
from discreet.problems.multi_agent.dataset import MultiAgentPublic


def rows(public: MultiAgentPublic, units: int | None) -> int:
    """One for each agent."""
    return len(public.agents)


def columns(
    public: MultiAgentPublic,
    generator: np.random.Generator,
    units: int | None,
    around: Profile | None = None,
) -> dict[str, Any]:
    """Columns of an upload: quadratic costs of weight 0.5 to 2 around a state within the agent's
    bounds."""
    objectives = []
    for agent in public.agents:
        terms = []
        for name, low, high in zip(
            agent.coordinates, agent.lowers().tolist(), agent.uppers().tolist(), strict=True
        ):
            wanted = generator.uniform(low, high)
            terms.append(f"{generator.uniform(0.5, 2):.3f} * ({name} - ({wanted:.4g}))^2")
        objectives.append(" + ".join(terms))
    return {"agent": [agent.name for agent in public.agents], "objective": objectives}


SYNTHESIS = Synthesis(rows, columns)
