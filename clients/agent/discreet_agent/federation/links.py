"""The text that invites an agent: `dsc://host:port/ses_…?token=…&server=…&owner=…&tls=…`.

It pins the keys that the agent trusts: `server`, the fingerprint of the Ed25519 key that signs for
the operator; `owner`, that of the key that signs the roster; `tls`, the SHA-256 of the server's
certificate (DER), or `ca` for one that a known authority signed. Without `tls` nothing is
encrypted, which an agent accepts for a loopback address only. A member of a standing group needs no
`token`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

from discreet_agent.federation.errors import BadLink

SCHEME = "dsc"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_SESSION = re.compile(r"ses_[0-9a-z]{1,64}")


@dataclass(frozen=True)
class Link:
    """The address of a session, and the keys to trust."""

    host: str
    port: int
    session: str
    server: str
    owner: str
    token: str = field(default="", repr=False)
    tls: str = ""

    @property
    def address(self) -> str:
        """host:port as gRPC writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    def __str__(self) -> str:
        query = {"token": self.token, "server": self.server, "owner": self.owner, "tls": self.tls}
        words = urlencode({name: value for name, value in query.items() if value})
        return f"{SCHEME}://{self.address}/{self.session}?{words}"

    @classmethod
    def parse(cls, text: str) -> Link:
        """The link that the text describes; BadLink, whose message never repeats the text, since it
        holds a secret."""
        try:
            parts = urlsplit(text.strip())
            query = parse_qs(parts.query, strict_parsing=True)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise BadLink(
                "the token is not of the form dsc://host:port/ses_…?token=…&server=…&owner=…"
            ) from None
        found = {name: values[0] for name, values in query.items()}
        session = parts.path.removeprefix("/")
        if parts.scheme != SCHEME or not host or not port or not _SESSION.fullmatch(session):
            raise BadLink(
                "the token is not of the form dsc://host:port/ses_…?token=…&server=…&owner=…"
            )
        for name in ("server", "owner"):
            if not _FINGERPRINT.fullmatch(found.get(name, "")):
                raise BadLink(
                    f"the token pins no {name}: `{name}` is a fingerprint of 64 hexadecimal digits"
                )
        tls = found.get("tls", "")
        if tls not in ("", "ca") and not _FINGERPRINT.fullmatch(tls):
            raise BadLink("`tls` is a fingerprint of 64 hexadecimal digits, or `ca`")
        return cls(
            host, port, session, found["server"], found["owner"], found.get("token", ""), tls
        )


def is_loopback(host: str) -> bool:
    """Whether a host is certain to be this machine; no name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
