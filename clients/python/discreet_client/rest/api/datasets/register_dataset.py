from http import HTTPStatus
from typing import Any

import httpx

from ... import errors
from ...client import AuthenticatedClient, Client
from ...models.dataset_answer import DatasetAnswer
from ...models.dr_ensemble_dataset import DrEnsembleDataset
from ...models.multi_agent_dataset import MultiAgentDataset
from ...models.off_policy_dataset import OffPolicyDataset
from ...models.problem_document import ProblemDocument
from ...models.register_dataset_files_body import RegisterDatasetFilesBody
from ...models.routing_dataset import RoutingDataset
from ...types import UNSET, Response, Unset


def _get_kwargs(
    *,
    body: DrEnsembleDataset
    | MultiAgentDataset
    | OffPolicyDataset
    | RoutingDataset
    | RegisterDatasetFilesBody
    | Unset = UNSET,
) -> dict[str, Any]:
    headers: dict[str, Any] = {}

    _kwargs: dict[str, Any] = {
        "method": "post",
        "url": "/v1/datasets",
    }

    if isinstance(body, DrEnsembleDataset | MultiAgentDataset | OffPolicyDataset | RoutingDataset):
        if isinstance(body, RoutingDataset):
            _kwargs["json"] = body.to_dict()
        elif isinstance(body, DrEnsembleDataset):
            _kwargs["json"] = body.to_dict()
        elif isinstance(body, OffPolicyDataset):
            _kwargs["json"] = body.to_dict()
        else:
            _kwargs["json"] = body.to_dict()

        headers["Content-Type"] = "application/json"
    if isinstance(body, RegisterDatasetFilesBody):
        _kwargs["files"] = body.to_multipart()

        headers["Content-Type"] = "multipart/form-data; boundary=+++"

    _kwargs["headers"] = headers
    return _kwargs


def _parse_response(
    *, client: AuthenticatedClient | Client, response: httpx.Response
) -> DatasetAnswer | ProblemDocument | None:
    if response.status_code == 200:
        response_200 = DatasetAnswer.from_dict(response.json())

        return response_200

    if response.status_code == 201:
        response_201 = DatasetAnswer.from_dict(response.json())

        return response_201

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
) -> Response[DatasetAnswer | ProblemDocument]:
    return Response(
        status_code=HTTPStatus(response.status_code),
        content=response.content,
        headers=response.headers,
        parsed=_parse_response(client=client, response=response),
    )


def sync_detailed(
    *,
    client: AuthenticatedClient,
    body: DrEnsembleDataset
    | MultiAgentDataset
    | OffPolicyDataset
    | RoutingDataset
    | RegisterDatasetFilesBody
    | Unset = UNSET,
) -> Response[DatasetAnswer | ProblemDocument]:
    """Register

     Register a dataset. The same content again is the same dataset on the same account, with 200.

    Args:
        body (DrEnsembleDataset | MultiAgentDataset | OffPolicyDataset | RoutingDataset): A
            dataset to register.
        body (RegisterDatasetFilesBody):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[DatasetAnswer | ProblemDocument]
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
    body: DrEnsembleDataset
    | MultiAgentDataset
    | OffPolicyDataset
    | RoutingDataset
    | RegisterDatasetFilesBody
    | Unset = UNSET,
) -> DatasetAnswer | ProblemDocument | None:
    """Register

     Register a dataset. The same content again is the same dataset on the same account, with 200.

    Args:
        body (DrEnsembleDataset | MultiAgentDataset | OffPolicyDataset | RoutingDataset): A
            dataset to register.
        body (RegisterDatasetFilesBody):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        DatasetAnswer | ProblemDocument
    """

    return sync_detailed(
        client=client,
        body=body,
    ).parsed


async def asyncio_detailed(
    *,
    client: AuthenticatedClient,
    body: DrEnsembleDataset
    | MultiAgentDataset
    | OffPolicyDataset
    | RoutingDataset
    | RegisterDatasetFilesBody
    | Unset = UNSET,
) -> Response[DatasetAnswer | ProblemDocument]:
    """Register

     Register a dataset. The same content again is the same dataset on the same account, with 200.

    Args:
        body (DrEnsembleDataset | MultiAgentDataset | OffPolicyDataset | RoutingDataset): A
            dataset to register.
        body (RegisterDatasetFilesBody):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        Response[DatasetAnswer | ProblemDocument]
    """

    kwargs = _get_kwargs(
        body=body,
    )

    response = await client.get_async_httpx_client().request(**kwargs)

    return _build_response(client=client, response=response)


async def asyncio(
    *,
    client: AuthenticatedClient,
    body: DrEnsembleDataset
    | MultiAgentDataset
    | OffPolicyDataset
    | RoutingDataset
    | RegisterDatasetFilesBody
    | Unset = UNSET,
) -> DatasetAnswer | ProblemDocument | None:
    """Register

     Register a dataset. The same content again is the same dataset on the same account, with 200.

    Args:
        body (DrEnsembleDataset | MultiAgentDataset | OffPolicyDataset | RoutingDataset): A
            dataset to register.
        body (RegisterDatasetFilesBody):

    Raises:
        errors.UnexpectedStatus: If the server returns an undocumented status code and Client.raise_on_unexpected_status is True.
        httpx.TimeoutException: If the request takes longer than Client.timeout.

    Returns:
        DatasetAnswer | ProblemDocument
    """

    return (
        await asyncio_detailed(
            client=client,
            body=body,
        )
    ).parsed
