"""Sources whose blocks share one chain of entries: the balance of each block is kept as sums
beside it.

The account of a block is named after the chain and the block's number there, with a dot between,
and has no entries of its own. Rules and sums stand in `migrations/current/02_ledger.sql`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import bindparam, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from discreet.storage.ledger import Amounts
from discreet.storage.source_tables import BlockSums


async def open_chain(
    connection: AsyncConnection, account_id: str, *, tenant_id: str, unit: str
) -> None:
    """The chain of a source; its first entry opens its first block."""
    await connection.execute(_OPEN, {"account": account_id, "tenant": tenant_id, "unit": unit})


async def open_block(
    connection: AsyncConnection,
    chain_id: str,
    *,
    cap: Amounts,
    filters: Mapping[str, Amounts],
    actor: str,
    reason: str,
) -> str:
    """The next block of a chain: its account."""
    values = {
        "chain": chain_id,
        "cap": dict(cap),
        "filters": dict(filters),
        "actor": actor,
        "reason": reason,
    }
    return str((await connection.execute(_OPEN_BLOCK, values)).scalar_one())


async def charged_accounts(connection: AsyncConnection, job_id: str) -> list[str]:
    """The accounts on which a job has reserved, each block by itself."""
    return list((await connection.execute(_CHARGED, {"job": job_id})).scalars())


async def sums(
    connection: AsyncConnection, chain_id: str
) -> dict[int, tuple[dict[str, str], dict[str, str], dict[str, str]]]:
    """Totals, reserved amounts and cap of each block of a chain, by its number."""
    columns = (BlockSums.number, BlockSums.totals(), BlockSums.reserved(), BlockSums.cap)
    rows = await connection.execute(select(*columns).where(BlockSums.chain_id == chain_id))
    return {number: (totals, reserved, cap) for number, totals, reserved, cap in rows}


_OPEN = text("SELECT ledger_open_chain(:account, :tenant, :unit)")
_OPEN_BLOCK = text("SELECT ledger_open_block(:chain, :cap, :filters, :actor, :reason)").bindparams(
    bindparam("cap", type_=JSONB), bindparam("filters", type_=JSONB)
)
_CHARGED = text(
    """
    SELECT coalesce(b.account_id, e.account_id) FROM ledger_entries AS e
    LEFT JOIN LATERAL unnest(e.blocks) AS r ON true
    LEFT JOIN block_sums AS b
      ON b.chain_id = e.account_id AND b.number >= lower(r) AND b.number < upper(r)
    WHERE e.job_id = :job AND e.kind = 'reserve' ORDER BY 1
    """
).bindparams(bindparam("job", type_=Text))
