from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.budget_answer import BudgetAnswer
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
    account_id: str,
    *,
    delta: float | str | Unset = 0.0,
) -> dict[str, Any]:

    params: dict[str, Any] = {}

    json_delta: float | str | Unset
    if isinstance(delta, Unset):
        json_delta = UNSET
    else:
        json_delta = delta
    params["delta"] = json_delta

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    _kwargs: dict[str, Any] = {
        "method": "get",
        "url": "/v1/budgets/{account_id}".format(
            account_id=quote(str(account_id), safe=""),
        ),
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> Any | BudgetAnswer | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = BudgetAnswer.from_dict(response.json())

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
) -> Response[Any | BudgetAnswer | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    account_id: str,
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Response[Any | BudgetAnswer | ProblemDocument]:
    """Get Budget

     One budget, as the ledger is now.

    Args:
        account_id (str):
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | BudgetAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        account_id=account_id,
        delta=delta,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    account_id: str,
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Any | BudgetAnswer | ProblemDocument | None:
    """Get Budget

     One budget, as the ledger is now.

    Args:
        account_id (str):
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | BudgetAnswer | ProblemDocument
    """

    return sync_detailed(
        account_id=account_id,
        client=client,
        delta=delta,
    ).parsed


async def asyncio_detailed(
    account_id: str,
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Response[Any | BudgetAnswer | ProblemDocument]:
    """Get Budget

     One budget, as the ledger is now.

    Args:
        account_id (str):
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[Any | BudgetAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        account_id=account_id,
        delta=delta,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    account_id: str,
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Any | BudgetAnswer | ProblemDocument | None:
    """Get Budget

     One budget, as the ledger is now.

    Args:
        account_id (str):
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Any | BudgetAnswer | ProblemDocument
    """

    return (
        await asyncio_detailed(
            account_id=account_id,
            client=client,
            delta=delta,
        )
    ).parsed
