#!/usr/bin/env python3
"""Lets a browser outside of the laboratory see the gateway's web page: listens on this machine's loopback, and carries
what comes to the loopback of the gateway's namespace.

    page.py NAMESPACE [PORT]
"""

import asyncio
import ctypes
import os
import socket
import sys

MONITOR = 6082  # where the gateway's monitoring endpoint is, in its namespace
CLONE_NEWNET = 0x40000000


def enter(namespace):
    """What this thread opens from here on is opened in NAMESPACE; what is open stays where it is."""
    with open(f"/run/netns/{namespace}") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def visit(reader, writer):
    try:
        there, back = await asyncio.open_connection("127.0.0.1", MONITOR)
    except OSError as error:
        print(f"the gateway does not answer: {error}", file=sys.stderr)
        writer.close()
        return
    await asyncio.gather(carry(reader, back), carry(there, writer))


async def main(namespace, port=MONITOR):
    listener = socket.create_server(("127.0.0.1", int(port)))
    enter(namespace)
    server = await asyncio.start_server(visit, sock=listener)
    print(f"http://127.0.0.1:{port}/ until Ctrl-C", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    try:
        asyncio.run(main(*sys.argv[1:]))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        sys.exit(f"page.py: {error}")
