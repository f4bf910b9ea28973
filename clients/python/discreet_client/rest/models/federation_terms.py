from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.federation_terms_on_missing import FederationTermsOnMissing, check_federation_terms_on_missing
from ..types import UNSET, Unset

T = TypeVar("T", bound="FederationTerms")


@_attrs_define
class FederationTerms:
    """How a session of agents is run; fixed with the job, before anybody joins.

    Attributes:
        agents (int): Most agents that may join
        approve_seconds (float | Unset): From submission to the signed roster; then the job fails Default: 604800.0.
        join_seconds (float | Unset): From the signed roster to the first round Default: 600.0.
        on_missing (FederationTermsOnMissing | Unset): `abort`: an agent that misses a round ends the job; `finish`:
            rounds go on with a quorum Default: 'abort'.
        quorum (int | None | Unset): Fewest agents that a round needs; all by default
        round_seconds (float | Unset): From a broadcast to the round's deadline Default: 30.0.
    """

    agents: int
    approve_seconds: float | Unset = 604800.0
    join_seconds: float | Unset = 600.0
    on_missing: FederationTermsOnMissing | Unset = "abort"
    quorum: int | None | Unset = UNSET
    round_seconds: float | Unset = 30.0

    def to_dict(self) -> dict[str, Any]:
        agents = self.agents

        approve_seconds = self.approve_seconds

        join_seconds = self.join_seconds

        on_missing: str | Unset = UNSET
        if not isinstance(self.on_missing, Unset):
            on_missing = self.on_missing

        quorum: int | None | Unset
        if isinstance(self.quorum, Unset):
            quorum = UNSET
        else:
            quorum = self.quorum

        round_seconds = self.round_seconds

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "agents": agents,
            }
        )
        if approve_seconds is not UNSET:
            field_dict["approve_seconds"] = approve_seconds
        if join_seconds is not UNSET:
            field_dict["join_seconds"] = join_seconds
        if on_missing is not UNSET:
            field_dict["on_missing"] = on_missing
        if quorum is not UNSET:
            field_dict["quorum"] = quorum
        if round_seconds is not UNSET:
            field_dict["round_seconds"] = round_seconds

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        agents = d.pop("agents")

        approve_seconds = d.pop("approve_seconds", UNSET)

        join_seconds = d.pop("join_seconds", UNSET)

        _on_missing = d.pop("on_missing", UNSET)
        on_missing: FederationTermsOnMissing | Unset
        if isinstance(_on_missing, Unset):
            on_missing = UNSET
        else:
            on_missing = check_federation_terms_on_missing(_on_missing)

        def _parse_quorum(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        quorum = _parse_quorum(d.pop("quorum", UNSET))

        round_seconds = d.pop("round_seconds", UNSET)

        federation_terms = cls(
            agents=agents,
            approve_seconds=approve_seconds,
            join_seconds=join_seconds,
            on_missing=on_missing,
            quorum=quorum,
            round_seconds=round_seconds,
        )

        return federation_terms
