#!/usr/bin/env python3
"""The demo's client: one long-lived connection, a question every 20 ms, each of which the server
answers by sending it back. An ordinary program on ordinary sockets: it sets no timeout and knows
nothing of the gateway. When its connection breaks it says so and connects anew.

    client.py ADDRESS PORT [--silent]

With --silent it asks once and then only listens, as one does who waits for news; SIGUSR1 makes it ask
once more.

Tells what happens on standard output, one JSON object a line, `at` being the time of day.
"""

import errno
import json
import select
import signal
import socket
import sys
import time

QUESTION_EVERY = 0.020
QUESTION = b"is anybody there?\n"
NEVER = float("inf")
SILENT = "--silent" in sys.argv


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
        wait = None if ask_next == NEVER else max(0, ask_next - time.time())
        readable, _, _ = select.select([connection, WOKEN], [], [], wait)
        now = time.time()
        if WOKEN in readable:
            WOKEN.recv(64)
            readable.remove(WOKEN)
            ask_next = now
            tell("asks again")
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
        if now - heard > 0.15 and not silent and not SILENT:
            silent = True
            tell("silence", since=heard, answers=answers)
        if now >= ask_next:
            ask_next = NEVER if SILENT else now + QUESTION_EVERY
            try:
                connection.send(QUESTION)
            except BlockingIOError:
                pass  # What was sent before is not acknowledged: the kernel takes no more.


WOKEN, waker = socket.socketpair()


def main():
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGUSR1, lambda *_: None)
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
