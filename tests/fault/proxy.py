"""A TCP proxy that injects network faults: python3 proxy.py LISTEN_HOST:PORT TO_HOST:PORT

Reads commands from stdin, one per line, and answers each with `ok`:
  pass                  forwards bytes, including held ones
  hold up|down|both     holds all bytes in that direction (a network partition, possibly one-way)
  delay MS              delays each byte by that many milliseconds
  trickle BYTES_PER_S   forwards slowly, in small pieces
  half                  closes only the far side of open connections; the near side's bytes are lost
  reset                 breaks open connections with a reset
  to HOST:PORT          forwards new connections to that address
"""
import collections
import selectors
import socket
import struct
import sys
import time

CHUNK = 1 << 16
BACKLOG_MAX = 64 << 20  # held bytes in one direction; above it the proxy stops reading


class Flow:
    """One direction of a connection, with the bytes that wait to be sent."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.waiting = collections.deque()  # (due, bytes)
        self.bytes = 0
        self.ended = False


class Proxy:
    def __init__(self, listen, to):
        self.to = to
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(listen, backlog=128)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(sys.stdin, selectors.EVENT_READ)
        self.flows = []
        self.held = set()
        self.delay_s = 0.0
        self.trickle = 0.0
        self.budget, self.budget_at = 0.0, time.monotonic()

    def run(self):
        while True:
            busy = any(flow.waiting for flow in self.flows)
            for key, _ in self.selector.select(0.005 if busy else 0.2):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is sys.stdin:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self._command(line.split())
                    print("ok", flush=True)
                else:
                    self._read(key.data)
            self._write()

    def _command(self, words):
        name, *rest = words
        if name == "pass":
            self.held, self.delay_s, self.trickle = set(), 0.0, 0.0
        elif name == "hold":
            self.held = {"up", "down"} if rest[0] == "both" else {rest[0]}
        elif name == "delay":
            self.delay_s = float(rest[0]) / 1000
        elif name == "trickle":
            self.trickle, self.budget, self.budget_at = float(rest[0]), 0.0, time.monotonic()
        elif name == "to":
            host, port = rest[0].split(":")
            self.to = (host, int(port))
        elif name in ("half", "reset"):
            for up, down in self._pairs():
                if name == "reset":
                    for end in (up.source, up.target):
                        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self._drop(up, down)
                else:  # keeps reading and discards the bytes
                    self._forget(up.target)
                    up.target.close()
                    up.target = None
                    up.waiting.clear()
                    down.ended = True
                    down.waiting.clear()

    def _pairs(self):
        return [pair for pair in zip(self.flows[::2], self.flows[1::2]) if pair[0].target is not None]

    def _accept(self):
        near, _ = self.listener.accept()
        try:
            far = socket.create_connection(self.to, timeout=1)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        up, down = Flow(near, far), Flow(far, near)
        self.flows += [up, down]
        self.selector.register(near, selectors.EVENT_READ, up)
        self.selector.register(far, selectors.EVENT_READ, down)

    def _forget(self, end):
        try:
            self.selector.unregister(end)
        except (KeyError, ValueError):
            pass

    def _drop(self, *flows):
        for flow in flows:
            for end in (flow.source, flow.target):
                if end is not None:
                    self._forget(end)
                    end.close()
        dropped = set(map(id, flows))
        self.flows = [flow for flow in self.flows if id(flow) not in dropped]

    def _read(self, flow):
        if flow not in self.flows or flow.bytes > BACKLOG_MAX:
            return
        try:
            data = flow.source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            flow.ended = True
            self._forget(flow.source)
        elif flow.target is not None:
            flow.waiting.append((time.monotonic() + self.delay_s, data))
            flow.bytes += len(data)

    def _write(self):
        now = time.monotonic()
        if self.trickle:
            self.budget = min(self.trickle / 10, self.budget + (now - self.budget_at) * self.trickle)
            self.budget_at = now
        for up, down in list(zip(self.flows[::2], self.flows[1::2])):
            try:
                for name, flow in (("up", up), ("down", down)):
                    if name not in self.held and flow.target is not None:
                        self._write_flow(flow, now)
            except BlockingIOError:
                continue
            except OSError:
                self._drop(up, down)
                continue
            ended = [flow for flow in (up, down) if flow.ended and not flow.waiting]
            if len(ended) == 2 or (ended and up.target is not None and not self.held):
                self._drop(up, down)

    def _write_flow(self, flow, now):
        while flow.waiting and flow.waiting[0][0] <= now:
            due, data = flow.waiting.popleft()
            room = len(data)
            if self.trickle:
                room = min(room, int(self.budget))
            sent = 0
            try:
                sent = flow.target.send(data[:room]) if room else 0
            finally:
                if sent < len(data):
                    flow.waiting.appendleft((due, data[sent:]))
                flow.bytes -= sent
                self.budget -= sent if self.trickle else 0
            if sent < len(data):
                return


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


if __name__ == "__main__":
    try:
        Proxy(address(sys.argv[1]), address(sys.argv[2])).run()
    except KeyboardInterrupt:
        pass
