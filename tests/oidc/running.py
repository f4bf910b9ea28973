"""The provider of the tests as a process, and an installation that trusts it."""

from __future__ import annotations

import html
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, settings_for
from tests.postgres_fixture import fresh_database

ROOT = Path(__file__).parents[2]
CLIENT, SECRET = "discreet", "the secret of this client"
AUDIENCE = "https://api.discreet.test"
ROLES = {
    "dp-operators": "default:operator",
    "dp-owners": "default:owner",
    "dp-analysts": "default:analyst",
    "dp-auditors": "default:auditor",
    "dp/{tenant}/owner": "{tenant}:owner",
    "dp/{tenant}/analyst": "{tenant}:analyst",
}


@dataclass
class RunningProvider:
    """The provider's process. On `localhost`, while the service is on 127.0.0.1: browsers take them
    for two sites."""

    issuer: str
    process: subprocess.Popen[bytes]

    def control(self, **said: Any) -> dict[str, Any]:
        answer = httpx.post(
            f"{self.issuer}/control", json=said, timeout=DEADLINE_SECONDS, trust_env=False
        )
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def person(self, login: str, *groups: str, subject: str | None = None, **claims: Any) -> str:
        """Somebody with the password `<login>'s password`; their subject."""
        subject = subject or f"sub-of-{login}"
        terms = {"subject": subject, "password": f"{login}'s password"}
        told = {"groups": list(groups), "name": login.title(), **claims}
        self.control(person={"login": login, "terms": {**terms, "claims": told}})
        return subject

    def mint(self, login: str, **wanted: Any) -> str:
        return str(self.control(mint={"login": login, **wanted})["token"])

    @contextmanager
    def faulty(self, **faults: Any) -> Iterator[None]:
        self.control(faults=faults)
        try:
            yield
        finally:
            self.control(faults={})

    def asked(self, what: str) -> int:
        return int(self.control()["asked"].get(what, 0))

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=DEADLINE_SECONDS / 5)


@contextmanager
def provider() -> Iterator[RunningProvider]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        issuer = f"http://localhost:{listener.getsockname()[1]}"
        command = [
            sys.executable,
            "-m",
            "tests.oidc.provider",
            "--fd",
            str(listener.fileno()),
            "--issuer",
            issuer,
        ]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=(listener.fileno(),))
        running = RunningProvider(issuer, process)
        try:
            httpx.get(f"{issuer}/jwks", timeout=DEADLINE_SECONDS, trust_env=False)
            yield running
        finally:
            running.stop()


@contextmanager
def trusting(
    postgres: EmbeddedPostgres, template: str, state: Path, provider: RunningProvider, **extra: str
) -> Iterator[Installation]:
    """An API that trusts the provider, on a database of its own."""
    with fresh_database(postgres, template) as database:
        running = Installation(settings_for(database, state))
        running.listen()
        secret = state / "client-secret"
        secret.write_text(SECRET + "\n")
        running.extra |= {
            "DISCREET_PUBLIC_URL": running.url,
            "DISCREET_OIDC_ISSUER": provider.issuer,
            "DISCREET_OIDC_NAME": "Example Hospital",
            "DISCREET_OIDC_CLIENT_ID": CLIENT,
            "DISCREET_OIDC_CLIENT_SECRET_FILE": str(secret),
            "DISCREET_OIDC_AUDIENCE": AUDIENCE,
            "DISCREET_OIDC_ROLES": json.dumps(ROLES),
            **extra,
        }
        terms = {
            "secret": SECRET,
            "redirects": [f"{running.url}/sign-in/callback"],
            "logouts": [f"{running.url}/login"],
            "backchannel": f"{running.url}/sign-in/ended",
        }
        provider.control(client={"id": CLIENT, "terms": terms})
        running.make_keys()
        running.start_api()
        try:
            yield running
        finally:
            running.stop()


class Visitor:
    """A browser without a screen, on its way between the service and the provider: it keeps cookies
    of both apart."""

    def __init__(self, running: Installation) -> None:
        self.running = running
        self.jars: dict[str, httpx.Client] = {}

    def __enter__(self) -> Visitor:
        return self

    def __exit__(self, *error: object) -> None:
        for jar in self.jars.values():
            jar.close()

    def ask(self, method: str, url: str, **request: Any) -> httpx.Response:
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        if origin not in self.jars:
            self.jars[origin] = httpx.Client(
                headers={"Accept": "text/html"}, timeout=DEADLINE_SECONDS, trust_env=False
            )
        return self.jars[origin].request(method, url, **request)

    @property
    def own(self) -> httpx.Client:
        """What keeps the service's cookies."""
        if self.running.url not in self.jars:
            self.ask("GET", f"{self.running.url}/login")
        return self.jars[self.running.url]

    def to_the_form(self, next: str = "/") -> tuple[str, dict[str, str]]:  # noqa: A002
        """From the login page to the provider's form: where that goes, and its hidden fields."""
        begun = self.ask("GET", f"{self.running.url}/sign-in", params={"next": next})
        assert begun.status_code == 303, begun.text
        address = begun.headers["location"]
        form = self.ask("GET", address)
        assert form.status_code == 200, form.text
        fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form.text))
        return "{0.scheme}://{0.netloc}/authorize".format(urlsplit(address)), fields

    def to_the_answer(self, login: str, next: str = "/") -> str:  # noqa: A002
        """Log in at the provider: the address to which it sends the browser back."""
        place, fields = self.to_the_form(next)
        fields = {name: html.unescape(value) for name, value in fields.items()}
        back = self.ask(
            "POST", place, data={**fields, "login": login, "password": f"{login}'s password"}
        )
        assert back.status_code == 303, back.text
        return str(back.headers["location"])

    def log_in(self, login: str, next: str = "/") -> httpx.Response:  # noqa: A002
        """The page on which the login ends."""
        return self.ask("GET", self.to_the_answer(login, next))

    def status(self, path: str = "/jobs") -> int:
        return self.own.get(self.running.url + path).status_code


def ask(
    running: Installation, token: str, method: str = "GET", path: str = "/v1/jobs", **request: Any
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}", **request.pop("headers", {})}
    return httpx.request(
        method,
        running.url + path,
        headers=headers,
        timeout=DEADLINE_SECONDS,
        trust_env=False,
        **request,
    )


__all__ = [
    "AUDIENCE",
    "CLIENT",
    "RunningProvider",
    "Visitor",
    "ask",
    "eventually",
    "provider",
    "trusting",
]
