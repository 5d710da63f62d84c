"""A server in its own process and connections to it, for the benchmarks of the service."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import numpy as np

CONNECTIONS = 64
PATIENCE = 600.0
"""Seconds to wait for a server that becomes ready."""
UNLIMITED = """
storage = "data"
port = 0
[limits]
waiting = 1000000
open = 1000000
"""
"""The beginning of a configuration; more limits may follow."""
CONFIG = (
    UNLIMITED
    + """[[learners]]
name = "shop"
problem = { states = 1, actions = 3, horizon = 1 }
deadline_episodes = 2000
default = 1.0
[[learners]]
name = "robot"
problem = { states = 20, actions = 4, horizon = 10, homogeneous = true }
deadline_episodes = 100000
"""
)


class Server:
    """A server in its own process, which ends with a `with` block.

    command: the arguments of Python before the configuration.
    """

    def __init__(
        self,
        directory: Path,
        *command: str,
        options: tuple[str, ...] = (),
        config: str = CONFIG,
    ) -> None:
        (directory / "serve.toml").write_text(config)
        self._log = (directory / "log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, *(command or ("-m", "belated", "serve")), "serve.toml", *options],
            cwd=directory,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        while not (found := re.search(r":(\d+)\n", self.said())):
            assert self.process.poll() is None, self.said()
            time.sleep(0.05)
        self.port = int(found[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def said(self) -> str:
        """What it has printed."""
        return Path(self._log.name).read_text()

    def memory(self) -> float:
        """Resident megabytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024

    def processor(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Ask it to end."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._log.close()


class Connection:
    """HTTP/1.1 with as little work as possible, so that the server dominates the times."""

    async def open(self, port: int) -> "Connection":
        """Connect."""
        self._port = port
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        return self

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of the answer."""
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + content)
        try:
            answer = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):  # closed while idle
            await self.open(self._port)
            return await self.ask(method, path, body)
        length = int(re.search(rb"content-length: (\d+)", answer)[1])
        return int(answer[9:12]), await self._reader.readexactly(length)

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()


@asynccontextmanager
async def connected(port: int, most: int = CONNECTIONS) -> AsyncIterator[list[Connection]]:
    """Connections to a server, once it is ready; they are closed at the end."""
    connections = await ready(port, most)
    try:
        yield connections
    finally:
        for connection in connections:
            connection.close()


async def ready(port: int, most: int) -> list[Connection]:
    """Connections to a server, once it is ready; one that has ended is an error."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                connections = [await Connection().open(port) for _ in range(most)]
                while (await connections[0].ask("GET", "/readyz"))[0] != 200:
                    await asyncio.sleep(0.1)
                return connections
            except ConnectionError:
                await asyncio.sleep(0.1)


async def timed(
    server: Server, connections: list[Connection], work: Callable[[], tuple | None], seconds: float
) -> tuple[np.ndarray, list[bytes], float, float]:
    """Times of requests, answers, the seconds in all, and the processor seconds of the server.

    work: makes the next request; None ends a connection's work early.
    """
    times: list[float] = []
    answers: list[bytes] = []
    before, start = server.processor(), time.perf_counter()

    async def drive(connection: Connection) -> None:
        while (now := time.perf_counter()) < start + seconds and (request := work()) is not None:
            status, body = await connection.ask(*request)
            assert status == 200, (status, body[:200])
            times.append(time.perf_counter() - now)
            answers.append(body)

    await asyncio.gather(*map(drive, connections))
    took = time.perf_counter() - start
    return np.array(times), answers, took, server.processor() - before
