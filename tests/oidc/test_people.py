"""What a removal takes with it, who may remove whom, and what two that come at once can do to each
other."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from discreet.usecases.keyring import TRUST_SECONDS
from tests.cli.test_cli import discreet
from tests.conftest import DEADLINE_SECONDS, Installation
from tests.oidc.running import RunningProvider, Visitor, ask


def make_key(trusted: Installation, by: str, role: str = "owner", **more: Any) -> httpx.Response:
    return ask(trusted, by, "POST", "/v1/keys", json={"role": role, "principal": "made", **more})


def made(trusted: Installation, by: str, role: str = "owner", **more: Any) -> dict[str, Any]:
    answer = make_key(trusted, by, role, **more)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def opens(trusted: Installation, key: str) -> bool:
    answer = ask(trusted, key, path="/v1/budgets")
    assert answer.status_code in (200, 401, 403), answer.text  # 403: an operator's sees no budgets
    return answer.status_code != 401


def shut(trusted: Installation, key: str) -> bool:
    """Whether the key opens nothing for who asks when a process may trust it no more: at once where
    the notice comes first, which a busy machine does not promise."""
    trusted_until = time.monotonic() + TRUST_SECONDS
    while True:
        late = time.monotonic() > trusted_until
        if not opens(trusted, key):
            return True
        if late:
            return False


def remove(trusted: Installation, by: str, login: str, **more: Any) -> httpx.Response:
    said = {"subject": f"sub-of-{login}", "active": False, **more}
    return ask(trusted, by, "PUT", "/v1/people", json=said)


def restore(trusted: Installation, by: str, login: str) -> None:
    assert ask(
        trusted, by, "PUT", "/v1/people", json={"subject": f"sub-of-{login}", "active": True}
    ).is_success


def fresh(op: RunningProvider, login: str, **claims: Any) -> str:
    """A token from after a removal that was just now."""
    return op.mint(login, claims={"iat": int(time.time()) + 5, **claims})


def test_keys_go_with_who_made_them_and_with_their_keys(
    trusted: Installation, op: RunningProvider
) -> None:
    owner = trusted.owner_of("keys")
    op.person("kate", "dp/keys/owner")
    kate = op.mint("kate")
    first = made(trusted, kate)
    second = made(trusted, first["key"])
    third = made(trusted, second["key"], "analyst")
    dead = made(trusted, kate, "auditor")
    assert ask(trusted, owner, "DELETE", f"/v1/keys/{dead['id']}").status_code == 204
    other = made(trusted, owner, "analyst")
    done = remove(trusted, owner, "kate")
    assert done.status_code == 200, done.text
    gone = [first, second, third]
    assert done.json()["revoked_keys"] == sorted(one["id"] for one in gone)
    assert done.json()["kept_keys"] == []
    assert not any(opens(trusted, one["key"]) for one in gone)
    assert opens(trusted, other["key"])
    assert opens(trusted, owner)
    noted = ask(trusted, owner, path="/v1/audit-log", params={"action": "key.revoke"}).json()[
        "changes"
    ]
    said = {one["object"]: one["details"].get("made_by") for one in noted}
    assert said == {
        dead["id"]: None,
        **dict.fromkeys((one["id"] for one in gone), f"{op.issuer}#sub-of-kate"),
    }
    restore(trusted, owner, "kate")
    assert ask(trusted, fresh(op, "kate"), path="/v1/budgets").status_code == 200
    assert not any(opens(trusted, one["key"]) for one in gone)  # who comes back makes new ones


def test_keys_can_be_kept(trusted: Installation, op: RunningProvider) -> None:
    owner = trusted.owner_of("kept")
    op.person("kim", "dp/kept/owner")
    key = made(trusted, op.mint("kim"))
    done = remove(trusted, owner, "kim", keep_keys=True).json()
    assert (done["revoked_keys"], done["kept_keys"]) == ([], [key["id"]])
    assert opens(trusted, key["key"])
    (person,) = ask(trusted, owner, path="/v1/people", params={"subject": "sub-of-kim"}).json()[
        "people"
    ]
    path = f"/v1/people/{person['id']}"
    assert ask(trusted, owner, "DELETE", path, params={"keep_keys": "true"}).status_code == 204
    assert opens(trusted, key["key"])
    assert ask(trusted, owner, "DELETE", path, params={"keep_keys": "perhaps"}).status_code == 422
    assert ask(trusted, owner, "DELETE", path).status_code == 204
    assert shut(trusted, key["key"])


def test_an_owner_takes_nothing_from_another_tenant(
    trusted: Installation, op: RunningProvider
) -> None:
    """Somebody who was an operator has made keys elsewhere, and an operator's: an operator takes
    them all."""
    owner, elsewhere = trusted.owner_of("here"), trusted.owner_of("elsewhere")
    trusted.owner_of("there")
    op.person("olga")
    operator = op.mint("olga", claims={"groups": ["dp-operators"]})
    there = made(trusted, operator, "analyst", tenant="there")
    high = made(trusted, operator, "operator", tenant="here")
    lately = op.mint("olga", claims={"groups": ["dp/here/owner"]})
    here = made(trusted, lately, "analyst")
    for by in (elsewhere, made(trusted, owner, "analyst")["key"]):
        refused = remove(trusted, by, "olga")
        assert refused.status_code in (
            200,
            403,
        )  # of the own tenant they never were, or no right at all
        assert opens(trusted, here["key"])
    done = remove(trusted, owner, "olga").json()
    assert (done["revoked_keys"], done["kept_keys"]) == ([here["id"]], [high["id"]])
    assert opens(trusted, there["key"])
    assert opens(trusted, high["key"])
    assert (
        ask(trusted, owner, "DELETE", f"/v1/keys/{high['id']}").status_code == 403
    )  # nor one by one
    done = remove(trusted, trusted.operator_key, "olga").json()
    assert done["revoked_keys"] == sorted((there["id"], high["id"]))
    assert shut(trusted, there["key"])


def test_an_owner_removes_no_operator(trusted: Installation, op: RunningProvider) -> None:
    op.person("otto", "dp-operators")
    otto = op.mint("otto")
    assert ask(trusted, otto, path="/v1/people").status_code == 200
    (person,) = ask(trusted, otto, path="/v1/people", params={"subject": "sub-of-otto"}).json()[
        "people"
    ]
    assert remove(trusted, trusted.owner_key, "otto").status_code == 403
    assert (
        ask(trusted, trusted.owner_key, "DELETE", f"/v1/people/{person['id']}").status_code == 403
    )
    assert ask(trusted, otto, path="/v1/people").status_code == 200
    (listed,) = [
        one
        for one in ask(trusted, otto, path="/v1/keys").json()["keys"]
        if one["role"] == "operator"
    ][:1]
    assert ask(trusted, trusted.owner_key, "DELETE", f"/v1/keys/{listed['id']}").status_code == 403
    assert remove(trusted, trusted.operator_key, "otto").status_code == 200
    assert ask(trusted, fresh(op, "otto"), path="/v1/people").json()["code"] == "person_removed"


def test_who_comes_as_an_operator_was_not_an_owners_to_remove(
    trusted: Installation, op: RunningProvider
) -> None:
    """Not before they first come, and not while they were less. A token from before the removal
    undoes nothing: by then the provider may have taken the role back."""
    op.person("oda")
    old = op.mint("oda", claims={"groups": ["dp-operators"]})
    assert remove(trusted, trusted.owner_key, "oda").status_code == 200
    assert ask(trusted, old, path="/v1/people").status_code == 401
    assert (
        ask(trusted, fresh(op, "oda", groups=["dp-analysts"]), path="/v1/budgets").json()["code"]
        == "person_removed"
    )
    assert (
        ask(trusted, fresh(op, "oda", groups=["dp-operators"]), path="/v1/people").status_code
        == 200
    )
    noted = ask(
        trusted, trusted.operator_key, path="/v1/audit-log", params={"action": "person.restore"}
    ).json()
    assert noted["changes"][0]["object"] == f"{op.issuer}#sub-of-oda"
    assert remove(trusted, trusted.operator_key, "oda").status_code == 200
    refused = ask(
        trusted, fresh(op, "oda", groups=["dp-operators"], jti="again"), path="/v1/people"
    )
    assert refused.json()["code"] == "person_removed"


def test_nobody_removes_themselves(trusted: Installation, op: RunningProvider) -> None:
    """So whoever removes the last owner, or the last operator but one, is still there and can undo
    it."""
    owner = trusted.owner_of("alone")
    op.person("sam", "dp/alone/owner")
    sam = op.mint("sam")
    refused = remove(trusted, sam, "sam")
    assert (refused.status_code, refused.json()["code"]) == (409, "oneself")
    (person,) = ask(trusted, sam, path="/v1/people").json()["people"]
    assert ask(trusted, sam, "DELETE", f"/v1/people/{person['id']}").json()["code"] == "oneself"
    key = made(trusted, sam)
    child = made(trusted, key["key"])
    for own in (key, child):  # it would end the key that asks, too
        assert remove(trusted, own["key"], "sam").json()["code"] == "oneself"
    assert opens(trusted, child["key"])
    assert ask(trusted, sam, path="/v1/budgets").status_code == 200
    assert remove(trusted, key["key"], "sam", keep_keys=True).status_code == 200
    restore(trusted, owner, "sam")
    assert ask(trusted, fresh(op, "sam"), path="/v1/budgets").status_code == 200
    op.person("ona", "dp-operators")
    ona = op.mint("ona")
    assert remove(trusted, ona, "ona").json()["code"] == "oneself"
    assert ask(trusted, ona, path="/v1/people").status_code == 200


def test_two_who_remove_each_other_leave_one(trusted: Installation, op: RunningProvider) -> None:
    trusted.owner_of("duel")
    for turn in range(4):
        logins = [f"duel-{turn}-{side}" for side in "ab"]
        for login in logins:
            op.person(login, "dp/duel/owner")
        tokens = {login: op.mint(login) for login in logins}
        for token in tokens.values():  # both are known here, and kept in memory
            assert ask(trusted, token, path="/v1/budgets").status_code == 200
        start = threading.Barrier(2)

        def strike(
            by: str, other: str, start: threading.Barrier = start, tokens: dict[str, str] = tokens
        ) -> int:
            start.wait()
            return remove(trusted, tokens[by], other).status_code

        with ThreadPoolExecutor(2) as pool:
            statuses = list(pool.map(strike, logins, logins[::-1]))
        assert sorted(statuses) == [200, 401], statuses
        survivor = logins[statuses.index(200)]
        assert ask(trusted, tokens[survivor], path="/v1/budgets").status_code == 200


def test_no_key_is_made_by_somebody_who_is_out(trusted: Installation, op: RunningProvider) -> None:
    """With the person's token and with a key of theirs, in many hands at once, while they are
    removed."""
    owner = trusted.owner_of("race")
    op.person("rob", "dp/race/owner")
    token = op.mint("rob")
    key = made(trusted, token, principal="by rob")["key"]
    stop = time.monotonic() + DEADLINE_SECONDS
    begun = threading.Barrier(7)

    def hammer(by: str) -> int:
        begun.wait()
        count = 0
        while time.monotonic() < stop:
            answer = make_key(trusted, by, principal="by rob")
            if answer.status_code == 401:
                return count
            assert answer.status_code == 201, answer.text
            count += 1
        raise AssertionError("nobody was stopped")

    with ThreadPoolExecutor(6) as pool:
        hands = [pool.submit(hammer, by) for by in (token, key) * 3]
        begun.wait()
        time.sleep(0.2)
        done = remove(trusted, owner, "rob")
        assert done.status_code == 200, done.text
        counts = [hand.result() for hand in hands]
    keys = [
        one
        for one in ask(trusted, owner, path="/v1/keys").json()["keys"]
        if one["principal"] == "by rob"
    ]
    assert len(keys) == sum(counts) + 1
    assert sum(counts) > 0
    assert {one["id"] for one in keys if one["revoked_at"] is None} == set()
    assert len(done.json()["revoked_keys"]) == len(keys)


def test_people_on_the_page(trusted: Installation, op: RunningProvider) -> None:
    """An owner sees no buttons for what an owner may not do, and is told so where the form comes
    all the same."""
    op.person("paul", "dp-owners")
    op.person("opal", "dp-operators")
    assert ask(trusted, op.mint("opal"), path="/v1/people").status_code == 200
    key = made(trusted, trusted.operator_key, "operator", tenant="default")
    listed = ask(trusted, trusted.owner_key, path="/v1/people").json()["people"]
    (opal,) = [one["id"] for one in listed if one["subject"] == "sub-of-opal"]
    with Visitor(trusted) as visitor:
        assert visitor.log_in("paul").status_code == 200
        page = visitor.own.get(f"{trusted.url}/admin")
        assert page.status_code == 200
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[0]
        for path in (f"/admin/people/{opal}/remove", f"/admin/keys/{key['id']}/revoke"):
            assert path not in page.text
            refused = visitor.own.post(
                trusted.url + path, data={"csrf": csrf}, headers={"Origin": trusted.url}
            )
            assert (refused.status_code, "an owner cannot re" in refused.text) == (403, True)
        (paul,) = re.findall(r"/admin/people/(per_\w+)/remove(?=[^<]*Paul)", page.text)
        own = visitor.own.post(
            f"{trusted.url}/admin/people/{paul}/remove",
            data={"csrf": csrf},
            headers={"Origin": trusted.url},
        )
        assert (own.status_code, "nobody removes themselves" in own.text) == (409, True)
        assert visitor.status() == 200
    assert ask(trusted, op.mint("opal"), path="/v1/people").status_code == 200
    assert opens(trusted, key["key"])


def test_people_on_the_command_line(trusted: Installation, op: RunningProvider) -> None:
    owner = trusted.owner_of("shell")
    op.person("zoe", "dp/shell/owner")
    key = made(trusted, op.mint("zoe"))
    server = {"DISCREET_URL": trusted.url, "DISCREET_KEY": owner}

    def people(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = discreet("people", *arguments, **server)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
        return done

    (person,) = json.loads(people("list", "--json").stdout)
    assert (person["subject"], person["removed_at"]) == ("sub-of-zoe", None)
    done = people("remove", person["id"])
    assert done.stdout.splitlines() == ["sub-of-zoe is out", f"{key['id']} opens nothing any more"]
    assert shut(trusted, key["key"])
    assert "removed" in people("list").stdout
    assert people("restore", person["principal"]).stdout == "sub-of-zoe may come in again\n"
    assert "no such person" in people("restore", "sub-of-zoe", code=1).stderr
    assert "nobody per_none" in people("remove", "per_none", code=1).stderr


def test_others_remove_nobody(trusted: Installation) -> None:
    owner = trusted.owner_of("others")
    for role in ("analyst", "auditor"):
        key = made(trusted, owner, role)["key"]
        assert remove(trusted, key, "anybody").status_code == 403
        assert ask(trusted, key, path="/v1/people").status_code == 403
