#!/usr/bin/env python3
"""The demo's server: sends back whatever it receives, on any number of connections. SIGUSR1 makes it say
something of its own on each of them.

    server.py ADDRESS PORT
"""

import asyncio
import signal
import sys

writers = set()


def speak():
    for writer in writers:
        writer.write(b"any questions?\n")


async def echo(reader, writer):
    writers.add(writer)
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # The gateway told this side too, or the client went away: the next one is served.
    finally:
        writers.discard(writer)
        writer.close()


async def main():
    server = await asyncio.start_server(echo, sys.argv[1], int(sys.argv[2]), reuse_address=True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, speak)
    print("listening", flush=True)
    await server.serve_forever()


asyncio.run(main())
