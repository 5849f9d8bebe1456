"""TCP through the gateway: a server that answers, and a client whose connections go on until it is told to stop.

    traffic.py serve ADDRESS PORT
    traffic.py ask ADDRESS PORT CONNECTIONS

Each connection asks twenty times a second and waits for its answer; the client prints a line when all are connected,
at SIGUSR1 how often each was answered, and, at SIGTERM, what came of each as JSON.
"""

import asyncio
import contextlib
import json
import signal
import sys
import time

INTERVAL = 0.05
PATIENCE = 30


async def serve(address: str, port: int) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, address, port)
    print("serves", flush=True)
    await server.serve_forever()


async def ask(address: str, port: int, connections: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    opened = await asyncio.gather(*(asyncio.open_connection(address, port) for _ in range(connections)))
    answered = [0] * connections
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: print(json.dumps(answered), flush=True))
    print("connected", flush=True)

    async def one(number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict:
        asked, longest, error = 0, 0.0, None
        try:
            while not stop.is_set():
                begun = time.monotonic()
                writer.write(b"%d\n" % asked)
                answer = await asyncio.wait_for(reader.readline(), PATIENCE)
                if answer != b"%d\n" % asked:
                    raise ConnectionError(f"answered {answer!r}")
                asked += 1
                answered[number] = asked
                longest = max(longest, time.monotonic() - begun)
                await asyncio.sleep(INTERVAL)
        except (OSError, asyncio.TimeoutError) as fault:
            error = repr(fault)
        return {"asked": asked, "longest_ms": round(longest * 1000), "error": error}

    print(json.dumps(await asyncio.gather(*(one(number, *pair) for number, pair in enumerate(opened)))), flush=True)


what, where, which, *more = sys.argv[1:]
asyncio.run(serve(where, int(which)) if what == "serve" else ask(where, int(which), int(more[0])))
