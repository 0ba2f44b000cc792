"""Watches the sources, and reloads functions when their folder or a layer changes."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from watchfiles import DefaultFilter, awatch

from codelab_local.functions.pool import Pool
from codelab_local.functions.web_functions import WebFunction


class SourceWatch:
    """Watches the folders of all functions until stopped."""

    def __init__(self, pools: Iterable[Pool | WebFunction]) -> None:
        self._pools = list(pools)
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=2)

    async def _watch(self) -> None:
        folders = {folder for pool in self._pools for folder in _folders(pool)}
        options = {"debounce": 200, "step": 100, "watch_filter": DefaultFilter()}
        async for changes in awatch(*folders, stop_event=self._stop, **options):  # type: ignore[arg-type]
            changed_paths = {Path(path) for _, path in changes}
            for pool in self._pools:
                if any(path.is_relative_to(folder) for folder in _folders(pool) for path in changed_paths):
                    pool.change()


def _folders(pool: Pool | WebFunction) -> tuple[Path, ...]:
    return (pool.function.folder, *pool.function.source.layers)
