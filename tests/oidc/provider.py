"""A small OpenID provider, a server of its own: `python -m tests.oidc.provider --fd N --issuer
URL`.

Discovery, keys with rotation, authorize with a login form, token with PKCE, userinfo, end_session,
back-channel logout. It checks what a provider must check. What it answers can be made wrong by name
(`faults`); `/control` is the administrator's console: people, keys, and tokens of any content.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import html
import json
import secrets
import socket
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
import uvicorn
from fastapi import FastAPI, Request
from joserfc import jws, jwt
from joserfc.jwk import ECKey, Key, RSAKey, import_key
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


@dataclass
class Person:
    subject: str
    password: str
    claims: dict[str, Any] = field(default_factory=dict)
    disabled: bool = False


@dataclass
class Client:
    secret: str | None
    redirects: list[str]
    logouts: list[str] = field(default_factory=list)
    backchannel: str | None = None


def rsa(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@dataclass
class Provider:
    issuer: str
    audience: str = "https://api.discreet.test"
    people: dict[str, Person] = field(default_factory=dict)
    clients: dict[str, Client] = field(default_factory=dict)
    keys: list[Key] = field(default_factory=lambda: [rsa("first")])
    codes: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By cookie: login and sid."""
    faults: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    """Access tokens by their text: whose."""

    def sign(
        self, claims: dict[str, Any], *, typ: str = "JWT", key: Key | None = None, **header: Any
    ) -> str:
        key = self.keys[-1] if key is None else key
        algorithm = header.pop("alg", key.get("alg") or "RS256")
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        if key.get("alg") not in (None, algorithm):
            free = {
                name: value for name, value in key.as_dict(private=True).items() if name != "alg"
            }
            key = import_key(free)
        full = {"alg": algorithm, "kid": key.kid, "typ": typ, **header}
        full = {name: value for name, value in full.items() if value is not None}
        return jwt.encode(
            full, claims, key, algorithms=[algorithm], registry=registry, default_type=None
        )

    def base(self, person: Person, seconds: int = 300) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.issuer, "sub": person.subject, "iat": now, "exp": now + seconds}

    def access_token(self, person: Person, client: str) -> str:
        claims = {
            **self.base(person),
            "aud": self.audience,
            "client_id": client,
            "jti": secrets.token_hex(8),
        }
        token = self.sign({**claims, **person.claims}, typ="at+jwt")
        self.tokens[token] = person.subject
        return token


def half_hash(text: str) -> str:
    return (
        base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:16]).rstrip(b"=").decode()
    )


def make_app(provider: Provider) -> FastAPI:
    app = FastAPI()

    def count(name: str) -> None:
        provider.asked[name] = provider.asked.get(name, 0) + 1

    @app.get("/.well-known/openid-configuration")
    async def discovery() -> dict[str, Any]:
        count("discovery")
        base = provider.issuer
        found = {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "jwks_uri": f"{base}/jwks",
            "userinfo_endpoint": f"{base}/userinfo",
            "end_session_endpoint": f"{base}/end_session",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
            "authorization_response_iss_parameter_supported": True,
            "backchannel_logout_supported": True,
            "backchannel_logout_session_supported": True,
        }
        return {**found, **provider.faults.get("discovery", {})}

    @app.get("/jwks")
    async def jwks() -> dict[str, Any]:
        count("jwks")
        extra = provider.faults.get("jwks", [])
        return {"keys": [key.as_dict(private=False) for key in provider.keys] + extra}

    @app.get("/authorize")
    async def authorize(request: Request) -> Response:
        asked = dict(request.query_params)
        client = provider.clients.get(asked.get("client_id", ""))
        if client is None or asked.get("redirect_uri") not in client.redirects:
            return HTMLResponse("unknown client or redirect", 400)
        complete = (
            asked.get("code_challenge")
            and asked.get("code_challenge_method") == "S256"
            and asked.get("nonce")
        )
        if (
            asked.get("response_type") != "code"
            or "openid" not in asked.get("scope", "").split()
            or not complete
        ):
            return HTMLResponse("an incomplete request", 400)
        session = provider.sessions.get(request.cookies.get("op_session", ""))
        if session is not None and not provider.people[session[0]].disabled:
            return granted(asked, *session)
        fields = "".join(
            f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
            for name, value in asked.items()
        )
        return HTMLResponse(
            "<!doctype html><html lang=en><title>Provider of the tests</title><link rel=icon "
            "href='data:,'><main><h1>Provider of the tests</h1>"
            f'<form method="post" action="/authorize">{fields}<label>Name <input '
            'name="login"></label>'
            '<label>Password <input name="password" '
            'type="password"></label><button>Continue</button></form></main>'
        )

    def granted(asked: dict[str, str], login: str, sid: str) -> Response:
        code = secrets.token_urlsafe(24)
        provider.codes[code] = {**asked, "login": login, "sid": sid, "until": time.time() + 60}
        answer = {"code": code, "state": asked.get("state", ""), "iss": provider.issuer}
        answer |= provider.faults.get("answer", {})
        answer = {name: value for name, value in answer.items() if value is not None}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 303)

    @app.post("/authorize")
    async def log_in(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        client = provider.clients.get(form.get("client_id", ""))
        if client is None or form.get("redirect_uri") not in client.redirects:
            return HTMLResponse("unknown client or redirect", 400)
        person = provider.people.get(form.get("login", ""))
        if person is None or person.disabled or person.password != form.get("password"):
            refused = {
                "error": "access_denied",
                "state": form.get("state", ""),
                "iss": provider.issuer,
            }
            return RedirectResponse(f"{form['redirect_uri']}?{urlencode(refused)}", 303)
        cookie, sid = secrets.token_urlsafe(16), secrets.token_hex(8)
        provider.sessions[cookie] = (form["login"], sid)
        response = granted(form, form["login"], sid)
        response.set_cookie("op_session", cookie, httponly=True, samesite="lax")
        return response

    @app.post("/token")
    async def token(request: Request) -> Response:
        count("token")
        form = {name: str(value) for name, value in (await request.form()).items()}
        scheme, _, basic = request.headers.get("authorization", "").partition(" ")
        client_id, secret = form.get("client_id", ""), None
        if scheme.lower() == "basic":
            client_id, _, secret = base64.b64decode(basic).decode().partition(":")
        client = provider.clients.get(client_id)
        if client is None or client.secret != secret:
            return JSONResponse({"error": "invalid_client"}, 401)
        code = provider.codes.pop(form.get("code", ""), None)  # once
        challenge = base64.urlsafe_b64encode(
            hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        )
        if (
            code is None
            or form.get("grant_type") != "authorization_code"
            or code["until"] < time.time()
            or code["client_id"] != client_id
            or code["redirect_uri"] != form.get("redirect_uri")
            or code["code_challenge"] != challenge.rstrip(b"=").decode()
        ):
            return JSONResponse({"error": "invalid_grant"}, 400)
        person = provider.people[code["login"]]
        access = provider.access_token(person, client_id)
        claims = {
            **provider.base(person),
            "aud": client_id,
            "nonce": code["nonce"],
            "at_hash": half_hash(access),
            "sid": code["sid"],
            **({} if provider.faults.get("bare_id_token") else person.claims),
            **provider.faults.get("id_token", {}),
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        signed = provider.sign(claims, **provider.faults.get("id_token_header", {}))
        found = {
            "access_token": access,
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": signed,
        }
        return JSONResponse(
            {**found, **provider.faults.get("token", {})}, headers={"Cache-Control": "no-store"}
        )

    @app.get("/userinfo")
    async def userinfo(request: Request) -> Response:
        count("userinfo")
        subject = provider.tokens.get(
            request.headers.get("authorization", "").removeprefix("Bearer ")
        )
        person = next((one for one in provider.people.values() if one.subject == subject), None)
        if person is None:
            return JSONResponse({"error": "invalid_token"}, 401)
        return JSONResponse(
            {"sub": person.subject, **person.claims, **provider.faults.get("userinfo", {})}
        )

    @app.get("/end_session")
    async def end_session(request: Request) -> Response:
        asked = request.query_params
        hint = jwt.decode(asked["id_token_hint"], provider.keys[-1], algorithms=["RS256"])
        client = provider.clients[str(hint.claims["aud"])]
        provider.sessions.pop(request.cookies.get("op_session", ""), None)
        place = asked.get("post_logout_redirect_uri", "")
        response = (
            RedirectResponse(place, 303)
            if place in client.logouts
            else HTMLResponse("<p>Logged out</p>")
        )
        response.delete_cookie("op_session")
        return response

    @app.post("/control")
    async def control(request: Request) -> Response:
        """The administrator's console."""
        said = await request.json()
        if "client" in said:
            provider.clients[said["client"]["id"]] = Client(**said["client"]["terms"])
        if "person" in said:
            provider.people[said["person"]["login"]] = Person(**said["person"]["terms"])
        if "faults" in said:
            provider.faults = said["faults"]
        if said.get("rotate"):
            old = [] if said.get("withdraw") else provider.keys
            kid = said["rotate"]
            new: Key = rsa(kid)
            if said.get("curve"):
                new = ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})
            provider.keys = [*old, new]
        if "disable" in said:
            person = provider.people[said["disable"]]
            person.disabled = True
            now = int(time.time())
            claims = {
                "iss": provider.issuer,
                "iat": now,
                "exp": now + 120,
                "jti": secrets.token_hex(8),
            }
            claims |= {"sub": person.subject, "events": {LOGOUT_EVENT: {}}}
            statuses = []
            for name, client in provider.clients.items():
                if client.backchannel is not None:
                    told = provider.sign({**claims, "aud": name}, typ="logout+jwt")
                    async with httpx.AsyncClient(trust_env=False) as http:
                        answer = await http.post(client.backchannel, data={"logout_token": told})
                    statuses.append(answer.status_code)
            return JSONResponse({"statuses": statuses})
        if "mint" in said:
            return JSONResponse({"token": minted(said["mint"])})
        return JSONResponse({"asked": provider.asked, "kid": provider.keys[-1].kid})

    def minted(wanted: dict[str, Any]) -> str:
        """A token for a person, with claims and header changed as the test says; None takes one
        away."""
        person = provider.people[wanted["login"]]
        claims = {
            **provider.base(person),
            "aud": provider.audience,
            "client_id": "cli",
            **person.claims,
        }
        claims |= wanted.get("claims", {})
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"typ": "at+jwt", **wanted.get("header", {})}
        kind = wanted.get("key")
        if kind is None:
            return provider.sign(claims, **header)
        if kind == "none":
            parts = ({**header, "alg": "none", "kid": provider.keys[-1].kid}, claims)
            return ".".join(_segment(part) for part in parts) + "."
        if (
            kind == "public as secret"
        ):  # HS256 with the published key for its secret, by hand: libraries refuse
            key = provider.keys[-1]
            assert isinstance(key, RSAKey)
            text = ".".join(
                _segment(part) for part in ({**header, "alg": "HS256", "kid": key.kid}, claims)
            )
            mac = hmac.digest(key.as_pem(private=False), text.encode(), hashlib.sha256)
            return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        assert kind == "foreign"
        return provider.sign(claims, key=rsa(provider.keys[-1].kid or ""), **header)

    return app


def _segment(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--issuer", required=True)
    chosen = parser.parse_args()
    config = uvicorn.Config(
        make_app(Provider(chosen.issuer)), log_level="warning", access_log=False
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=chosen.fd)])


if __name__ == "__main__":
    main()
