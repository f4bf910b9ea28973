"""The public bounds of trips, which their content must keep."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.contents import Content
from discreet.problems.routing.public import MAX_TRIPS, RoutingPublic

MAX_COUNT = 10**9


def bounds_of(public: RoutingPublic) -> dict[str, tuple[int, int]]:
    """The bounds of each column of a table, both ends included; for counts those of one row."""
    return {
        "period": (0, public.periods - 1),
        "origin": (1, public.zones),
        "destination": (1, public.zones),
        "count": (0, MAX_COUNT // public.trip_scale if public.unit == "request" else MAX_TRIPS),
    }


def kept(public: RoutingPublic, content: Content, pointer: str) -> Content:
    """The content if it keeps the public bounds on trips."""
    trips, scale = content["trips"], public.trip_scale
    totals: NDArray[Any] = np.zeros(1)
    pairs: NDArray[Any] = np.zeros(0)
    if public.max_total is not None:
        totals = np.bincount(trips[:, 0], weights=trips[:, 3], minlength=1)
    if public.max_pair is not None and len(trips):
        _, pair = np.unique(trips[:, :3], axis=0, return_inverse=True)
        pairs = np.bincount(pair.ravel(), weights=trips[:, 3])
    check_sums(public, totals, pairs, pointer)
    if public.max_person is not None and "person_start" in content:
        before = np.concatenate([[0], np.cumsum(trips[:, 3])])
        if np.diff(before[content["person_start"]]).max(initial=0) > public.max_person * scale:
            raise InvalidInput(
                "a person has more trips than public.max_person allows", pointer=pointer
            )
    return content


def check_sums(
    public: RoutingPublic, totals: NDArray[Any], pairs: NDArray[Any], pointer: str
) -> None:
    """InvalidInput where the trips of a period, or of a pair in one, are more than public."""
    scale = public.trip_scale
    if public.max_total is not None and totals.max(initial=0) > public.max_total * scale:
        raise InvalidInput("a period has more trips than public.max_total allows", pointer=pointer)
    if public.max_pair is not None and pairs.max(initial=0) > public.max_pair * scale:
        raise InvalidInput(
            "a pair has more trips in a period than public.max_pair allows", pointer=pointer
        )
