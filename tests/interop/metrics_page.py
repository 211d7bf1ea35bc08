"""Checks the page /metrics of `downpour serve` with promtool.

metrics_page.py BIN PROMTOOL FOLDER, where BIN has Downpour's programs. Exits with 1 if promtool finds a fault.
"""
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

BIN, PROMTOOL, FOLDER = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])


def get(address, body=None):
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()


def main():
    (FOLDER / "rows.csv").write_text("label,x\n" + "".join(f"{i % 2},{i % 7}\n" for i in range(200)))
    run = FOLDER / 'odd "name'
    subprocess.run([BIN / "downpour", "train", FOLDER / "rows.csv", "--quiet", "--epochs", "1", "--set", f"run_dir={json.dumps(str(run))}"],
                   check=True, capture_output=True)
    serve = subprocess.Popen([BIN / "downpour", "serve", run, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        address = re.search(r"http://\S+", serve.stdout.readline()).group()
        pages = [get(address + "/metrics")]
        for body in (b'{"rows": [{"x": 1}]}', b'{"rows": [{}]}', b"{"):
            get(address + "/v1/predict", body)
        pages.append(get(address + "/metrics"))
    finally:
        serve.terminate()
        serve.wait(20)
    status = 0
    for page in pages:
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, check=False)
        if checked.returncode != 0 or "downpour_serve_" not in page:
            print(f"FAILED: {checked.stdout}{checked.stderr}\n{page}")
            status = 1
    print(f"promtool checked {sum(not line.startswith('#') for line in pages[-1].splitlines())} values")
    return status


sys.exit(main())
