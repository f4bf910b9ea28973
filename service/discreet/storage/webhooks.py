"""Webhooks and their messages: an outbox, written with what it tells of and emptied by the workers.

Everything that is due is taken under a lease: a worker that dies leaves its messages to the next
one, so that each comes at least once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.identifiers import new_id
from discreet.storage.tables import Webhook, WebhookDelivery

Row = dict[str, Any]

KEPT_DAYS = 7
"""How long messages are kept after they were written."""


async def add(connection: AsyncConnection, **values: Any) -> Row:
    row = (
        (await connection.execute(insert(Webhook).values(**values).returning(Webhook)))
        .mappings()
        .one()
    )
    return dict(row)


async def count(connection: AsyncConnection, tenant_id: str) -> int:
    statement = select(func.count()).where(Webhook.tenant_id == tenant_id)
    return int((await connection.execute(statement)).scalar_one())


async def all_of(connection: AsyncConnection, tenant_id: str) -> list[Row]:
    statement = (
        select(Webhook)
        .where(Webhook.tenant_id == tenant_id)
        .order_by(Webhook.created_at, Webhook.id)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def remove(connection: AsyncConnection, tenant_id: str, webhook_id: str) -> bool:
    """Forget a webhook with its messages. False when there is none."""
    statement = delete(Webhook).where(Webhook.id == webhook_id, Webhook.tenant_id == tenant_id)
    return (await connection.execute(statement)).rowcount == 1


async def announce(
    connection: AsyncConnection,
    tenant_id: str,
    event: str,
    subject: str,
    data: Mapping[str, Any],
    *,
    quiet_seconds: int = 0,
) -> None:
    """Write a message about `subject` to every webhook of the tenant that wants this event, in this
    transaction.

    With `quiet_seconds` none that told the same in that time is told again.
    """
    statement = select(Webhook.id).where(
        Webhook.tenant_id == tenant_id, Webhook.disabled_at.is_(None), Webhook.events.op("?")(event)
    )
    if quiet_seconds:
        told = select(WebhookDelivery.id).where(
            WebhookDelivery.webhook_id == Webhook.id,
            WebhookDelivery.event == event,
            WebhookDelivery.subject == subject,
            WebhookDelivery.created_at
            > func.now() - text(f"interval '{int(quiet_seconds)} seconds'"),
        )
        statement = statement.where(~told.exists())
    wanting = list((await connection.execute(statement)).scalars())
    if not wanting:
        return
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body = json.dumps({"type": event, "timestamp": at, "data": dict(data)}, separators=(",", ":"))
    await connection.execute(
        insert(WebhookDelivery),
        [
            {
                "id": new_id("evt"),
                "tenant_id": tenant_id,
                "webhook_id": webhook_id,
                "event": event,
                "subject": subject,
                "body": body,
            }
            for webhook_id in wanting
        ],
    )


# A worker's steps ---------------------------------------------------------------------------------


async def take(connection: AsyncConnection, most: int, lease_seconds: float) -> list[Row]:
    """Messages that are due, with their webhooks, leased for so long: a few of each webhook, so
    that none waits behind one that is slow."""
    rows = await connection.execute(_TAKE, {"most": most, "lease": lease_seconds})
    return [dict(row) for row in rows.mappings()]


async def _hold(connection: AsyncConnection, webhook_id: str) -> None:
    """Lock a webhook before its messages, as its removal does: no two of them wait for each
    other."""
    await connection.execute(
        select(Webhook.id).where(Webhook.id == webhook_id).with_for_update(key_share=True)
    )


async def delivered(connection: AsyncConnection, delivery: Row) -> None:
    await _hold(connection, delivery["webhook_id"])
    await connection.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.id == delivery["id"])
        .values(delivered_at=func.now(), next_at=None)
    )
    await connection.execute(
        update(Webhook)
        .where(Webhook.id == delivery["webhook_id"], Webhook.failing_since.is_not(None))
        .values(failing_since=None, last_error=None)
    )


async def failed(
    connection: AsyncConnection,
    delivery: Row,
    *,
    why: str,
    wait_seconds: float,
    give_up_seconds: float,
    gone: bool,
) -> bool:
    """Note a failed delivery and when the next one is due; True when the webhook is disabled now.

    `gone`: its server said that it wants no more. Otherwise it is disabled when nothing has come
    through for `give_up_seconds`.
    """
    await _hold(connection, delivery["webhook_id"])
    late = func.now() - func.make_interval(0, 0, 0, 0, 0, 0, give_up_seconds)
    await connection.execute(
        update(WebhookDelivery)
        .where(WebhookDelivery.id == delivery["id"])
        .values(next_at=func.now() + func.make_interval(0, 0, 0, 0, 0, 0, wait_seconds))
    )
    since = (
        await connection.execute(
            update(Webhook)
            .where(Webhook.id == delivery["webhook_id"])
            .values(failing_since=func.coalesce(Webhook.failing_since, func.now()), last_error=why)
            .returning(Webhook.failing_since < late)
        )
    ).scalar_one_or_none()
    if not (gone or since):
        return False
    await connection.execute(
        update(Webhook).where(Webhook.id == delivery["webhook_id"]).values(disabled_at=func.now())
    )
    await connection.execute(
        update(WebhookDelivery)
        .where(
            WebhookDelivery.webhook_id == delivery["webhook_id"],
            WebhookDelivery.next_at.is_not(None),
        )
        .values(next_at=None)
    )
    return True


async def forget_old(connection: AsyncConnection) -> None:
    """Drop messages that are older than anybody asks for, delivered or not."""
    await connection.execute(
        delete(WebhookDelivery).where(
            WebhookDelivery.created_at < func.now() - text(f"interval '{KEPT_DAYS} days'")
        )
    )


_TAKE = text(
    """
    UPDATE webhook_deliveries AS d
    SET attempts = d.attempts + 1, next_at = now() + make_interval(secs => :lease)
    FROM webhooks AS w
    WHERE w.id = d.webhook_id AND d.id IN (
        SELECT due.id FROM webhooks AS hook, LATERAL (
            SELECT one.id FROM webhook_deliveries AS one
            WHERE one.webhook_id = hook.id AND one.next_at <= now()
            ORDER BY one.next_at LIMIT 4 FOR UPDATE SKIP LOCKED
        ) AS due
        WHERE hook.disabled_at IS NULL LIMIT :most
    )
    RETURNING d.id, d.webhook_id, d.tenant_id, d.event, d.body, d.attempts, d.created_at,
              w.url, w.content_key_id, w.sealed_secret
    """
)
