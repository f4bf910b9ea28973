"""Settings, read once from the environment (`DISCREET_…`) and frozen.

Names carry their units. Secrets are never settings themselves: `secrets_file` names a file of mode
0600 that holds them, made by `discreet up` on first start and by hand (or a secret manager) in
production. A setting that holds a password need not stand in the environment: DISCREET_CREDENTIALS
(or systemd's CREDENTIALS_DIRECTORY) names a folder with one file a setting, such as
`discreet_database_url`.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import AfterValidator, Field
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
)

CONNECT_SECONDS = 10
"""Seconds after which a database host that does not answer is skipped or counts as gone; the
driver's default is 130 s."""

CREDENTIALS = ("DISCREET_CREDENTIALS", "CREDENTIALS_DIRECTORY")
"""Variables that name a folder of credentials: discreet's and systemd's."""


_DATABASE = re.compile(
    r"postgres(ql)?://"
    r"((?:[^\s/?@:%]|%[0-9A-Fa-f]{2})*(?::(?:[^\s/?@%]|%[0-9A-Fa-f]{2})*)?@)?"  # user, password
    r"(?:(?:\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})*)(?::[0-9]{0,5})?(?:,|(?=[/?]|$)))*"
    r"(/(?:[^\s?%]|%[0-9A-Fa-f]{2})*)?(\?(?:[^\s%]|%[0-9A-Fa-f]{2})*)?"
)


def _database_url(url: str) -> str:
    """What a driver says of a URL that it cannot read repeats it, with the password."""
    if not _DATABASE.fullmatch(url):
        raise ValueError(
            "must be postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with the characters of user "
            "and password that mean something else in it percent-encoded (% is %25, @ is %40, / is "
            "%2F, ? is %3F, a blank is %20)"
        )
    return url


DatabaseUrl = Annotated[str, AfterValidator(_database_url)]


class Settings(BaseSettings):
    """Everything that can be set from outside. No message repeats a value: it may be a secret, or
    one that was meant for another setting."""

    model_config = SettingsConfigDict(
        env_prefix="DISCREET_", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    state: Path = Field(
        default_factory=lambda: platformdirs.user_data_path("discreet"),
        description="Folder of the embedded database, keys and ready file",
    )
    database_url: DatabaseUrl | None = Field(
        default=None,
        repr=False,
        description="postgresql:// URL of the application role, which may lead through a pooler; "
        "unset: embedded PostgreSQL",
    )
    database_direct_url: DatabaseUrl | None = Field(
        default=None,
        repr=False,
        description="The same without the pooler, for what needs a session; unset: the same",
    )
    migration_database_url: DatabaseUrl | None = Field(
        default=None,
        repr=False,
        description="postgresql:// URL of the owner role, without a pooler; unset: the application "
        "role migrates",
    )
    secrets_file: Path | None = Field(
        default=None, description="JSON file of secrets; unset: secrets.json in the state folder"
    )
    keys: str = Field(
        default="file",
        repr=False,
        description="Where keys are kept: `file`, `pkcs11:token=…?module-path=…` or "
        "`awskms:///KEY`. Of several, separated by spaces, the first makes new keys and the "
        "others open their own",
    )
    keys_pin: str | None = Field(default=None, repr=False, description="User PIN of the token")
    workers: int = Field(
        default=1, ge=0, le=64, description="Worker processes that `discreet up` starts"
    )
    worker_concurrency: int = Field(
        default=2,
        ge=1,
        le=64,
        description="Jobs that one worker process runs at once; one of two or more places is for "
        "short jobs alone",
    )
    lease_seconds: float = Field(
        default=15.0, gt=0, description="A worker that is silent for this long loses its job"
    )
    max_attempts: int = Field(default=3, ge=1, description="Attempts at a job before it fails")
    job_cpu_seconds: int = Field(
        default=3600, ge=1, description="Processor time that one child process may take"
    )
    job_wall_seconds: float = Field(
        default=7200.0, gt=0, description="Wall time of a child process, with room for other load"
    )
    job_memory_bytes: int = Field(
        default=8 << 30, gt=0, description="Address space that one child process may take"
    )
    share_processes: int = Field(
        default=0,
        ge=0,
        le=16,
        description="Children that sum a large content; 0: one for each core, up to 4",
    )
    help_others: bool = Field(
        default=True, description="A worker without a job reads shares of others' large contents"
    )
    cluster: str | None = Field(
        default=None,
        pattern=r"^(tls://[^/?#@\s]+|tcp://(127\.\d+\.\d+\.\d+|\[::1\])):\d{1,5}$",
        description="Scheduler of a Dask cluster whose nodes read shares of large contents, "
        "tls://HOST:PORT; on this machine also tcp://127.0.0.1:PORT",
    )
    cluster_authority: Path | None = Field(
        default=None, description="The authority (PEM) of that cluster alone"
    )
    cluster_certificate: Path | None = Field(
        default=None, description="A certificate by it (PEM), for workers that ask the cluster"
    )
    cluster_certificate_key: Path | None = Field(default=None, description="Its key (PEM)")
    cluster_helper: str = Field(
        default="",
        description="On nodes: the command that runs `discreet helper`, as another user; unset: "
        "this one's Python",
    )
    least_isolation: Literal["none", "partial", "full"] = Field(
        default="none",
        description="Workers refuse to start if a solver's child is isolated less "
        "(docs/security.md)",
    )
    json_body_bytes: int = Field(
        default=32_000_000, gt=0, description="Largest JSON body, that of a dataset"
    )
    job_body_bytes: int = Field(
        default=16_000_000, gt=0, description="Largest JSON body of a job or plan"
    )
    content_bytes: int = Field(
        default=64 << 30,
        gt=0,
        description="Largest content of a dataset in bytes, and of all blocks that a job reads; "
        "what may exceed an eighth of job_memory_bytes is read by parts alone",
    )
    upload_bytes: int = Field(default=2 << 30, gt=0, description="Largest multipart upload")
    draft_bytes: int = Field(
        default=4 << 30,
        gt=0,
        description="Files of one tenant that are kept for a day after a look at them, together",
    )
    spool: Path | None = Field(
        default=None,
        description="Folder for sealed uploads while they arrive; unset: the temporary folder",
    )
    reads_names: bool = Field(
        default=True,
        description="Whether files with columns and names of their own are read here; no: they are "
        "refused before they come, and are read at home (--local)",
    )
    uploads_at_once: int = Field(
        default=2, ge=1, le=64, description="Multipart uploads that one process reads at once"
    )
    tenant_uploads: int = Field(
        default=4,
        ge=1,
        description="Contents of one tenant that one API process receives and registers at once",
    )
    tenant_bodies: int = Field(
        default=4,
        ge=1,
        description="Large JSON bodies of a tenant that an API process holds at once; others wait",
    )
    content_places: Path | None = Field(
        default=None,
        description="JSON file of the places that `content_from` may name, and who may name them; "
        "unset: none",
    )
    place_failures: int = Field(
        default=50,
        ge=1,
        le=10_000,
        description="Reads of places that may fail for one tenant in 24 hours: each tells its "
        "owner a little of what lies there",
    )
    object_url: str | None = Field(
        default=None,
        repr=False,
        description="Where large contents are stored, as an fsspec URL (file:///…, s3://…); "
        "unset: the database",
    )
    object_bytes: int = Field(
        default=1 << 20, ge=0, description="Sealed contents above this size go to `object_url`"
    )
    orphan_seconds: float = Field(
        default=3600.0, ge=0, description="Age at which objects that no dataset names go"
    )
    retention_days: int | None = Field(
        default=None,
        ge=1,
        le=36500,
        description="Days that content is kept if its dataset does not say; unset: forever",
    )
    result_retention_days: int | None = Field(
        default=None,
        ge=1,
        le=36500,
        description="Days after its end that a job's result, release and events are kept; "
        "certificate and ledger stay; unset: for ever",
    )
    expiry_seconds: float = Field(
        default=30.0, gt=0, description="How often expired contents are looked for"
    )
    webhook_allow_http: bool = Field(
        default=False, description="Webhooks may go to http:// addresses"
    )
    webhook_allow_private: bool = Field(
        default=False, description="Webhooks may go to loopback and private networks"
    )
    webhook_ports: str = Field(
        default="80,443,8443",
        pattern=r"^\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*$",
        description="Ports that webhooks may go to, with ranges: `443,8000-8999`",
    )
    webhook_seconds: float = Field(
        default=10.0, gt=0, le=60, description="Time that one delivery may take"
    )
    webhook_backoff_seconds: float = Field(
        default=5.0, gt=0, description="Wait before the second delivery; doubles"
    )
    webhook_give_up_seconds: float = Field(
        default=5 * 86400.0,
        gt=0,
        description="A webhook whose deliveries fail for so long is disabled",
    )
    rpc_address: str | None = Field(
        default=None, description="host:port at which agents reach gRPC; it is part of tokens"
    )
    rpc_certificate: Path | None = Field(
        default=None,
        description="Certificate of gRPC (PEM); unset: rpc.crt in the state folder, made if needed",
    )
    rpc_certificate_key: Path | None = Field(
        default=None, description="Its key (PEM); unset: rpc.key"
    )
    rpc_client_authorities: Path | None = Field(
        default=None,
        description="Authorities (PEM) one of which must have signed each agent's certificate: "
        "mutual TLS",
    )
    rpc_tls: Literal["auto", "always", "authority"] = Field(
        default="auto",
        description="`auto`: on every address but loopback; `authority`: always, tokens pin no "
        "certificate",
    )
    rpc_message_bytes: int = Field(
        default=4 << 20, gt=0, le=16 << 20, description="Largest message of an agent"
    )
    rpc_messages_per_second: float = Field(
        default=2000.0, gt=0, description="Messages per second that one stream may send"
    )
    rpc_streams: int = Field(
        default=2000,
        ge=1,
        description="Agents that one rpc process serves at once; those on signed rosters first",
    )
    rpc_waiting: int = Field(
        default=128,
        ge=1,
        description="Open calls whose first message has not arrived; each may hold one message",
    )
    clock_skew_seconds: float = Field(
        default=30.0, gt=0, description="Largest error of an agent's clock"
    )
    rate_limit_requests: int = Field(
        default=30_000,
        ge=1,
        description="Requests of one key in a window, over all API processes",
    )
    key_requests: int = Field(
        default=32,
        ge=1,
        description="Requests of one key that one API process works on at once; others wait",
    )
    key_streams: int = Field(
        default=200, ge=1, description="Event streams that one key has open in one API process"
    )
    rate_limit_seconds: int = Field(default=60, ge=1, le=3600, description="Length of that window")
    watchdog_seconds: float | None = Field(
        default=None,
        gt=0,
        description="A process whose event loop is blocked for so long ends itself; unset: never",
    )
    header_seconds: float = Field(
        default=10.0, gt=0, description="Time for the head of a request to arrive completely"
    )
    body_stall_seconds: float = Field(
        default=30.0, gt=0, description="Longest pause in the body of a request"
    )
    body_bytes_per_second: int = Field(
        default=256, ge=1, description="Least average pace of a body, without its longest pause"
    )
    waiting_connections: int = Field(
        default=1000,
        ge=1,
        description="Connections with an incomplete head that one API process keeps; the oldest "
        "are closed",
    )
    log_memory: Path | None = Field(
        default=None,
        description="File of the checkpoints that this machine has seen, none of which may be "
        "missing from the database; unset: log.memory in the state folder",
    )
    witnesses: str = Field(
        default="",
        description="Witnesses of the transparency log: `NAME+ID+KEY URL`, with commas between "
        "several",
    )
    witnesses_needed: int | None = Field(
        default=None,
        ge=0,
        description="How many of them make a checkpoint that proofs prefer; unset: all",
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^/?#@\s]+$",
        description="Where browsers reach the pages (only scheme, host and port); the provider "
        "sends them back there",
    )
    oidc_issuer: str | None = Field(
        default=None,
        description="Issuer of the OpenID provider, exactly as it states it; unset: no login "
        "through a provider",
    )
    oidc_name: str = Field(
        default="your organisation",
        min_length=1,
        max_length=60,
        description="Name on the login page: Sign in with …",
    )
    oidc_client_id: str | None = Field(
        default=None, description="Client id of this service at the provider"
    )
    oidc_client_secret: str | None = Field(
        default=None,
        repr=False,
        description="Secret of that client; unset, without a file of it: a public client",
    )
    oidc_client_secret_file: Path | None = Field(
        default=None, description="File that holds that secret"
    )
    oidc_scopes: str = Field(
        default="openid profile email", description="Scopes that a login requests"
    )
    oidc_audience: str | None = Field(
        default=None,
        description="Audience of access tokens (JWT) that the API accepts; unset: it accepts only "
        "API keys",
    )
    oidc_callers: str = Field(
        default="",
        description="Clients (`azp` or `client_id`), separated by commas, whose access tokens are "
        "accepted; empty: all",
    )
    oidc_roles_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim whose values give roles; a JSON pointer where it begins with /",
    )
    oidc_roles: str = Field(
        default="",
        description='JSON object from values of that claim to tenant and role: {"dp-owners": '
        '"north:owner"}',
    )
    oidc_name_claim: str = Field(
        default="name", min_length=1, description="Claim that holds a person's display name"
    )
    oidc_algorithms: str = Field(
        default="RS256,PS256,ES256",
        description="Accepted signature algorithms of tokens, all with public keys",
    )
    oidc_clock_skew_seconds: int = Field(
        default=30, ge=0, le=300, description="Largest error of the provider's clock"
    )
    oidc_authorities: Path | None = Field(
        default=None,
        description="Authorities (PEM) of the provider's certificate; unset: the public ones",
    )
    oidc_logout: bool = Field(
        default=True, description="Logging out here leads to the provider's own logout"
    )
    pool_size: int = Field(default=10, ge=1, description="Database connections of one process")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then a folder of credentials where a variable names
        one."""
        folder = next((place for name in CREDENTIALS if (place := os.environ.get(name))), None)
        if folder is None or not os.path.isdir(folder):  # an image names it for all its commands
            return init_settings, env_settings
        return init_settings, env_settings, SecretsSettingsSource(settings_cls, secrets_dir=folder)

    @property
    def whole_bytes(self) -> int:
        """Largest content, in bytes, that one child holds as a whole: a release must never fail
        because of the amount of data."""
        return min(self.content_bytes, self.job_memory_bytes // 8)

    @property
    def spool_folder(self) -> Path:
        return self.spool or Path(tempfile.gettempdir())

    @property
    def log_memory_path(self) -> Path:
        return self.log_memory or self.state / "log.memory"

    @property
    def secrets_path(self) -> Path:
        return self.secrets_file or self.state / "secrets.json"
