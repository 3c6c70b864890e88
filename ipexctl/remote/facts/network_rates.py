"""How much each network carries from one host to the next: a short TCP stream on each in turn.

A host listens, the one before it in the ring sends, then the first tells what has come in. Its port
is open between these calls, for OPEN seconds at most, and streams are taken only with the token.
"""

import hmac
import os
import socket
import struct
import threading
import time

from ipexctl.remote.facts import host_network

CHUNK = 1 << 18
DIAL = 0.2  # seconds to connect: all networks at once
LONGER = 0.02  # seconds for which a stream goes on after its time, which the receiver measures
SKIPPED = 0.2  # of the time: TCP has to find out how much it may send
STRETCH = 0.25  # of the time
OPEN = 5.0
STRANGERS = 4  # connections without the token at the same time
NUMBER = struct.Struct(">H")  # of the network, behind the token

_receivers = {}  # type: dict[int, Receiver]  # by port


def op_listen(call, args):
    """{token, streams, seconds, ports: those to choose from, or None} -> {port}"""
    server = _listener(args.get("ports"))
    receiver = Receiver(server, args["token"].encode("ascii"), args["streams"], args["seconds"])
    _receivers[receiver.port] = receiver
    return {"port": receiver.port}


def op_send(call, args):
    """{token, seconds, targets: [[number, turn, address, port]]} -> {errors: [[number, error]]}

    The hosts start at nearly the same time, and turn k begins k * seconds later: in one direction
    at a time, because on a slow link acknowledgements wait behind data.
    """
    late = "no answer in %g s" % DIAL
    ways = [[number, address, port] for number, _, address, port in args["targets"]]
    results, links = host_network.connected(ways, time.monotonic() + DIAL, late)
    token, began = args["token"].encode("ascii"), time.monotonic()
    for number, turn, _, _ in sorted(args["targets"], key=lambda target: target[1]):
        if number in links:
            time.sleep(max(0.0, began + turn * args["seconds"] - time.monotonic()))
            _push(links[number], token + NUMBER.pack(number), args["seconds"])
    return {"errors": [[number, error] for number, error in results if error]}


def op_rates(call, args):
    """{port}, as op_listen told it -> {rates: [[number, bits per second]]}; the port is closed."""
    receiver = _receivers.pop(args["port"], None)
    return {"rates": receiver.finish() if receiver else []}


def _listener(ports):
    if not ports:
        return host_network.listener()
    low, count = ports[0], ports[1] - ports[0] + 1
    for step in range(count - 1):
        try:
            return host_network.listener(low + (os.getpid() + step) % count)
        except OSError:
            continue
    return host_network.listener(low + (os.getpid() - 1) % count)


def _push(link, hello, seconds):
    """What is still queued at the end is dropped, so that it delays nothing else."""
    data = memoryview(bytes(CHUNK))
    end = time.monotonic() + seconds + LONGER
    try:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.settimeout(seconds)
        link.sendall(hello)
        while time.monotonic() < end:
            link.settimeout(max(0.001, end - time.monotonic()))
            link.send(data)
    except OSError:  # the time is up, or the other end has enough: it knows the rate
        pass
    finally:
        link.close()


class Receiver:
    """A port, and what comes in there."""

    def __init__(self, server, token, streams, seconds):
        self.token = token
        self.most = min(streams, 64) + STRANGERS
        self.seconds = min(seconds, 2.0)
        self.rates = []  # type: list[list[object]]
        self.guests = []  # type: list[threading.Thread]
        self.server = server
        self.port = self.server.getsockname()[1]
        self.server.settimeout(OPEN)
        self.end = time.monotonic() + OPEN
        _start(self._accept)

    def finish(self):
        try:
            self.server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass  # it has closed the port already
        end = time.monotonic() + self.seconds
        for guest in self.guests:
            guest.join(max(0.0, end - time.monotonic()))
        return list(self.rates)

    def _accept(self):
        try:
            while time.monotonic() < self.end:
                guest = self.server.accept()[0]
                self.guests = [thread for thread in self.guests if thread.is_alive()]
                if len(self.guests) < self.most:
                    self.guests.append(_start(self._take, guest))
                else:
                    guest.close()
        except OSError:
            pass
        finally:
            self.server.close()

    def _take(self, guest):
        try:
            guest.settimeout(max(0.001, self.end - time.monotonic()))
            hello = b""
            size = len(self.token) + NUMBER.size
            while len(hello) < size:
                part = guest.recv(size - len(hello))
                if not part:
                    return
                hello += part
            if hmac.compare_digest(hello[: len(self.token)], self.token):
                rate = _received(guest, self.seconds)
                self.rates.append([NUMBER.unpack(hello[len(self.token) :])[0], rate])
        except OSError:
            pass
        finally:
            guest.close()


def _received(guest, seconds):
    """Bits per second in the best stretch: what stalls is a busy host, or TCP, more often than the
    network. None if nothing came."""
    buffer = bytearray(1 << 20)
    began = now = time.monotonic()
    total, marks = 0, []
    while now - began < seconds:
        guest.settimeout(max(0.001, seconds - (now - began)))
        try:
            count = guest.recv_into(buffer)
        except OSError:
            count = 0
        if not count:
            break
        now = time.monotonic()
        total += count
        if now - began >= SKIPPED * seconds:
            marks.append((now, total))
    return _best(marks, STRETCH * seconds) or total * 8 / seconds or None


def _best(marks, stretch):
    """0 where there is no such stretch."""
    best, first = 0.0, 0
    for now, total in marks:
        while first + 1 < len(marks) and now - marks[first + 1][0] >= stretch:
            first += 1
        passed = now - marks[first][0]
        if passed >= stretch:
            best = max(best, (total - marks[first][1]) * 8 / passed)
    return best


def _start(work, *given):
    thread = threading.Thread(target=work, args=given)
    thread.daemon = True
    thread.start()
    return thread
