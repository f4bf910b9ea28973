"""A client of the HTTP API: safe to retry, typed where the contract is.

    with Client() as client:  # or Client("http://127.0.0.1:8080", key)
        answer = client.solve(problem, epsilon=0.1)
        print(answer.link_flows, answer.price.epsilon)

`calls` defines each request and how its response is read; this module only sends them.
`make sdk` makes `aio.AsyncClient` from this file.
"""
# ruff: noqa: UP028 - what is made of this file has no `yield from`

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO, Self, TypeVar, overload

import httpx

from discreet_client import calls, servers
from discreet_client.answers import Answer
from discreet_client.calls import (
    Amount,
    Auto,
    Call,
    Follow,
    Json,
    NetworkGiven,
    Preset,
    Script,
    StoredNetwork,
)
from discreet_client.errors import ApiError, ClientError, Unreachable
from discreet_client.events import Following
from discreet_client.progress import OnProgress
from discreet_client.rest import Operation, models
from discreet_client.retries import Attempts, problem_of

__all__ = ["ApiError", "Client", "Json", "OnProgress", "Unreachable"]

T = TypeVar("T")


class Networks:
    """Road networks of the tenant: stored once, and named by jobs (`network: "net_…"`)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def add(
        self, *given: NetworkGiven, name: str | None = None, **options: Any
    ) -> models.NetworkAnswer:
        """Store a network, given as in a problem or read from these files by
        `discreet_client.networks.read` with its options; what that leaves out or doubts is a
        warning (`LeftOut`). The same
        network again is the same object."""
        return self._client._run(calls.add_network(given, name, options))

    def get(self, network_id: str) -> models.NetworkAnswer:
        """One network with all its links, and the SHA-256 that certificates name."""
        return self._client._run(calls.get_network(network_id))

    def list(self) -> Iterator[models.NetworkAnswer]:
        """All networks without their links, newest first."""
        for item in self._client._pages("networks", calls.list_networks):
            yield item

    def delete(self, network_id: str) -> None:
        """Delete a network that no job has named."""
        self._client._run(calls.delete_network(network_id))


class Sources:
    """Sources of the tenant: data that keep arriving, in blocks with a budget each (`source: {"id":
    …, "last": 28}`)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, source: Mapping[str, Any]) -> models.SourceAnswer:
        """Create a source: `{name, kind, public, by, cap, …}`. Creating the same one again returns
        it."""
        return self._client._run(calls.create_source(source))

    def add(
        self,
        source_id: str,
        block: str,
        content: Any,
        *,
        stays: bool = False,
        accept_doubts: bool = False,
        local: bool = False,
        reader: Mapping[str, Any] | None = None,
    ) -> models.BlockAnswer:
        """Register a whole block, or a later version of one: rows as in JSON, or a frame, or the
        path of a CSV, Parquet, JSON, Excel or OMX file, with a `date` in every record where blocks
        are days or months; None for a block without records. Files of a source with a reader are
        read by it; reader: what of its rules is not stored, `zones` and `except`; local: here,
        instead of by the service. An address (`s3://…`) is read by the service, where its
        operator allows that place; with `stays` its content is not stored, and each job reads it
        there again. `accept_doubts`: even if a check finds that it cannot be right."""
        given = calls.add_block(
            source_id,
            block,
            content,
            stays=stays,
            accept_doubts=accept_doubts,
            local=local,
            reader=reader,
        )
        return self._client._drive(given)

    def set_rule(self, source_id: str, rule: Mapping[str, Any]) -> models.RuleAnswer:
        """Set who may spend which share of each block from now on: `{shares: {name: share},
        lent_days}`."""
        return self._client._run(calls.set_source_rule(source_id, rule))

    def correct(self, source_id: str, public: Mapping[str, Any]) -> models.SourceAnswer:
        """Correct the public part of all blocks: the fields that are different; None takes one
        away. While nothing was spent or reserved on any block, and no job on them waits or runs; of
        a simulation while none waits or runs. `Conflict` afterwards."""
        return self._client._run(calls.correct_source(source_id, public))

    def get(self, source_id: str) -> models.SourceAnswer:
        """One source, with what is spent, reserved and left of each of its blocks."""
        return self._client._run(calls.get_source(source_id))

    def list(self) -> Iterator[models.SourceAnswer]:
        """All sources without their blocks, newest first."""
        for item in self._client._pages("sources", calls.list_sources):
            yield item


class Client:
    """One server and one API key; what is not given is found as the command line finds it
    (`servers`): `DISCREET_URL` and `DISCREET_KEY`, else the `discreet up` of this user.

    Calls are sent again when the connection breaks or the server says 429 or 503, after the time it
    asks for. A submission carries an idempotency key, so that a repetition is the same job and the
    same charge. Errors are those of `discreet_client.errors`. `transport` replaces how bytes travel
    (httpx).
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(
            **calls.connection(*servers.found(server, key)),
            timeout=timeout_seconds,
            trust_env=False,
            transport=transport,
        )
        self._kept: dict[str, Mapping[str, Any]] = {}
        """The network that was asked for last, by its id."""
        self.networks = Networks(self)
        """Road networks that jobs name."""
        self.sources = Sources(self)
        """Data that keep arriving, in blocks."""
        self.datasets = Datasets(self)
        """All datasets, newest first: `client.datasets()`; `client.datasets.add(…)` adds one."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Datasets

    @overload
    def register(self, kind: Mapping[str, Any], /) -> models.DatasetAnswer: ...

    @overload
    def register(
        self,
        kind: str,
        public: Mapping[str, Any],
        content: Any,
        *,
        cap: Mapping[str, Any] | Amount | None = None,
        name: str | None = None,
        mode: str | None = None,
        account: str | None = None,
        columns: Mapping[str, str] | None = None,
        stays: bool = False,
        accept_doubts: bool = False,
    ) -> models.DatasetAnswer: ...

    def register(
        self,
        kind: str | Mapping[str, Any],
        public: Mapping[str, Any] | None = None,
        content: Any = None,
        *,
        cap: Mapping[str, Any] | Amount | None = None,
        name: str | None = None,
        mode: str | None = None,
        account: str | None = None,
        columns: Mapping[str, str] | None = None,
        stays: bool = False,
        accept_doubts: bool = False,
        local: bool = False,
    ) -> models.DatasetAnswer:
        """Register a dataset: its kind, its public part, and its content as arrays, frame or
        file (`discreet_client.contents`); or the whole body in one mapping.

        cap: what may be spent on it in total, epsilon alone or `{epsilon, delta}`; not needed with
        `account`, an existing account of the same people. columns: your table's name for
        each column that the kind's reader knows (`discreet_client.readers`), which with the rules
        `public["reader"]` makes the content: the service reads the whole file, or with `local` it
        is read here; what is left out is a warning (`LeftOut`).
        An address as content (`s3://…`; `contents.rows_of` a database) is read by the service,
        where its operator allows that place; with `stays` it is not stored, and each job reads it
        there again. `accept_doubts` registers a content that a check finds implausible.
        """
        body = calls.dataset_body(
            kind,
            public,
            content,
            cap=cap,
            name=name,
            mode=mode,
            account=account,
            columns=columns,
            stays=stays,
            accept_doubts=accept_doubts,
            local=local,
        )
        return self._drive(calls.register(body))

    def correct_with(
        self, dataset_id: str, public: Mapping[str, Any], content: BinaryIO, filename: str
    ) -> models.DatasetAnswer:
        """Correct a dataset with a Parquet, CSV or JSON file as it is; see `datasets.correct`."""
        return self._run(calls.correct_with(dataset_id, public, content, filename))

    def upload(
        self, metadata: Mapping[str, Any], content: BinaryIO, filename: str
    ) -> models.DatasetAnswer:
        """Register a dataset whose content is a Parquet, CSV or JSON file."""
        return self._run(calls.upload(metadata, content, filename))

    def dataset(self, dataset_id: str) -> models.DatasetAnswer:
        """One dataset; never its content."""
        return self._run(calls.dataset(dataset_id))

    def delete_dataset(self, dataset_id: str) -> list[str]:
        """Erase a dataset's content; its account and ledger stay. Where sealed bytes remain, and
        until when."""
        return self._run(calls.delete_dataset(dataset_id))

    # Jobs

    def solve(
        self,
        problem: Mapping[str, Any],
        *,
        epsilon: Amount | None = None,
        delta: Amount | Auto | None = None,
        rho: Amount | None = None,
        preset: Preset | None = None,
        unit: str | None = None,
        seed: int | None = None,
        name: str | None = None,
        anew: bool = False,
        idempotency_key: str | None = None,
        progress: bool | OnProgress | None = None,
        tables: bool = True,
    ) -> Answer:
        """Solve a problem and wait for its result.

        problem: a mapping with `kind` (`rest.models.Routing` and the like name its fields), whose
        `dataset` is an id, a registered dataset, or a whole dataset to be registered first; or a
        whole job body. progress: None shows a bar in a terminal or notebook, True and False decide,
        a function is called with (state, step, total). tables=False leaves large fields where they
        are. name: what you call the job, in lists.

        Warns (AlreadyReleased) when earlier jobs have released the same, which `ask_again` asks for
        free; anew=True says that you mean to pay once more. Raises BudgetExhausted (nothing was
        charged), InvalidInput, JobFailed, Unreachable; sent again after a broken connection it is
        the same job and the same charge.
        """
        body = calls.job_body(
            problem,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            preset=preset,
            unit=unit,
            seed=seed,
            name=name,
        )
        script = calls.solve(
            body, idempotency_key=idempotency_key, wanted=progress, tables=tables, anew=anew
        )
        return self._drive(script)

    def ask_again(
        self,
        of: calls.Asked | Sequence[calls.Asked],
        *,
        idempotency_key: str | None = None,
        progress: bool | OnProgress | None = None,
        tables: bool = True,
        **fields: Any,
    ) -> Answer:
        """Ask another question about what a job released, at price 0: its problem with other values
        of these fields.

        of: an answer of `solve`, or a job's id; the releases of several with the same problem are
        combined. Conflict (`release_differs`, with `errors`) for fields that were fixed when the
        job released.
        """
        script = calls.ask_again(
            of, fields, idempotency_key=idempotency_key, wanted=progress, tables=tables
        )
        return self._drive(script)

    def answer(self, job_id: str, *, tables: bool = True) -> Answer:
        """What `solve` returns, of a job that has ended."""
        return self._drive(calls.answer(job_id, tables=tables))

    def plan(
        self,
        problem: Mapping[str, Any],
        *,
        epsilon: Amount | None = None,
        delta: Amount | Auto | None = None,
        rho: Amount | None = None,
        preset: Preset | None = None,
        accuracy: models.Accuracy | None = None,
        unit: str | None = None,
        seed: int | None = None,
    ) -> models.PlanAnswer:
        """The plan and price of a problem or job body, and whether it would be admitted; nothing is
        spent.

        accuracy: `{"within": "5%"}` or the like instead of a budget asks for the smallest epsilon
        that is expected to reach that accuracy; `privacy` of the plan is that budget, to be sent
        with a job.
        """
        body = calls.job_body(
            problem,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            preset=preset,
            accuracy=accuracy,
            unit=unit,
            seed=seed,
        )
        return self._run(calls.plan(body))

    def rehearse(
        self,
        problem: Mapping[str, Any],
        *,
        epsilon: Amount | None = None,
        epsilons: Sequence[Amount] | None = None,
        delta: Amount | Auto | None = None,
        units: int | None = None,
        public: Mapping[str, Any] | None = None,
        around: str | None = None,
        seed: int | None = None,
        idempotency_key: str | None = None,
        progress: bool | OnProgress | None = None,
    ) -> Answer:
        """Run a problem or job body on synthetic data of the public shape of its dataset, at
        several epsilons, and wait: `answer.frame("rows")` has the error of each number. Costs
        nothing and uses no private data; of a dataset inside the problem only `public` is sent.

        epsilon: only this one, instead of `epsilons`.
        units: how many units the synthetic data have; public: another public part than that of the
        dataset; around: a job whose release the synthetic data follow, instead of public figures
        alone.
        """
        body = calls.rehearsal_body(
            problem,
            epsilons=calls.ladder(epsilon, epsilons),
            delta=delta,
            units=units,
            public=public,
            around=around,
            seed=seed,
        )
        return self._drive(calls.rehearse(body, idempotency_key=idempotency_key, wanted=progress))

    def submit(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> models.JobAnswer:
        """Submit a job body `{problem, privacy, seed?, name?}`. `reusable` of the answer names
        earlier jobs that have released the same: `ask_again` asks them for free."""
        return self._run(calls.submit(body, idempotency_key))

    def job(self, job_id: str) -> models.JobAnswer:
        """One job."""
        return self._run(calls.job(job_id))

    def jobs(self, **query: Any) -> models.JobPage:
        """A page of jobs, newest first: `state`, `page_size`, `page_token`."""
        return self._run(calls.jobs(query))

    def result(self, job_id: str) -> models.ResultAnswer:
        """The result as JSON, with job and certificate; Conflict until there is one, ResultAltered
        when it is not the one that the certificate was signed for."""
        return self._run(calls.result(job_id))

    def certificate(self, job_id: str) -> models.EnvelopeAnswer:
        """A job's certificate as an in-toto statement in a signed envelope (DSSE), for tools that
        read these."""
        return self._run(calls.certificate(job_id))

    def result_table(
        self, job_id: str, table: str, certificate: Mapping[str, Any] | None = None
    ) -> bytes:
        """A large field of a result, as the bytes of a Parquet file; ResultAltered when it is not
        the one that `certificate` was signed for."""
        return self._run(calls.result_table(job_id, table, certificate))

    def charts(self, job_id: str) -> list[models.ChartAnswer]:
        """The charts of a result, from which `answer.plot(name)` makes figures: `figure` of each is
        plotly's JSON."""
        return self._run(calls.charts(job_id))

    def cancel(self, job_id: str) -> models.CancelAnswer:
        """Cancel a job: the price is given back if no data were touched, and charged in full
        otherwise. The answer says what will happen: `cancel` (done, requested, too_late),
        `charge` (none, full,
        undecided), both in `detail`."""
        return self._run(calls.cancel(job_id))

    def events(self, job_id: str) -> Iterator[tuple[str, Json]]:
        """The job's events (name, data) until it ends, resumed after a broken connection."""
        following = Following()
        while not following.ended:
            try:
                with self._http.stream(**calls.events(job_id, following.connect())) as response:
                    if not response.is_success:
                        response.read()
                        following.refused(response)
                    else:
                        for part in response.iter_bytes():
                            for event in following.feed(part):
                                yield event
                            if following.ended:
                                return
            except httpx.TransportError:
                pass  # the next connection goes on after the last event
            time.sleep(following.pause())

    def wait(self, job_id: str, on_progress: OnProgress | None = None) -> models.JobAnswer:
        """The job when it has ended."""
        state, step, total = "queued", 0, 1
        for event, data in self.events(job_id):
            if event == "state":
                state = data["state"]
            elif event == "progress":
                step, total = data["step"], data["total"]
            if on_progress is not None:
                on_progress(state, step, total)
        return self.job(job_id)

    # Sessions of federated jobs

    def session_tokens(
        self,
        job_id: str,
        *,
        owner: str,
        count: int = 1,
        names: Sequence[str] | None = None,
        group: str | None = None,
    ) -> models.SessionTokensAnswer:
        """Links for agents; `owner` is the fingerprint of the key that will sign the roster. With
        `names` one link for each name, in their order, which admits only an agent of that name."""
        return self._run(calls.session_tokens(job_id, owner, count, names, group))

    def remove_agent(self, job_id: str, fingerprint: str) -> None:
        """Remove an enrolled agent before the roster is signed."""
        self._run(calls.remove_agent(job_id, fingerprint))

    def start_session_again(
        self, job_id: str, *, without: Sequence[str] | None = None
    ) -> models.SessionAgainAnswer:
        """Submit a failed federated job again without the agents of these fingerprints, by default
        those that its error names; the others come back with the link in the answer."""
        return self._run(calls.start_session_again(job_id, without))

    def session(self, job_id: str) -> models.SessionAnswer:
        """Who takes part in a federated job."""
        return self._run(calls.session(job_id))

    def session_statement(self, job_id: str) -> models.EnvelopeAnswer:
        """The head of a federated job's session as an in-toto statement in a signed envelope
        (DSSE)."""
        return self._run(calls.session_statement(job_id))

    def approve_session(
        self,
        job_id: str,
        *,
        roster: str,
        signature: str,
        owner_key: str,
        save_as: str | None = None,
    ) -> models.SessionAnswer:
        """Hand in the signed roster (`federation.rosters`); key and signature in base64."""
        return self._run(calls.approve_session(job_id, roster, signature, owner_key, save_as))

    # Budgets

    def budgets(self) -> list[models.BudgetAnswer]:
        """All budgets of the tenant."""
        return self._run(calls.budgets())

    def budget(self, account_id: str) -> models.BudgetAnswer:
        """What is spent, reserved and left of an account (`account` of a dataset)."""
        return self._run(calls.budget(account_id))

    def grant(
        self,
        account_id: str,
        *,
        epsilon: Amount,
        delta: Amount,
        reason: str,
        request: str | None = None,
    ) -> models.BudgetAnswer:
        """Raise or lower a cap, with a reason that the ledger keeps; `request`: the request for
        more that it answers."""
        return self._run(calls.grant(account_id, epsilon, delta, reason, request))

    def request_budget(
        self, account_id: str, *, epsilon: Amount, delta: Amount = 0, reason: str
    ) -> models.BudgetRequestAnswer:
        """Ask an owner to raise a cap by this much. Nothing changes before a grant answers it."""
        return self._run(calls.request_budget(account_id, epsilon, delta, reason))

    def budget_requests(self, account_id: str) -> list[models.BudgetRequestAnswer]:
        """Requests for more of a budget with their answers, newest first."""
        return self._run(calls.budget_requests(account_id))

    def decline_budget_request(
        self, account_id: str, request_id: str, answer: str
    ) -> models.BudgetRequestAnswer:
        """Decline a request with a sentence; nothing else changes."""
        return self._run(calls.decline_budget_request(account_id, request_id, answer))

    def entries(self, account_id: str) -> Iterator[Json]:
        """All ledger entries of a budget, in the order of their chain."""
        for item in self._pages("entries", lambda token: calls.entries(account_id, token)):
            yield item

    # The ledger as a whole

    def caps(self) -> list[models.BudgetAnswer]:
        """The caps on the tenant and on its principals."""
        return self._run(calls.caps())

    def set_cap(
        self,
        *,
        scope: str,
        epsilon: Amount,
        delta: Amount,
        reason: str,
        principal: str | None = None,
    ) -> models.BudgetAnswer:
        """Cap what the tenant, or one principal of it, may spend over all data."""
        return self._run(calls.set_cap(scope, epsilon, delta, reason, principal))

    def ledger_head(self) -> models.HeadAnswer:
        """The signed head of the tenant's ledger."""
        return self._run(calls.ledger_head())

    def ledger_head_statement(self) -> models.EnvelopeAnswer:
        """The signed head of the tenant's ledger as an in-toto statement in a signed envelope
        (DSSE)."""
        return self._run(calls.ledger_head_statement())

    def export_ledger(self, out: BinaryIO) -> None:
        """Write the whole ledger as JSON Lines, as it is received."""
        try:
            with self._http.stream(**calls.ledger_export()) as response:
                if not response.is_success:
                    response.read()
                    raise problem_of(response)
                for part in response.iter_bytes():
                    out.write(part)
        except httpx.TransportError as error:
            raise Unreachable("the export broke off; the written file is incomplete") from error

    def verify_certificate(
        self,
        certificate: Mapping[str, Any],
        *,
        result: Mapping[str, Any] | None = None,
        tables: Mapping[str, bytes] | None = None,
    ) -> models.CertificateVerdict:
        """What the server finds about a certificate: `{valid, checks}`; with `result` (its JSON)
        and
        `tables` (Parquet files by name), also whether it was signed for these."""
        return self._run(calls.check_certificate(certificate, result, tables))

    # Operators

    def operations(self) -> models.OperationsAnswer:
        """Operators: queue, processes with their walls, log and witnesses, last backup, versions,
        whose jobs wait."""
        return self._run(calls.read_operations())

    # Tenants and keys

    def create_tenant(self, name: str) -> models.TenantAnswer:
        """Operators: a new tenant."""
        return self._run(calls.create_tenant(name))

    def create_key(
        self, *, role: str, principal: str, tenant: str | None = None, expires_at: str | None = None
    ) -> models.KeyAnswer:
        """Create a key, which is shown only once; `expires_at` in RFC 3339."""
        return self._run(calls.create_key(role, principal, tenant, expires_at))

    def list_keys(self) -> list[models.KeyEntry]:
        """The tenant's keys, without their secrets."""
        return self._run(calls.all_keys())

    def people(self, subject: str | None = None) -> list[models.PersonEntry]:
        """People who signed in by the identity provider, the latest first; only this subject, if
        given."""
        return self._run(calls.people_of(subject))

    def remove_person(
        self, subject: str, *, issuer: str | None = None, keep_keys: bool = False
    ) -> models.PersonState:
        """Remove a person, by the provider's subject; the keys that they have made are revoked, or
        kept."""
        return self._run(calls.set_person(subject, issuer, False, keep_keys))

    def restore_person(self, subject: str, *, issuer: str | None = None) -> models.PersonState:
        """Let a person in again who was removed. Their keys stay revoked."""
        return self._run(calls.set_person(subject, issuer, True, False))

    def login_link(self) -> Json:
        """A link to the dashboard that logs this key's holder in, once."""
        return self._run(calls.login_link())

    def revoke_key(self, key_id: str) -> None:
        """End a key."""
        self._run(calls.revoke_key(key_id))

    # Everything else

    def call(self, operation: Operation[T]) -> T:
        """Send any operation of `discreet_client.rest.operations`, including calls that have no
        method here. JSON is returned as it is, a file as bytes."""
        return self._run(calls.call(operation))

    # Transport

    def _drive(self, script: Script[T]) -> T:
        answer: Any = None
        try:
            while True:
                step = script.send(answer)
                if isinstance(step, Follow):
                    answer = self.wait(step.job_id, step.on_progress)
                elif isinstance(step, StoredNetwork):
                    answer = self._network_of(step.network_id)
                else:
                    answer = self._run(step)
        except StopIteration as end:
            result: T = end.value
            if isinstance(result, Answer):
                result._charts = self.charts
            return result
        finally:
            script.close()

    def _network_of(self, network_id: str) -> Mapping[str, Any] | None:
        network = self._kept.get(network_id)
        if network is None:
            try:
                stored = self._run(calls.get_network(network_id))
            except ClientError:
                return None
            network = stored.get("network") or {}
            self._kept = {network_id: network}  # whoever asks beside this one keeps what it has
        return network

    def _run(self, call: Call[T]) -> T:
        attempts = Attempts(
            repeatable=call.repeatable, server=str(self._http.base_url), busy_codes=call.busy_codes
        )
        while True:
            try:
                response = self._http.request(**call.request)
            except httpx.TransportError as error:
                seconds = attempts.broke(error)
            else:
                if response.is_success:
                    return call.read(response)
                seconds = attempts.refused(response)
            time.sleep(seconds)

    def _pages(self, name: str, page_of: Callable[[str | None], Call[Any]]) -> Iterator[Any]:
        token: str | None = None
        while True:
            page = self._run(page_of(token))
            for item in page[name]:
                yield item
            token = page["next_page_token"]
            if token is None:
                return


class Datasets:
    """The datasets of a client: calling it lists them, `add` registers one and `correct` corrects
    one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self) -> Iterator[models.DatasetAnswer]:
        """All datasets, newest first."""
        for item in self._client._pages("datasets", calls.datasets):
            yield item

    def add(
        self,
        content: Any,
        *,
        kind: str,
        public: Mapping[str, Any],
        cap: Mapping[str, Any] | Amount | None = None,
        columns: Mapping[str, str] | None = None,
        name: str | None = None,
        mode: str | None = None,
        account: str | None = None,
        same_people_as: str | Mapping[str, Any] | None = None,
        other_people: bool = False,
        local: bool = False,
    ) -> models.DatasetAnswer:
        """Register a table as it is: a frame, columns, or the path of a CSV, Parquet, Excel or OMX
        file; or OpenADR reports. The service reads all of it; with `local` it is read here, and
        what the reader makes of it is sent: the same dataset.

        columns: your table's name for each column that the kind's reader knows
        (`discreet_client.readers`); columns with the same name need no mention. same_people_as: a
        dataset, its id or name, to whose account these are charged too; without it a warning
        (`OtherAccounts`) names others of this unit, unless other_people=True says that nobody is in
        them. The rest is as with `register`; a file's name is the dataset's by default.
        """
        return self._client._drive(
            calls.add(
                content,
                kind,
                public,
                columns,
                cap=cap,
                name=name,
                mode=mode,
                account=account,
                same_people_as=same_people_as,
                other_people=other_people,
                local=local,
            )
        )

    def look(
        self,
        content: Any,
        *,
        kind: str,
        public: Mapping[str, Any] = MappingProxyType({}),
        columns: Mapping[str, str] | None = None,
    ) -> models.LookAnswer:
        """What the service would read a table as, before anything is registered: its columns, a
        description to begin with, the first rows as they are understood, and what is wrong. The
        file stays there sealed for a day: its id (`read_…`) is a content here, to look again."""
        return self._client._drive(calls.look(content, kind, public, columns))

    def correct(
        self,
        dataset: str | Mapping[str, Any],
        public: Mapping[str, Any] = MappingProxyType({}),
        content: Any = None,
        *,
        columns: Mapping[str, str] | None = None,
        stays: bool = False,
        local: bool = False,
    ) -> models.DatasetAnswer:
        """Correct the public part of a dataset, by its id or as it was registered, while nothing
        was spent or reserved on its account and no job on it waits or runs (of a simulation while
        none waits or runs); `Conflict` afterwards, which says what to do instead.

        public: the fields that are different; None takes one away. content: the table again, where
        a field differs that decides how rows are read, with `columns` and `public["reader"]` as
        where it was registered; without it the stored content is checked anew.
        """
        given = calls.correct(dataset, public, content, columns, stays, local)
        return self._client._drive(given)
