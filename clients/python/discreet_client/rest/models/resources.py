from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Resources")


@_attrs_define
class Resources:
    """What one job may take, from public figures alone.

    Attributes:
        memory_bytes (int):
        release_quantum_seconds (float): Touching the data takes a multiple of this, whatever they are
        steps (int): Steps that progress counts to
    """

    memory_bytes: int
    release_quantum_seconds: float
    steps: int

    def to_dict(self) -> dict[str, Any]:
        memory_bytes = self.memory_bytes

        release_quantum_seconds = self.release_quantum_seconds

        steps = self.steps

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "memory_bytes": memory_bytes,
                "release_quantum_seconds": release_quantum_seconds,
                "steps": steps,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        memory_bytes = d.pop("memory_bytes")

        release_quantum_seconds = d.pop("release_quantum_seconds")

        steps = d.pop("steps")

        resources = cls(
            memory_bytes=memory_bytes,
            release_quantum_seconds=release_quantum_seconds,
            steps=steps,
        )

        return resources
