from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.session_answer_state import SessionAnswerState, check_session_answer_state

if TYPE_CHECKING:
    from ..models.session_agent_answer import SessionAgentAnswer
    from ..models.session_answer_parameters_type_0 import SessionAnswerParametersType0
    from ..models.session_answer_terms import SessionAnswerTerms
    from ..models.session_answer_tokens import SessionAnswerTokens


T = TypeVar("T", bound="SessionAnswer")


@_attrs_define
class SessionAnswer:
    """The session of a federated job.

    Attributes:
        agents (list[SessionAgentAnswer]):
        approve_by (datetime.datetime | None): Until when the session waits for the signed roster; null when not
        approved_at (datetime.datetime | None):
        id (str):
        job (str):
        kind (str):
        owner (None | str):
        parameters (None | SessionAnswerParametersType0): What the owner signs with the roster, beside the agents
        roster (None | str):
        round_ (int): Rounds that were completed
        state (SessionAnswerState):
        terms (SessionAnswerTerms):
        tokens (SessionAnswerTokens):
    """

    agents: list[SessionAgentAnswer]
    approve_by: datetime.datetime | None
    approved_at: datetime.datetime | None
    id: str
    job: str
    kind: str
    owner: None | str
    parameters: None | SessionAnswerParametersType0
    roster: None | str
    round_: int
    state: SessionAnswerState
    terms: SessionAnswerTerms
    tokens: SessionAnswerTokens
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.session_answer_parameters_type_0 import SessionAnswerParametersType0  # noqa: PLC0415

        agents = []
        for agents_item_data in self.agents:
            agents_item = agents_item_data.to_dict()
            agents.append(agents_item)

        approve_by: None | str
        if isinstance(self.approve_by, datetime.datetime):
            approve_by = self.approve_by.isoformat()
        else:
            approve_by = self.approve_by

        approved_at: None | str
        if isinstance(self.approved_at, datetime.datetime):
            approved_at = self.approved_at.isoformat()
        else:
            approved_at = self.approved_at

        id = self.id

        job = self.job

        kind = self.kind

        owner: None | str
        owner = self.owner

        parameters: dict[str, Any] | None
        if isinstance(self.parameters, SessionAnswerParametersType0):
            parameters = self.parameters.to_dict()
        else:
            parameters = self.parameters

        roster: None | str
        roster = self.roster

        round_ = self.round_

        state: str = self.state

        terms = self.terms.to_dict()

        tokens = self.tokens.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "agents": agents,
                "approve_by": approve_by,
                "approved_at": approved_at,
                "id": id,
                "job": job,
                "kind": kind,
                "owner": owner,
                "parameters": parameters,
                "roster": roster,
                "round": round_,
                "state": state,
                "terms": terms,
                "tokens": tokens,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.session_agent_answer import SessionAgentAnswer  # noqa: PLC0415
        from ..models.session_answer_parameters_type_0 import SessionAnswerParametersType0  # noqa: PLC0415
        from ..models.session_answer_terms import SessionAnswerTerms  # noqa: PLC0415
        from ..models.session_answer_tokens import SessionAnswerTokens  # noqa: PLC0415

        d = dict(src_dict)
        agents = []
        _agents = d.pop("agents")
        for agents_item_data in _agents:
            agents_item = SessionAgentAnswer.from_dict(agents_item_data)

            agents.append(agents_item)

        def _parse_approve_by(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                approve_by_type_0 = datetime.datetime.fromisoformat(data)

                return approve_by_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        approve_by = _parse_approve_by(d.pop("approve_by"))

        def _parse_approved_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                approved_at_type_0 = datetime.datetime.fromisoformat(data)

                return approved_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        approved_at = _parse_approved_at(d.pop("approved_at"))

        id = d.pop("id")

        job = d.pop("job")

        kind = d.pop("kind")

        def _parse_owner(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        owner = _parse_owner(d.pop("owner"))

        def _parse_parameters(data: object) -> None | SessionAnswerParametersType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                parameters_type_0 = SessionAnswerParametersType0.from_dict(data)

                return parameters_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SessionAnswerParametersType0, data)

        parameters = _parse_parameters(d.pop("parameters"))

        def _parse_roster(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        roster = _parse_roster(d.pop("roster"))

        round_ = d.pop("round")

        state = check_session_answer_state(d.pop("state"))

        terms = SessionAnswerTerms.from_dict(d.pop("terms"))

        tokens = SessionAnswerTokens.from_dict(d.pop("tokens"))

        session_answer = cls(
            agents=agents,
            approve_by=approve_by,
            approved_at=approved_at,
            id=id,
            job=job,
            kind=kind,
            owner=owner,
            parameters=parameters,
            roster=roster,
            round_=round_,
            state=state,
            terms=terms,
            tokens=tokens,
        )

        session_answer.additional_properties = d
        return session_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
