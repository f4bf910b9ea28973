"""The providers of an installation, as `DISCREET_KEYS` names them, and the keys that a process has
opened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.ledger.entries import Signer
from discreet.storage.keys.provider import FileKeys, KeyProvider, MasterKey, Purpose, SecretsError

if TYPE_CHECKING:
    from discreet.settings import Settings

Opened = TypeVar("Opened")


class Keys:
    """Opens the texts of a secrets file, each once in the life of a process; new keys come from the
    first provider."""

    def __init__(self, *providers: KeyProvider) -> None:
        self.providers = providers
        self._opened: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> Keys:
        """As the settings say. SecretsError where they name no such place, or its library is not
        installed. Nothing is asked of any place yet."""
        places = settings.keys.split()
        if not places:
            raise SecretsError("DISCREET_KEYS names no place for keys")
        return cls(*[_provider(uri, settings.keys_pin) for uri in places])

    @property
    def maker(self) -> KeyProvider:
        """Where new keys are made."""
        return self.providers[0]

    @property
    def name(self) -> str:
        """All places, the first of new keys."""
        return ", ".join(dict.fromkeys(one.name for one in self.providers))

    def provider(self, text: str) -> KeyProvider:
        """The provider of this text; SecretsError if it belongs to none that is named."""
        for one in self.providers:
            if one.holds(text):
                return one
        scheme = text.partition(":")[0] if ":" in text else "file"
        raise SecretsError(
            f"the secrets file has a key of a place ({scheme}) that DISCREET_KEYS does not name"
        )

    def secret(self, purpose: Purpose, text: str) -> bytes:
        return self._once(purpose, text, lambda: self.provider(text).unlock(purpose, text))

    def master_key(self, text: str) -> MasterKey:
        return self._once("master key", text, lambda: self.provider(text).master_key(text))

    def signer(self, text: str) -> Signer:
        return self._once("signer", text, lambda: self.provider(text).signer(text))

    def are_open(self, texts: set[str]) -> bool:
        """Whether these keys can be had without asking any place."""
        with self._lock:
            known = {text for _, text in self._opened}
        return all(":" not in text or text in known for text in texts)

    def forget_others(self, texts: set[str]) -> None:
        """Forget all other keys, so that retired ones leave this process's memory too."""
        with self._lock:
            self._opened = {name: key for name, key in self._opened.items() if name[1] in texts}

    def check(self) -> None:
        """DiscreetError where a place cannot be used that is needed while the service runs."""
        for one in self.providers:
            one.check()

    def _once(self, use: str, text: str, opened: Callable[[], Opened]) -> Opened:
        if ":" not in text:  # it is the key
            return opened()
        with self._lock:
            known: Opened | None = self._opened.get((use, text))
        if known is None:
            known = opened()
            with self._lock:
                self._opened[use, text] = known
        return known


IN_FILE = Keys(FileKeys())
"""Where nothing else is set."""


def _provider(uri: str, pin: str | None) -> KeyProvider:
    scheme = uri.partition(":")[0]
    try:
        if scheme == "pkcs11":
            from discreet.storage.keys.token import TokenKeys  # noqa: PLC0415  of an extra

            return TokenKeys.at(uri, pin)
        if scheme == "awskms":
            from discreet.storage.keys.aws_kms import KmsKeys  # noqa: PLC0415  of an extra

            return KmsKeys.at(uri)
    except ImportError as error:
        extra = {"pkcs11": "pkcs11", "awskms": "kms"}[scheme]
        raise SecretsError(
            f"DISCREET_KEYS names {scheme}:, which needs the extra `discreet[{extra}]`"
        ) from error
    if uri != "file":
        raise SecretsError(
            "DISCREET_KEYS: a place that it names is none for keys; choose file, pkcs11:… or "
            "awskms:///…"
        )
    return FileKeys()
