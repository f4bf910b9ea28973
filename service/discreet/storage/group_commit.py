"""Sends calls that would only wait for each other to the database together.

Whoever holds a lock keeps it until the commit is on the disk, so callers that need the same lock
would write to the disk one after the other. Here those that come while a call of their key is under
way gather, and go together as the next: one statement, one commit, one write. A caller that
finds no call under way does not wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Answer = TypeVar("Answer")


class GroupCommit(Generic[Key, Value, Answer]):
    """`run` gets up to `most` values of one key and answers each, in order.

    Cancelling a caller stops nothing, since its request may already be under way together with
    others.
    """

    def __init__(
        self, run: Callable[[Key, list[Value]], Awaitable[Sequence[Answer]]], most: int
    ) -> None:
        self._run, self._most = run, most
        self._waiting: dict[Key, deque[tuple[Value, asyncio.Future[Answer]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, key: Key, value: Value) -> Answer:
        """The answer to `value`, or the error that it meets alone."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if key in self._waiting:
            self._waiting[key].append((value, future))
        else:
            self._waiting[key] = deque([(value, future)])
            task = asyncio.create_task(self._work(key))
            self._tasks.add(task)  # the loop itself keeps no more than a weak reference
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work(self, key: Key) -> None:
        waiting = self._waiting[key]
        try:
            while waiting:
                await self._settle(
                    key, [waiting.popleft() for _ in range(min(len(waiting), self._most))]
                )
        finally:
            del self._waiting[key]
            for _, future in waiting:  # this task was cancelled
                future.cancel()

    async def _settle(self, key: Key, batch: list[tuple[Value, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._run(key, [value for value, _ in batch])
        except Exception as error:
            if (
                len(batch) > 1
            ):  # all of it was rolled back: whose fault it was shows when each goes alone
                for one in batch:
                    await self._settle(key, [one])
            elif not batch[0][1].done():
                batch[0][1].set_exception(error)
        except BaseException:
            for _, future in batch:
                future.cancel()
            raise
        else:
            for (_, future), answer in zip(batch, answers, strict=True):
                if not future.done():
                    future.set_result(answer)
