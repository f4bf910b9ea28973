"""The chain of one account, checked as it grows."""

from __future__ import annotations

from collections.abc import Mapping

from discreet.ledger.blocks import Block
from discreet.ledger.entries import (
    GENESIS,
    IDENTITY,
    Account,
    Broken,
    Fault,
    follow,
    read_entry,
    require,
)


class Chain:
    """The chain of one account, checked as it grows: what was checked once is remembered by its
    number and hash.

    It notices a change of an entry that it has passed only by the entries that follow; a check of
    everything begins with a new chain.
    """

    def __init__(self, tenant: str, account: str) -> None:
        self._tenant, self._name = tenant, account
        self._account: Account | None = None

    @property
    def seq(self) -> int:
        """Number of the last entry that holds; 0 before the first."""
        return 0 if self._account is None else self._account.seq

    @property
    def hash(self) -> bytes:
        return GENESIS if self._account is None else self._account.hash

    @property
    def blocks(self) -> Mapping[int, Block]:
        """Of the chain of a source: each block by its number, as it stands."""
        return {} if self._account is None else self._account.blocks

    def follow(self, line: bytes) -> None:
        """Check the next entry, a line as in an export. Broken when it does not hold; no entry can
        follow it then."""
        body_bytes, body, digest, previous = read_entry(line, self._account)
        seq = self.seq + 1
        try:
            require(
                (body["tenant"], body["account"]) == (self._tenant, self._name),
                "it belongs to another account",
            )
            account = self._account or Account({name: body[name] for name in IDENTITY})
            follow(account, body_bytes, body, digest, previous)
        except Fault as fault:
            raise Broken(str(fault), self._name, seq) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Broken("it is not an entry in this format", self._name, seq) from None
        self._account = account
