"""Faults that are put into a running installation: the code that is answered, and what was charged."""

from __future__ import annotations

from discreet.usecases import endings
from tests import bodies
from tests.conftest import Installation
from tests.hostile import Attack, Reached


def _unknown_key(service: Installation) -> Reached:
    """The content is sealed under the key of another installation."""
    import psycopg

    with service.client() as client:
        dataset = client.register(bodies.dataset())
        with psycopg.connect(str(service.settings.migration_database_url), autocommit=True) as connection:
            connection.execute("SELECT set_config('discreet.tenant', '*', false)")
            connection.execute("UPDATE datasets SET content_key_id = 'elsewhere' WHERE id = %s", (dataset["id"],))
        error = client.wait(client.submit(bodies.job(dataset["id"]))["id"])["error"]
        kinds = [entry["kind"] for entry in client.entries(dataset["account"])]
    held = error["code"] == "master_key_unknown" and kinds == ["open", "reserve", "release"]
    return Reached(f"{error['code']}; ledger: {', '.join(kinds)}", held and error["detail"].endswith(endings.NOTHING))


ATTACKS = [
    Attack(
        "3 causes", "a master key that is not known", "master_key_unknown; ledger: open, reserve, release", _unknown_key
    )
]
