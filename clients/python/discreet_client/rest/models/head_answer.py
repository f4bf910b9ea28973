from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="HeadAnswer")


@_attrs_define
class HeadAnswer:
    """The signed head of a tenant's ledger: Ed25519 over the canonical JSON of `accounts`, or of `[tenant]` where there
    are none.

        Attributes:
            accounts (list[list[int | str]]): Account, number and hash of its last entry; sorted
            format_ (str):
            hash_ (str): SHA-256 of the canonical JSON of `accounts`
            public_key (str):
            seq (int): Number of all entries
            signature (str):
            tenant (str):
    """

    accounts: list[list[int | str]]
    format_: str
    hash_: str
    public_key: str
    seq: int
    signature: str
    tenant: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        accounts = []
        for accounts_item_data in self.accounts:
            accounts_item = []
            for accounts_item_item_data in accounts_item_data:
                accounts_item_item: int | str
                accounts_item_item = accounts_item_item_data
                accounts_item.append(accounts_item_item)

            accounts.append(accounts_item)

        format_ = self.format_

        hash_ = self.hash_

        public_key = self.public_key

        seq = self.seq

        signature = self.signature

        tenant = self.tenant

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "accounts": accounts,
                "format": format_,
                "hash": hash_,
                "public_key": public_key,
                "seq": seq,
                "signature": signature,
                "tenant": tenant,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        accounts = []
        _accounts = d.pop("accounts")
        for accounts_item_data in _accounts:
            accounts_item = []
            _accounts_item = accounts_item_data
            for accounts_item_item_data in _accounts_item:

                def _parse_accounts_item_item(data: object) -> int | str:
                    return cast(int | str, data)

                accounts_item_item = _parse_accounts_item_item(accounts_item_item_data)

                accounts_item.append(accounts_item_item)

            accounts.append(accounts_item)

        format_ = d.pop("format")

        hash_ = d.pop("hash")

        public_key = d.pop("public_key")

        seq = d.pop("seq")

        signature = d.pop("signature")

        tenant = d.pop("tenant")

        head_answer = cls(
            accounts=accounts,
            format_=format_,
            hash_=hash_,
            public_key=public_key,
            seq=seq,
            signature=signature,
            tenant=tenant,
        )

        head_answer.additional_properties = d
        return head_answer

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
