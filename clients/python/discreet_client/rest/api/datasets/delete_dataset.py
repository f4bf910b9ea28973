from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.erased_answer import ErasedAnswer
from ...models.problem_document import ProblemDocument
from ...types import Response, Unset


def _get_kwargs(
    dataset_id: str,
    *,
    prefer: str | Unset = "",
) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if not isinstance(prefer, Unset):
        headers["prefer"] = prefer

    _kwargs: dict[str, Any] = {
        "method": "delete",
        "url": "/v1/datasets/{dataset_id}".format(
            dataset_id=quote(str(dataset_id), safe=""),
        ),
    }

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Any | ErasedAnswer | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = ErasedAnswer.from_dict(response.json())

        return response_200

    if response.status_code == 204:
        response_204 = cast(Any, None)
        return response_204

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

    if response.status_code == 503:
        response_503 = ProblemDocument.from_dict(response.json())

        return response_503

    if client.raise_on_unexpected_status:
        raise errors.UnexpectedStatus(response.status_code, response.content)
    else:
        return None


def _build_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Response[Any | ErasedAnswer | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    dataset_id: str,
    *,
    client: AuthenticatedClient,
    prefer: str | Unset = "",
) -> Response[Any | ErasedAnswer | ProblemDocument]:
    """Delete Dataset

     Erase the content. Its account and ledger stay, and the same content registered again finds them.

    Args:
        dataset_id (str):
        prefer (str | Unset): `return=representation` asks for what remains (RFC 7240) Default:
            ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ErasedAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        dataset_id=dataset_id,
        prefer=prefer,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    dataset_id: str,
    *,
    client: AuthenticatedClient,
    prefer: str | Unset = "",
) -> Any | ErasedAnswer | ProblemDocument | None:
    """Delete Dataset

     Erase the content. Its account and ledger stay, and the same content registered again finds them.

    Args:
        dataset_id (str):
        prefer (str | Unset): `return=representation` asks for what remains (RFC 7240) Default:
            ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ErasedAnswer | ProblemDocument
    """

    return sync_detailed(
        dataset_id=dataset_id,
        client=client,
        prefer=prefer,
    ).parsed


async def asyncio_detailed(
    dataset_id: str,
    *,
    client: AuthenticatedClient,
    prefer: str | Unset = "",
) -> Response[Any | ErasedAnswer | ProblemDocument]:
    """Delete Dataset

     Erase the content. Its account and ledger stay, and the same content registered again finds them.

    Args:
        dataset_id (str):
        prefer (str | Unset): `return=representation` asks for what remains (RFC 7240) Default:
            ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | ErasedAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        dataset_id=dataset_id,
        prefer=prefer,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    dataset_id: str,
    *,
    client: AuthenticatedClient,
    prefer: str | Unset = "",
) -> Any | ErasedAnswer | ProblemDocument | None:
    """Delete Dataset

     Erase the content. Its account and ledger stay, and the same content registered again finds them.

    Args:
        dataset_id (str):
        prefer (str | Unset): `return=representation` asks for what remains (RFC 7240) Default:
            ''.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | ErasedAnswer | ProblemDocument
    """

    return (
        await asyncio_detailed(
            dataset_id=dataset_id,
            client=client,
            prefer=prefer,
        )
    ).parsed
