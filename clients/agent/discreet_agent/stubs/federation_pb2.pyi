from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EnrollRequest(_message.Message):
    __slots__ = ("session", "public_key", "nonce", "timestamp_ms", "content", "signature")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    session: str
    public_key: bytes
    nonce: bytes
    timestamp_ms: int
    content: bytes
    signature: bytes
    def __init__(self, session: _Optional[str] = ..., public_key: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., timestamp_ms: _Optional[int] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Enrolment(_message.Message):
    __slots__ = ("token", "name", "unit", "cap_epsilon", "cap_delta", "announcement", "speaks")
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    CAP_EPSILON_FIELD_NUMBER: _ClassVar[int]
    CAP_DELTA_FIELD_NUMBER: _ClassVar[int]
    ANNOUNCEMENT_FIELD_NUMBER: _ClassVar[int]
    SPEAKS_FIELD_NUMBER: _ClassVar[int]
    token: str
    name: str
    unit: str
    cap_epsilon: str
    cap_delta: str
    announcement: bytes
    speaks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, token: _Optional[str] = ..., name: _Optional[str] = ..., unit: _Optional[str] = ..., cap_epsilon: _Optional[str] = ..., cap_delta: _Optional[str] = ..., announcement: _Optional[bytes] = ..., speaks: _Optional[_Iterable[str]] = ...) -> None: ...

class EnrollResponse(_message.Message):
    __slots__ = ("public_key", "content", "signature")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    content: bytes
    signature: bytes
    def __init__(self, public_key: _Optional[bytes] = ..., content: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Enrolled(_message.Message):
    __slots__ = ("session", "job", "fingerprint", "account", "nonce")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    session: str
    job: str
    fingerprint: str
    account: str
    nonce: bytes
    def __init__(self, session: _Optional[str] = ..., job: _Optional[str] = ..., fingerprint: _Optional[str] = ..., account: _Optional[str] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class AgentMessage(_message.Message):
    __slots__ = ("content", "round", "sequence", "timestamp_ms", "signature", "mac")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    MAC_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    round: int
    sequence: int
    timestamp_ms: int
    signature: bytes
    mac: bytes
    def __init__(self, content: _Optional[bytes] = ..., round: _Optional[int] = ..., sequence: _Optional[int] = ..., timestamp_ms: _Optional[int] = ..., signature: _Optional[bytes] = ..., mac: _Optional[bytes] = ...) -> None: ...

class AgentContent(_message.Message):
    __slots__ = ("hello", "accept", "contribution", "decline")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_FIELD_NUMBER: _ClassVar[int]
    CONTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    DECLINE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    accept: Accept
    contribution: Contribution
    decline: Decline
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., accept: _Optional[_Union[Accept, _Mapping]] = ..., contribution: _Optional[_Union[Contribution, _Mapping]] = ..., decline: _Optional[_Union[Decline, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("session", "public_key", "nonce", "exchange")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    session: str
    public_key: bytes
    nonce: bytes
    exchange: bytes
    def __init__(self, session: _Optional[str] = ..., public_key: _Optional[bytes] = ..., nonce: _Optional[bytes] = ..., exchange: _Optional[bytes] = ...) -> None: ...

class Accept(_message.Message):
    __slots__ = ("roster_digest", "charge_digest", "ledger_seq", "ledger_signature", "ledger_link")
    ROSTER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CHARGE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEDGER_SEQ_FIELD_NUMBER: _ClassVar[int]
    LEDGER_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    LEDGER_LINK_FIELD_NUMBER: _ClassVar[int]
    roster_digest: bytes
    charge_digest: bytes
    ledger_seq: int
    ledger_signature: bytes
    ledger_link: bytes
    def __init__(self, roster_digest: _Optional[bytes] = ..., charge_digest: _Optional[bytes] = ..., ledger_seq: _Optional[int] = ..., ledger_signature: _Optional[bytes] = ..., ledger_link: _Optional[bytes] = ...) -> None: ...

class Decline(_message.Message):
    __slots__ = ("code",)
    CODE_FIELD_NUMBER: _ClassVar[int]
    code: str
    def __init__(self, code: _Optional[str] = ...) -> None: ...

class Contribution(_message.Message):
    __slots__ = ("body", "answers")
    BODY_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    body: bytes
    answers: bytes
    def __init__(self, body: _Optional[bytes] = ..., answers: _Optional[bytes] = ...) -> None: ...

class OperatorMessage(_message.Message):
    __slots__ = ("content", "signature")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    signature: bytes
    def __init__(self, content: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class OperatorContent(_message.Message):
    __slots__ = ("challenge", "waiting", "start", "round", "end")
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    challenge: Challenge
    waiting: Waiting
    start: Start
    round: Round
    end: End
    def __init__(self, challenge: _Optional[_Union[Challenge, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., start: _Optional[_Union[Start, _Mapping]] = ..., round: _Optional[_Union[Round, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Challenge(_message.Message):
    __slots__ = ("nonce", "timestamp_ms", "public_key", "exchange")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    timestamp_ms: int
    public_key: bytes
    exchange: bytes
    def __init__(self, nonce: _Optional[bytes] = ..., timestamp_ms: _Optional[int] = ..., public_key: _Optional[bytes] = ..., exchange: _Optional[bytes] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ()
    FOR_FIELD_NUMBER: _ClassVar[int]
    def __init__(self, **kwargs) -> None: ...

class Start(_message.Message):
    __slots__ = ("roster", "roster_signature", "owner_key", "charge", "charge_signature", "parameters", "rounds")
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    ROSTER_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    OWNER_KEY_FIELD_NUMBER: _ClassVar[int]
    CHARGE_FIELD_NUMBER: _ClassVar[int]
    CHARGE_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    roster: bytes
    roster_signature: bytes
    owner_key: bytes
    charge: bytes
    charge_signature: bytes
    parameters: bytes
    rounds: int
    def __init__(self, roster: _Optional[bytes] = ..., roster_signature: _Optional[bytes] = ..., owner_key: _Optional[bytes] = ..., charge: _Optional[bytes] = ..., charge_signature: _Optional[bytes] = ..., parameters: _Optional[bytes] = ..., rounds: _Optional[int] = ...) -> None: ...

class Round(_message.Message):
    __slots__ = ("number", "broadcast", "transcript", "milliseconds", "delivery")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    MILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    number: int
    broadcast: bytes
    transcript: bytes
    milliseconds: int
    delivery: bytes
    def __init__(self, number: _Optional[int] = ..., broadcast: _Optional[bytes] = ..., transcript: _Optional[bytes] = ..., milliseconds: _Optional[int] = ..., delivery: _Optional[bytes] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("state", "code", "broadcast", "transcript", "rounds", "charged", "blamed")
    STATE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    BROADCAST_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    BLAMED_FIELD_NUMBER: _ClassVar[int]
    state: str
    code: str
    broadcast: bytes
    transcript: bytes
    rounds: int
    charged: bool
    blamed: _containers.RepeatedCompositeFieldContainer[Blamed]
    def __init__(self, state: _Optional[str] = ..., code: _Optional[str] = ..., broadcast: _Optional[bytes] = ..., transcript: _Optional[bytes] = ..., rounds: _Optional[int] = ..., charged: _Optional[bool] = ..., blamed: _Optional[_Iterable[_Union[Blamed, _Mapping]]] = ...) -> None: ...

class Blamed(_message.Message):
    __slots__ = ("fingerprint", "cause")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    cause: str
    def __init__(self, fingerprint: _Optional[str] = ..., cause: _Optional[str] = ...) -> None: ...
