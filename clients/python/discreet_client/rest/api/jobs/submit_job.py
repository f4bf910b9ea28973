from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.job_answer import JobAnswer
from ...models.job_request import JobRequest
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: JobRequest,
    idempotency_key: None | str | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["idempotency-key"] = idempotency_key

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/jobs",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> JobAnswer | ProblemDocument | None:
    if response.status_code == 202:
        response_202 = JobAnswer.from_dict(response.json())

        return response_202

    if response.status_code == 400:
        response_400 = ProblemDocument.from_dict(response.json())

        return response_400

    if response.status_code == 401:
        response_401 = ProblemDocument.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = ProblemDocument.from_dict(response.json())

        return response_403

    if response.status_code == 404:
        response_404 = ProblemDocument.from_dict(response.json())

        return response_404

    if response.status_code == 409:
        response_409 = ProblemDocument.from_dict(response.json())

        return response_409

    if response.status_code == 413:
        response_413 = ProblemDocument.from_dict(response.json())

        return response_413

    if response.status_code == 422:
        response_422 = ProblemDocument.from_dict(response.json())

        return response_422

    if response.status_code == 429:
        response_429 = ProblemDocument.from_dict(response.json())

        return response_429

    if response.status_code == 503:
        response_503 = ProblemDocument.from_dict(response.json())

        return response_503

    if client.raise_on_unexpected_status:
        raise errors.UnexpectedStatus(response.status_code, response.content)
    else:
        return None


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[JobAnswer | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: JobRequest,
    idempotency_key: None | str | Unset = UNSET,
) -> Response[JobAnswer | ProblemDocument]:
    """Submit Job

     Submit a job: its price is reserved at once, on every account that it touches or on none.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is
    charged in full,
    whatever happens.

    Args:
        idempotency_key (None | str | Unset): Any string; the same key is the same job
        body (JobRequest): A problem with the privacy that may be spent on it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[JobAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        idempotency_key=idempotency_key,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    body: JobRequest,
    idempotency_key: None | str | Unset = UNSET,
) -> JobAnswer | ProblemDocument | None:
    """Submit Job

     Submit a job: its price is reserved at once, on every account that it touches or on none.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is
    charged in full,
    whatever happens.

    Args:
        idempotency_key (None | str | Unset): Any string; the same key is the same job
        body (JobRequest): A problem with the privacy that may be spent on it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        JobAnswer | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
        idempotency_key=idempotency_key,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: JobRequest,
    idempotency_key: None | str | Unset = UNSET,
) -> Response[JobAnswer | ProblemDocument]:
    """Submit Job

     Submit a job: its price is reserved at once, on every account that it touches or on none.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is
    charged in full,
    whatever happens.

    Args:
        idempotency_key (None | str | Unset): Any string; the same key is the same job
        body (JobRequest): A problem with the privacy that may be spent on it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[JobAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
        idempotency_key=idempotency_key,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    body: JobRequest,
    idempotency_key: None | str | Unset = UNSET,
) -> JobAnswer | ProblemDocument | None:
    """Submit Job

     Submit a job: its price is reserved at once, on every account that it touches or on none.

    Before data are touched a failure or a cancellation releases the price in full; afterwards it is
    charged in full,
    whatever happens.

    Args:
        idempotency_key (None | str | Unset): Any string; the same key is the same job
        body (JobRequest): A problem with the privacy that may be spent on it.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        JobAnswer | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
            idempotency_key=idempotency_key,
        )
    ).parsed
