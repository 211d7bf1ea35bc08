"""Peers that mean no good: what they send is no message, or not yet, or far too much."""
import random
import socket
import struct

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER"


def _greet(link):
    link.sendall(GREETING + READY)


def random_bytes(link, rng):
    link.sendall(rng.randbytes(rng.randrange(1, 4096)))


def half_greeting(link, rng):
    link.sendall(GREETING[:rng.randrange(1, len(GREETING))])


def huge_claim(link, rng):
    """A frame of 8 GiB is announced, and a little of it sent."""
    _greet(link)
    link.sendall(b"\x02" + struct.pack(">Q", 8 << 30) + rng.randbytes(1000))


def endless_parts(link, rng):
    """A message of ever more frames."""
    _greet(link)
    for _ in range(50):
        link.sendall(b"\x03" + struct.pack(">Q", 1000) + rng.randbytes(1000))


def no_message(link, rng):
    """Well formed for the transport, but none of ours."""
    _greet(link)
    for _ in range(20):
        body = rng.randbytes(rng.randrange(0, 250))
        link.sendall(b"\0" + bytes([len(body)]) + body)


def broken_header(link, rng):
    """Ours by its first bytes only."""
    _greet(link)
    body = b"DPWF" + struct.pack("<HH", 1, 56) + rng.randbytes(120)
    link.sendall(b"\0" + bytes([len(body)]) + body)


KINDS = (random_bytes, half_greeting, huge_claim, endless_parts, no_message, broken_header)


class Attack:
    def __init__(self, ports, idle, seed=1):
        self.ports, self.rng = ports, random.Random(seed)
        self.open = []
        self.count = {kind.__name__: 0 for kind in KINDS} | {"idle": 0}
        for number in range(idle):
            try:
                self.open.append(socket.create_connection(("127.0.0.1", ports[number % len(ports)]), timeout=0.2))
                self.count["idle"] += 1
            except OSError:
                break

    def turn(self):
        """One attack of each kind on a port; connections stay open for a while."""
        port = self.rng.choice(self.ports)
        for kind in KINDS:
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=0.2)
                kind(link, self.rng)
                self.open.append(link)
                self.count[kind.__name__] += 1
            except OSError:
                continue
        while len(self.open) > self.count["idle"] + 100:
            self.open.pop(self.count["idle"]).close()

    def close(self):
        for link in self.open:
            link.close()
