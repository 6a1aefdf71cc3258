"""TCP proxies that hold, delay, swallow and cut what passes through them. One thread serves all of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from pathlib import Path
from typing import Callable, Union

Target = Union[int, Path]  # a port of 127.0.0.1, or a Unix socket
READ_BYTES = 65536


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


class Proxy:
    """Listens on `port` of 127.0.0.1 and passes everything on to `target`. Thread-safe; calls return at once.

    Faults last until pass_on(), except cut(), which ends the connections that are open."""

    _loop: Union[asyncio.AbstractEventLoop, None] = None

    def __init__(self, target: Target) -> None:
        if Proxy._loop is None:
            Proxy._loop = _start_loop()
        self._target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._refuses, self._swallows, self._delay = False, False, 0.0
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = listener.getsockname()[1]
        asyncio.run_coroutine_threadsafe(self._listen(listener), Proxy._loop).result()

    async def _listen(self, listener: socket.socket) -> None:
        self._passes = asyncio.Event()
        self._passes.set()
        self._server = await asyncio.start_server(self._connect, sock=listener)

    def pass_on(self) -> None:
        self._set(refuses=False, swallows=False, delay=0.0, holds=False)

    def cut(self) -> None:
        """Resets all open connections."""
        self._soon(self._cut)

    def refuse(self) -> None:
        """Resets all connections, old and new."""
        self._set(refuses=True)
        self.cut()

    def hold(self) -> None:
        """Passes nothing on, as a machine that does not answer. Bytes are kept."""
        self._set(holds=True)

    def slow(self, seconds: float) -> None:
        """Delays each piece in both directions."""
        self._set(delay=seconds)

    def swallow(self) -> None:
        """Passes requests on and drops the answers."""
        self._set(swallows=True)

    def _soon(self, action: Callable[[], None]) -> None:
        Proxy._loop.call_soon_threadsafe(action)

    def _set(self, refuses: bool = False, swallows: bool = False, delay: float = 0.0, holds: bool = False) -> None:
        def change() -> None:
            self._refuses, self._swallows, self._delay = refuses, swallows, delay
            (self._passes.clear if holds else self._passes.set)()

        self._soon(change)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            unix = isinstance(self._target, Path)
            to = asyncio.open_unix_connection(str(self._target)) if unix else asyncio.open_connection("127.0.0.1", self._target)
            answers, requests = await to
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, requests}
        both = [asyncio.create_task(self._pump(reader, requests, False)), asyncio.create_task(self._pump(answers, writer, True))]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, requests):
            end.close()
        await asyncio.wait(both)
        self._writers -= {writer, requests}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: bool) -> None:
        """Copies one direction until either side ends."""
        try:
            while data := await reader.read(READ_BYTES):
                if self._delay:
                    await asyncio.sleep(self._delay)
                await self._passes.wait()
                if answers and self._swallows:
                    continue
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
