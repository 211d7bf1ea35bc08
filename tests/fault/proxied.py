"""Runs proxy.py as a child process."""
import subprocess
import sys
import time
from pathlib import Path

from cluster import _die_with_parent, check


class Proxy:
    """Listens on the port `near` of `near_host` and forwards to the port `far` of 127.0.0.1."""

    def __init__(self, near, far, folder, near_host="127.0.0.1"):
        self._command = [sys.executable, str(Path(__file__).with_name("proxy.py")), f"{near_host}:{near}", f"127.0.0.1:{far}"]
        self._log = open(folder / f"proxy-{near}.log", "wb")
        self._process = None

    def __enter__(self):
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
                                         preexec_fn=_die_with_parent)
        self.tell("pass")
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()

    def tell(self, command):
        """Sends a command of proxy.py and waits for its answer."""
        begun = time.monotonic()
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError:
            answer = ""
        check(answer == "ok\n", f"the proxy did not take `{command}` ({time.monotonic() - begun:.1f} s)")
