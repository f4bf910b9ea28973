"""What bodies take in memory while they are read and validated: at most 6 times their bytes and 64
MiB."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlencode

import anyio
import pytest
from pydantic import TypeAdapter

from discreet.dashboard import forms
from discreet.errors import InvalidInput, Limit, PayloadTooLarge
from discreet.intake.strict_json import PART_BYTES, Parser, loads, memory_of
from discreet.problems import KINDS
from discreet.settings import Settings
from discreet.usecases.requests import JobRequest
from discreet.web import bodies
from tests.growth import LINEAR, growth
from tests.hostile.bodies import VALUES, array, network_job, traced

JOB: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)
SIZE = 1 << 18


def counted(body: bytes) -> int:
    parser = Parser(most_memory=1 << 60)
    for first in range(0, len(body), PART_BYTES):
        parser.feed(body[first : first + PART_BYTES])
    parser.close()
    return parser.most_taken


@pytest.mark.parametrize("name", VALUES)
def test_nothing_takes_more_memory_than_was_counted(name: str) -> None:
    """What was counted is enough: with the least limit under which a body is read, it takes less
    than that."""
    body = array(name, SIZE)
    loads(body)
    assert traced(lambda: loads(body)) < counted(body) < 130 * len(body)


@pytest.mark.parametrize("name", ['{"a":1}', "[1]", "1"])
def test_many_small_values_are_refused_before_they_are_built(name: str) -> None:
    body = array(name, SIZE)

    def read() -> None:
        with pytest.raises(PayloadTooLarge) as refused:
            loads(body, 2 << 20)
        assert refused.value.limit == Limit("json_memory", "bytes of memory", 2 << 20)

    assert traced(read) < 2 << 20


def test_a_body_may_take_six_times_itself_and_64_mib() -> None:
    body = array("[1]", 8 * SIZE)
    with pytest.raises(PayloadTooLarge) as refused:
        bodies.value_of(body)
    assert refused.value.limit is not None
    assert refused.value.limit.allowed == 6 * len(body) + (64 << 20)


def test_a_legal_network_is_validated_in_memory_of_its_size() -> None:
    body = network_job(5000)
    assert traced(lambda: JOB.validate_python(loads(body))) < 6 * len(body)
    assert anyio.run(bodies.parse, JOB, body).problem.kind == "routing"


def test_a_legal_matrix_of_zeros_is_counted_with_its_model() -> None:
    body = KINDS["dr_ensemble"].example()
    body["problem"] |= {"dataset": "dst_1"}
    body["problem"]["utility"] = [[0] * 300] * 300
    text = json.dumps(body, separators=(",", ":")).encode()
    assert traced(lambda: JOB.validate_python(loads(text))) < counted(text)


@pytest.mark.parametrize("body", [array("17 digits", SIZE), network_job(4000)])
def test_as_large_a_job_as_may_come_has_room_for_figures_of_all_digits(body: bytes) -> None:
    largest = Settings.model_fields["job_body_bytes"].default
    assert counted(body) * largest < memory_of(largest) * len(body)


def test_a_form_is_read_as_the_library_reads_it() -> None:
    text = "\u00e9 +%&=\N{GRINNING FACE}\n" * 20_000
    for body in (
        urlencode({"body": text, "empty": "", "n\u00e9": "1"}).encode(),
        b"a=1&a=2&b=%ff%zz%4&=x&c=" + "\u00e9".encode() * 40_000,
        b"x=" + b"%41" * 60_000,
    ):
        assert forms.parsed(body) == dict(parse_qsl(body.decode(), keep_blank_values=True))
    for body in (b"a", b"a=1&&b=2", b"a=\xff", b"a=1&" * 200 + b"a=1"):
        with pytest.raises(InvalidInput) as refused:
            forms.parsed(body)
        assert refused.value.code == "invalid_form"
    assert forms.parsed(b"") == {}


def test_a_form_of_escapes_takes_memory_and_time_of_its_size() -> None:
    body = b"body=" + b"%41" * SIZE
    assert traced(lambda: forms.parsed(body)) < 4 * len(body) + (4 << 20)  # one piece takes that
    assert growth(lambda size: b"body=" + b"%41" * size, forms.parsed, SIZE // 4) < LINEAR
