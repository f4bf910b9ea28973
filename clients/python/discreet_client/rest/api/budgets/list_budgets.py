from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.budget_list import BudgetList
from ...models.problem_document import ProblemDocument
from ...types import UNSET, Response, Unset


def _get_kwargs(
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
        "url": "/v1/budgets",
        "params": params,
    }

    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> BudgetList | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = BudgetList.from_dict(response.json())

        return response_200

    if response.status_code == 401:
        response_401 = ProblemDocument.from_dict(response.json())

        return response_401

    if response.status_code == 403:
        response_403 = ProblemDocument.from_dict(response.json())

        return response_403

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
) -> Response[BudgetList | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Response[BudgetList | ProblemDocument]:
    """List Budgets

     All budgets of the tenant: cap, spent, reserved, remaining, and what one more request could be.

    Args:
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[BudgetList | ProblemDocument]
    """

    kwargs = _get_kwargs(
        delta=delta,
    )

    response = client.get_httpx_client().request(
        **kwargs,
    )

    return _build_response(client=client, response=response)


def sync(
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> BudgetList | ProblemDocument | None:
    """List Budgets

     All budgets of the tenant: cap, spent, reserved, remaining, and what one more request could be.

    Args:
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        BudgetList | ProblemDocument
    """

    return sync_detailed(
        client=client,
        delta=delta,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> Response[BudgetList | ProblemDocument]:
    """List Budgets

     All budgets of the tenant: cap, spent, reserved, remaining, and what one more request could be.

    Args:
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[BudgetList | ProblemDocument]
    """

    kwargs = _get_kwargs(
        delta=delta,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    delta: float | str | Unset = 0.0,
) -> BudgetList | ProblemDocument | None:
    """List Budgets

     All budgets of the tenant: cap, spent, reserved, remaining, and what one more request could be.

    Args:
        delta (float | str | Unset): The delta for which `largest_request` is asked Default: 0.0.

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        BudgetList | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            delta=delta,
        )
    ).parsed
