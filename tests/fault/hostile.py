"""Hostile peers: they send malformed, incomplete or huge messages, and open idle connections."""
import json
import random
import resource
import signal
import socket
import struct
import sys
import time

GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04\x19\x05READY\x0bSocket-Type\0\0\0\x06DEALER"


def _greet(link):
    link.sendall(GREETING + READY)


def random_bytes(link, rng):
    link.sendall(rng.randbytes(rng.randrange(1, 4096)))


def half_greeting(link, rng):
    link.sendall(GREETING[:rng.randrange(1, len(GREETING))])


def huge_claim(link, rng):
    """Announces a frame of 8 GiB and sends 1000 bytes of it."""
    _greet(link)
    link.sendall(b"\x02" + struct.pack(">Q", 8 << 30) + rng.randbytes(1000))


def endless_parts(link, rng):
    """Sends many frames of a message that never ends."""
    _greet(link)
    for _ in range(50):
        link.sendall(b"\x03" + struct.pack(">Q", 1000) + rng.randbytes(1000))


def no_message(link, rng):
    """Sends messages that are valid for the transport, but are not Downpour messages."""
    _greet(link)
    for _ in range(20):
        body = rng.randbytes(rng.randrange(0, 250))
        link.sendall(b"\0" + bytes([len(body)]) + body)


def broken_header(link, rng):
    """Sends a message that begins with a Downpour header, followed by other bytes."""
    _greet(link)
    body = b"DPWF" + struct.pack("<HH", 1, 56) + rng.randbytes(120)
    link.sendall(b"\0" + bytes([len(body)]) + body)


def endless_message(link, rng):
    """Sends large frames of a message that never ends."""
    _greet(link)
    for _ in range(8):
        link.sendall(b"\x03" + struct.pack(">Q", 1_000_000) + bytes(1_000_000))


def empty_frames(link, rng):
    """Sends empty frames, two bytes each on the wire, of a message that never ends."""
    _greet(link)
    for _ in range(32):
        link.sendall(b"\x01\0" * 32768)


def envelope(kind, body, rng):
    """Returns a header frame that is valid except for its body."""
    after = struct.pack("<HHIQQIIII", kind, 0, 1, rng.randrange(1, 1 << 64), rng.randrange(1, 1 << 64), 1, 0, 0, 0) + body
    return b"DPWF" + struct.pack("<HHII", 1, 56, 16 + len(after), crc32c(after)) + after


def mutated_body(link, rng):
    """Sends valid envelopes of all kinds. Each body is a Cap'n Proto segment of random words."""
    _greet(link)
    for _ in range(24):
        words = rng.randrange(2, 24)
        pointer = struct.pack("<IHH", 0, rng.randrange(1, 8), rng.randrange(0, 6))
        body = struct.pack("<II", 0, words) + pointer + rng.randbytes(8 * (words - 1))
        frame = envelope(rng.randrange(1, 36), body, rng)
        link.sendall(b"\x02" + struct.pack(">Q", len(frame)) + frame)


def valid_then_endless(link, rng):
    """Sends a valid envelope, then empty frames of a message that never ends."""
    _greet(link)
    frame = envelope(rng.randrange(1, 36), struct.pack("<II", 0, 1) + bytes(8), rng)
    link.sendall(b"\0" + bytes([len(frame)]) + frame)
    for _ in range(16):
        link.sendall(b"\x01\0" * 32768)


def _crc_table():
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


CRC_TABLE = _crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


KINDS = (random_bytes, half_greeting, huge_claim, endless_parts, no_message, broken_header, endless_message, empty_frames, mutated_body,
         valid_then_endless)


def raise_descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Attack:
    """Opens `idle` idle connections to the ports at once, and further attacks at each turn()."""

    def __init__(self, ports, idle, seed=1):
        raise_descriptor_limit()
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
        """Runs one attack of each kind on a random port. The last 100 connections stay open."""
        port = self.rng.choice(self.ports)
        for kind in KINDS:
            try:
                link = socket.create_connection(("127.0.0.1", port), timeout=0.2)
            except OSError:
                continue
            self.count[kind.__name__] += 1
            self.open.append(link)
            try:
                kind(link, self.rng)
            except OSError:
                continue  # the peer has closed the connection
        while len(self.open) > self.count["idle"] + 100:
            self.open.pop(self.count["idle"]).close()

    def close(self):
        for link in self.open:
            link.close()


def main():
    """hostile.py SECONDS IDLE PORT...: attacks until the time is over or SIGTERM arrives.

    Pauses after each turn. Prints the number of connections by kind as JSON.
    """
    seconds, idle, *ports = map(int, sys.argv[1:])
    terminated = []
    signal.signal(signal.SIGTERM, lambda *_: terminated.append(True))
    begun = time.monotonic()
    attack = Attack(ports, idle)
    while time.monotonic() < begun + seconds and not terminated:
        attack.turn()
        time.sleep(0.05)
    attack.close()
    print(json.dumps(attack.count))


if __name__ == "__main__":
    main()
