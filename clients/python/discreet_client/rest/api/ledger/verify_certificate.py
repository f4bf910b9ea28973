from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.certificate_request import CertificateRequest
from ...models.certificate_verdict import CertificateVerdict
from ...models.problem_document import ProblemDocument
from ...types import Response


def _get_kwargs(
    *,
    body: CertificateRequest,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/certificates:verify",
    }

    _kwargs["json"] = body.to_dict()

    headers["Content-Type"] = "application/json"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> CertificateVerdict | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = CertificateVerdict.from_dict(response.json())

        return response_200

    if response.status_code == 400:
        response_400 = ProblemDocument.from_dict(response.json())

        return response_400

    if response.status_code == 401:
        response_401 = ProblemDocument.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = ProblemDocument.from_dict(response.json())

        return response_403

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
) -> Response[CertificateVerdict | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: CertificateRequest,
) -> Response[CertificateVerdict | ProblemDocument]:
    """Verify Certificate

     Derive the price from the events again, compare the guarantee, check the signature and the ledger
    entries; with
    `result` and `tables`, whether they are those that were certified.

    Args:
        body (CertificateRequest): A certificate to check, alone or with the result that it shall
            bind.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[CertificateVerdict | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    body: CertificateRequest,
) -> CertificateVerdict | ProblemDocument | None:
    """Verify Certificate

     Derive the price from the events again, compare the guarantee, check the signature and the ledger
    entries; with
    `result` and `tables`, whether they are those that were certified.

    Args:
        body (CertificateRequest): A certificate to check, alone or with the result that it shall
            bind.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        CertificateVerdict | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: CertificateRequest,
) -> Response[CertificateVerdict | ProblemDocument]:
    """Verify Certificate

     Derive the price from the events again, compare the guarantee, check the signature and the ledger
    entries; with
    `result` and `tables`, whether they are those that were certified.

    Args:
        body (CertificateRequest): A certificate to check, alone or with the result that it shall
            bind.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[CertificateVerdict | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    body: CertificateRequest,
) -> CertificateVerdict | ProblemDocument | None:
    """Verify Certificate

     Derive the price from the events again, compare the guarantee, check the signature and the ledger
    entries; with
    `result` and `tables`, whether they are those that were certified.

    Args:
        body (CertificateRequest): A certificate to check, alone or with the result that it shall
            bind.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        CertificateVerdict | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
        )
    ).parsed
