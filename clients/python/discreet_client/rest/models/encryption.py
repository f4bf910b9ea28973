from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.encryption_scheme import EncryptionScheme, check_encryption_scheme
from ..types import UNSET, Unset

T = TypeVar("T", bound="Encryption")


@_attrs_define
class Encryption:
    """How the sums are hidden.

    Attributes:
        colluding (int | Unset): Agents that may pool what they know Default: 1.
        fraction_bits (int | Unset):  Default: 32.
        key_bits (int | Unset): Of the Paillier modulus; masking has none Default: 3072.
        scheme (EncryptionScheme | Unset):  Default: 'paillier'.
        slot_bits (int | Unset):  Default: 64.
    """

    colluding: int | Unset = 1
    fraction_bits: int | Unset = 32
    key_bits: int | Unset = 3072
    scheme: EncryptionScheme | Unset = "paillier"
    slot_bits: int | Unset = 64

    def to_dict(self) -> dict[str, Any]:
        colluding = self.colluding

        fraction_bits = self.fraction_bits

        key_bits = self.key_bits

        scheme: str | Unset = UNSET
        if not isinstance(self.scheme, Unset):
            scheme = self.scheme

        slot_bits = self.slot_bits

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if colluding is not UNSET:
            field_dict["colluding"] = colluding
        if fraction_bits is not UNSET:
            field_dict["fraction_bits"] = fraction_bits
        if key_bits is not UNSET:
            field_dict["key_bits"] = key_bits
        if scheme is not UNSET:
            field_dict["scheme"] = scheme
        if slot_bits is not UNSET:
            field_dict["slot_bits"] = slot_bits

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        colluding = d.pop("colluding", UNSET)

        fraction_bits = d.pop("fraction_bits", UNSET)

        key_bits = d.pop("key_bits", UNSET)

        _scheme = d.pop("scheme", UNSET)
        scheme: EncryptionScheme | Unset
        if isinstance(_scheme, Unset):
            scheme = UNSET
        else:
            scheme = check_encryption_scheme(_scheme)

        slot_bits = d.pop("slot_bits", UNSET)

        encryption = cls(
            colluding=colluding,
            fraction_bits=fraction_bits,
            key_bits=key_bits,
            scheme=scheme,
            slot_bits=slot_bits,
        )

        return encryption
