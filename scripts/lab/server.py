#!/usr/bin/env python3
"""The demo's server: sends back whatever it receives, on any number of connections.

    server.py ADDRESS PORT
"""

import asyncio
import sys


async def echo(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # The gateway told this side too, or the client went away: the next one is served.
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(echo, sys.argv[1], int(sys.argv[2]), reuse_address=True)
    print("listening", flush=True)
    await server.serve_forever()


asyncio.run(main())
