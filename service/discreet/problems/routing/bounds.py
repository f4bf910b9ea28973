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
    trips = content["trips"]
    totals: NDArray[Any] = np.zeros(1)
    pairs: NDArray[Any] = np.zeros(0)
    largest = 0
    if public.max_total is not None:
        totals = np.bincount(trips[:, 0], weights=trips[:, 3], minlength=1)
    if public.max_pair is not None and len(trips):
        _, pair = np.unique(trips[:, :3], axis=0, return_inverse=True)
        pairs = np.bincount(pair.ravel(), weights=trips[:, 3])
    if public.max_person is not None and "person_start" in content:
        largest = most_of_a_person(content)
    check_sums(public, totals, pairs, largest, pointer)
    return content


def most_of_a_person(content: Content) -> int:
    """The most counts that anybody has."""
    before = np.concatenate([[0], np.cumsum(content["trips"][:, 3])])
    return int(np.diff(before[content["person_start"]]).max(initial=0))


def check_sums(
    public: RoutingPublic, totals: NDArray[Any], pairs: NDArray[Any], largest: int, pointer: str
) -> None:
    """InvalidInput where the trips of a period, of a pair in one, or of a person are more than
    public."""
    scale = public.trip_scale
    if public.max_total is not None and totals.max(initial=0) > public.max_total * scale:
        raise InvalidInput("a period has more trips than public.max_total allows", pointer=pointer)
    if public.max_pair is not None and pairs.max(initial=0) > public.max_pair * scale:
        raise InvalidInput(
            "a pair has more trips in a period than public.max_pair allows", pointer=pointer
        )
    if public.max_person is not None and largest > public.max_person * scale:
        raise InvalidInput("a person has more trips than public.max_person allows", pointer=pointer)
