from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.problem_document import ProblemDocument
from ...types import Response


def _get_kwargs(
    job_id: str,
    table: str,
) -> dict[str, Any]:

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/jobs/{job_id}/result/{table}".format(
            job_id=quote(str(job_id), safe=""),
            table=quote(str(table), safe=""),
        ),
    }

    return _kwargs


def _parse_response(*, client: AuthenticatedClient | Client, response: httpx.Response) -> Any | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = response.json()
        return response_200

    if response.status_code == 304:
        response_304 = cast(Any, None)
        return response_304

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

    if response.status_code == 429:
        response_429 = ProblemDocument.from_dict(response.json())

        return response_429

    if response.status_code == 500:
        response_500 = ProblemDocument.from_dict(response.json())

        return response_500

    if response.status_code == 503:
        response_503 = ProblemDocument.from_dict(response.json())

        return response_503

    if client.raise_on_unexpected_status:
        raise errors.UnexpectedStatus(response.status_code, response.content)
    else:
        return None


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[Any | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    job_id: str,
    table: str,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Get Result Table

     A field of more than a million numbers, as Parquet.

    Args:
        job_id (str):
        table (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        job_id=job_id,
        table=table,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    job_id: str,
    table: str,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Get Result Table

     A field of more than a million numbers, as Parquet.

    Args:
        job_id (str):
        table (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return sync_detailed(
        job_id=job_id,
        table=table,
        client=client,
    ).parsed


async def asyncio_detailed(
    job_id: str,
    table: str,
    *,
    client: AuthenticatedClient,
) -> Response[Any | ProblemDocument]:
    """Get Result Table

     A field of more than a million numbers, as Parquet.

    Args:
        job_id (str):
        table (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ProblemDocument]
    """

    kwargs = _get_kwargs(
        job_id=job_id,
        table=table,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    job_id: str,
    table: str,
    *,
    client: AuthenticatedClient,
) -> Any | ProblemDocument | None:
    """Get Result Table

     A field of more than a million numbers, as Parquet.

    Args:
        job_id (str):
        table (str):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ProblemDocument
    """

    return (
        await asyncio_detailed(
            job_id=job_id,
            table=table,
            client=client,
        )
    ).parsed
