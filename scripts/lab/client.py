#!/usr/bin/env python3
"""The demo's client: one long-lived connection, a question every 20 ms, each of which the server
answers by sending it back. An ordinary program on ordinary sockets: it sets no timeout and knows
nothing of the gateway. When its connection breaks it says so and connects anew.

    client.py ADDRESS PORT

Tells what happens on standard output, one JSON object a line, `at` being the time of day.
"""

import errno
import json
import select
import socket
import sys
import time

QUESTION_EVERY = 0.020
QUESTION = b"is anybody there?\n"


def tell(what, **more):
    print(json.dumps({"at": time.time(), "what": what, **more}), flush=True)


def talk(connection):
    """Asks and hears until the connection breaks. Tells of the first answer and of a silence."""
    answers = 0
    silent = False
    heard = time.time()
    ask_next = time.time()
    connection.setblocking(False)
    while True:
        readable, _, _ = select.select([connection], [], [], max(0, ask_next - time.time()))
        now = time.time()
        if readable:
            data = connection.recv(65536)
            if not data:
                raise ConnectionError(0, "closed by the server")
            if answers == 0:
                tell("first answer")
            elif silent:
                tell("answers again", after=now - heard)
            answers += data.count(b"\n")
            silent = False
            heard = now
        if now - heard > 0.15 and not silent:
            silent = True
            tell("silence", since=heard, answers=answers)
        if now >= ask_next:
            ask_next = now + QUESTION_EVERY
            try:
                connection.send(QUESTION)
            except BlockingIOError:
                pass  # What was sent before is not acknowledged: the kernel takes no more.


def main():
    server = (sys.argv[1], int(sys.argv[2]))
    while True:
        try:
            connection = socket.create_connection(server)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tell("connected", port=connection.getsockname()[1])
            talk(connection)
        except OSError as error:
            tell("broken", error=errno.errorcode.get(error.errno, str(error)), text=error.strerror)


main()
