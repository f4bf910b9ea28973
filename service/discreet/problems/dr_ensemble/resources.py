"""The resources of an ensemble's release and of its post-processing, by public figures."""

from __future__ import annotations

from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.plans import Resources


def resources_of(
    public: DrEnsemblePublic, method: str, horizon: int, samples: int | None
) -> Resources:
    """Of a method, and of a policy of so many steps or `samples` matrices."""
    cells = public.cells
    return Resources.padded(
        0.25 * (1 + cells // 100_000),
        # Cells are looked up at random: the more there are, the farther away they lie.
        work=public.most_rows * (20e-9 + 80e-9 * min(1.0, cells / 1e5))
        if method == "counts"
        else 0.0,
        content_bytes=12.0 * public.most_rows if method == "counts" else 8.0 * public.states**2,
        memory_bytes=(1 << 28)
        + 64 * horizon * public.states
        + 100 * cells
        + 40 * (horizon - 1) * cells // public.blocks
        + (16 * (public.blocks * public.states) ** 2 if public.day else 0),
        steps=samples or horizon - 1,
    )
