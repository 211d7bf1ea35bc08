"""Client: a NumPy model on the ps of a job, compared with the built-in one; killed processes; misuse."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time

import downpour as dp
import numpy as np
import pytest
from downpour._programs import program

RECORDS = 3000
CUSTOM = """
[model]
variables = [
  { name = "w", shape = [2] },
  { name = "bias", shape = [1] },
  { name = "user", fields = ["user"], dim = 1, init = { type = "zero" } },
]
outputs = [{ name = "p", loss = "logistic", target = "label", weights = "weight" }]
"""
LAYERS = """
[model]
layers = [{ name = "linear", type = "linear", inputs = ["user", "a", "b"], init = { type = "zero" } }]
outputs = [{ name = "p", input = "linear", loss = "logistic", target = "label", weights = "weight" }]
"""


def write_job(folder: pathlib.Path, model: str = CUSTOM, name: str = "job", more: str = "", epochs: int = 3,
              holdout: float = 0.1) -> pathlib.Path:
    if not (folder / "data.csv").exists():
        rng = np.random.default_rng(5)
        x = rng.normal(size=(RECORDS, 2))
        users = rng.integers(0, 40, RECORDS)
        labels = (x @ [1.5, -2.0] + users / 40 > 0.5).astype(int)
        weights = rng.integers(0, 3, RECORDS)
        with open(folder / "data.csv", "w") as file:
            file.write("a,b,user,label,weight\n")
            for i in range(RECORDS):
                file.write(f"{x[i, 0]:.6f},{x[i, 1]:.6f},u{users[i]},{labels[i]},{weights[i]}\n")
    path = folder / f"{name}.toml"
    path.write_text(f"""
[data]
source = "data.csv"
header = true
shard_records = 500
parallelism = 1
fields = {{ a = {{}}, b = {{}}, user = {{ type = "string" }}, label = {{}}, weight = {{}} }}
{model}
[optimizer]
type = "adagrad"
learning_rate = 0.1
[train]
epochs = {epochs}
batch_size = 64
in_flight = 1
{more}
[eval]
holdout = {holdout}
""")
    return path


def step(ps: dp.Client, batch: dp.Batch) -> None:
    """Logistic regression, weighted by the records."""
    params = ps.pull(batch)
    x = np.stack([batch["a"], batch["b"]], axis=1)
    bag = batch.bag("user")
    logits = x @ params["w"] + params["bias"] + params["user"][bag.rows, 0]
    if not batch.training:
        return ps.push(batch, predictions=logits)
    error = batch["weight"] * (1 / (1 + np.exp(-logits)) - batch["label"]) / max(batch["weight"].sum(), 1e-9)
    user = np.zeros_like(params["user"])
    np.add.at(user[:, 0], bag.rows, error)
    ps.push(batch, {"w": x.T @ error, "bias": [error.sum()], "user": user}, predictions=logits)


def train(ps: dp.Client, pause: float = 0.0) -> int:
    records = 0
    with ps:
        for batch in ps.batches():
            step(ps, batch)
            records += batch.records if batch.training else 0
            time.sleep(pause)
    return records


def check_accounts(summary: dict, epochs: int) -> None:
    assert len(summary["accounts"]) == epochs
    for account in summary["accounts"]:
        parts = ("applied", "filtered", "skipped", "dropped", "quarantined")
        assert account["read"] == RECORDS == sum(account[part] for part in parts), account
        assert account["shards_left"] == 0


def child(chief: str, body: str, keys: str = "") -> subprocess.Popen:
    """A client in a process of its own. `body` runs for each batch."""
    here = pathlib.Path(__file__)
    text = (f"import os, signal, sys, time\nsys.path.insert(0, {str(here.parent)!r})\n"
            f"import downpour as dp\nfrom {here.stem} import step\n"
            f"with dp.Client({chief!r}, keys={keys or None!r}) as ps:\n    print('ready', flush=True)\n"
            f"    for n, batch in enumerate(ps.batches()):\n        {body}\n")
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


def exported(run: pathlib.Path) -> dict[str, np.ndarray]:
    out = run / "model.npz"
    subprocess.run([program("downpour"), "export", str(run), "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    return dict(np.load(out))


@pytest.mark.parametrize("more", ["", 'mode = "sync"\nreplicas = 2', "[optimizer.clip]\nglobal_norm = 0.01"])
def test_is_the_builtin_logistic_regression(tmp_path, more):
    own = write_job(tmp_path, CUSTOM, "own", more)
    built_in = write_job(tmp_path, LAYERS, "built-in", more)
    wanted = dp.train(built_in).summary
    client = dp.Client.local(own)
    trained = train(client)
    check_accounts(client.summary, 3)
    assert trained == sum(account["applied"] for account in client.summary["accounts"])
    for mine, theirs in zip(client.summary["evaluations"], wanted["evaluations"], strict=True):
        for metric, value in theirs["outputs"]["p"].items():
            assert mine["outputs"]["p"][metric] == pytest.approx(value, abs=1e-5)
    mine, theirs = exported(tmp_path / "runs/own"), exported(tmp_path / "runs/built-in")
    np.testing.assert_allclose(mine["w"].ravel(), theirs["linear/kernel"].ravel(), atol=1e-5)
    np.testing.assert_allclose(mine["bias"].ravel(), theirs["linear/bias"].ravel(), atol=1e-5)
    np.testing.assert_array_equal(mine["user/keys"], theirs["linear/weights/keys"])
    np.testing.assert_allclose(mine["user"], theirs["linear/weights"], atol=1e-5)


def test_killed_client(tmp_path):
    with dp.Client.local(write_job(tmp_path), ps=2) as ps:
        killed = child(ps.chief, "time.sleep(0.01); step(ps, batch) if n < 5 else os.kill(os.getpid(), signal.SIGKILL)")
        with killed:
            killed.stdout.readline()
            train(ps, pause=0.02)
        assert killed.returncode == -signal.SIGKILL
    check_accounts(ps.summary, 3)


def test_killed_ps(tmp_path):
    job = write_job(tmp_path, epochs=2)
    ps = dp.Client.local(job, ps=2)
    killed = []
    with ps:
        for n, batch in enumerate(ps.batches()):
            if n == 20:
                children = pathlib.Path(f"/proc/{ps._local._process.pid}/task/{ps._local._process.pid}/children")
                killed = children.read_text().split()[:1]
                os.kill(int(killed[0]), signal.SIGKILL)
            step(ps, batch)
    assert killed
    assert ps.summary["restarts"] == 1
    check_accounts(ps.summary, 2)


def test_left_client_returns_its_batch(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1)) as ps:
        other = dp.Client(ps.chief)
        batch = next(other.batches())
        values = other.pull(batch)["w"]
        other.close()
        assert values.shape == (2,)  # arrays stay readable
        assert batch.records == len(batch["a"])
        with pytest.raises(RuntimeError, match="closed"):
            other.push(batch, {})
        train(ps)
    check_accounts(ps.summary, 1)


def test_interrupted_job_continues(tmp_path):
    job = write_job(tmp_path, epochs=2)
    with dp.Client.local(job) as ps:
        for n, batch in enumerate(ps.batches()):
            if n == 30:
                break
            step(ps, batch)
    again = dp.Client.local(job)
    train(again)
    check_accounts(again.summary, 2)
    with dp.Client.local(job) as finished:
        assert list(finished.batches()) == []


def test_python_ends_without_close(tmp_path):
    job = write_job(tmp_path, epochs=1)
    text = (f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\nimport downpour as dp\n"
            f"from {pathlib.Path(__file__).stem} import step\nps = dp.Client.local({str(job)!r})\n"
            "for n, batch in enumerate(ps.batches()):\n    if n == 5:\n        break\n    step(ps, batch)\n"
            "print(ps._local._process.pid)\n")
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True, timeout=60)
    for _ in range(100):  # the job saves a checkpoint
        if not pathlib.Path(f"/proc/{done.stdout.strip()}").exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("downpour train still runs without a client")
    again = dp.Client.local(job)
    train(again)
    check_accounts(again.summary, 1)


def test_softmax_and_several_outputs(tmp_path):
    """Two outputs: three classes by a, and a number; an input process reads."""
    model = """
[model]
variables = [{ name = "k", shape = [2, 3] }, { name = "v", shape = [2] }]
outputs = [
  { name = "kind", loss = "softmax_cross_entropy", target = "class", width = 3 },
  { name = "value", loss = "squared", target = "b" } ]
"""
    path = write_job(tmp_path, model, epochs=5)
    text = (tmp_path / "data.csv").read_text().splitlines()
    rows = [line.split(",") for line in text[1:]]
    (tmp_path / "data.csv").write_text("\n".join(
        [text[0] + ",class", *(",".join([*row, str((float(row[0]) > 0) + (float(row[0]) > 1))]) for row in rows)]) + "\n")
    path.write_text(path.read_text().replace("weight = {}", "weight = {}, class = {}"))
    with dp.Client.local(path, settings={"cluster.input_workers": 1}) as ps:
        for batch in ps.batches():
            assert batch.fields() == ["a", "label", "weight", "class", "b"]
            params = ps.pull(batch)
            x = np.stack([batch["a"], np.ones(batch.records)], axis=1)
            logits, value = x @ params["k"], x @ params["v"]
            predictions = {"kind": logits, "value": value}
            if not batch.training:
                ps.push(batch, predictions=predictions)
                continue
            q = np.exp(logits - logits.max(axis=1, keepdims=True))
            q /= q.sum(axis=1, keepdims=True)
            q[np.arange(batch.records), batch["class"].astype(int)] -= 1
            ps.push(batch, {"k": x.T @ q / batch.records, "v": 2 * x.T @ (value - batch["b"]) / batch.records},
                    predictions=predictions)
    check_accounts(ps.summary, 5)
    first, last = (ps.summary["evaluations"][e]["outputs"] for e in (0, -1))
    assert last["kind"]["accuracy"] > max(0.7, first["kind"]["accuracy"])
    assert last["value"]["rmse"] == pytest.approx(1, abs=0.1)  # b does not depend on a


def test_batches_that_are_not_finite_may_be_left_out(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1), settings={"train.on_nan": "skip"}) as ps:
        left_out = None
        for batch in ps.batches():
            if batch.id == (0, 1, 2):
                left_out = batch.records
                ps.push(batch, {"w": [np.nan, 0]})
            else:
                step(ps, batch)
    check_accounts(ps.summary, 1)
    assert ps.summary["accounts"][0]["quarantined"] == left_out


def test_a_batch_belongs_to_its_client(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1)) as ps, dp.Client(ps.chief) as other:
        for batch in ps.batches():
            with pytest.raises(dp.DownpourError, match="belongs to another client"):
                other.push(batch, {})
            with pytest.raises(ValueError, match="read-only"):
                batch["label"][0] = 1
            step(ps, batch)
            break


def test_a_loss_that_is_not_finite_is_an_error(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1)) as ps:
        batch = next(iter(ps.batches()))
        with pytest.raises(dp.DownpourError, match="loss .* is not finite"):
            ps.push(batch, {"w": None}, predictions=np.zeros(batch.records, np.float32), loss=float("nan"))
        step(ps, batch)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_killed_chief(tmp_path):
    """A cluster that is started by hand, with keys."""
    job, address = write_job(tmp_path, epochs=2), f"127.0.0.1:{free_port()}"
    keys = tmp_path / "runs/job/keys"
    logs = [open(tmp_path / name, "w+") for name in ("first", "second", "ps")]
    command = [program("downpour-chief"), str(job), "--bind", address, "--json"]
    chief = subprocess.Popen(command, stdout=logs[0], stderr=subprocess.STDOUT)
    ps_process = subprocess.Popen([program("downpour-ps"), "--chief", address, "--keys", str(keys)], stdout=logs[2],
                                  stderr=subprocess.STDOUT)
    again = None
    try:
        with dp.Client(address, keys=keys) as ps:
            for n, batch in enumerate(ps.batches()):
                if n == 20:
                    chief.kill()
                    chief.wait()
                    again = subprocess.Popen(command, stdout=logs[1], stderr=subprocess.STDOUT)
                step(ps, batch)
        assert again.wait(timeout=60) == 0
        logs[1].seek(0)
        check_accounts(json.loads(logs[1].read().splitlines()[-1]), 2)
    finally:
        for process in (chief, ps_process, again):
            if process is not None and process.poll() is None:
                process.kill()
            if process is not None:
                process.wait()
        for log in logs:
            log.close()


def test_threads_share_a_client(tmp_path):
    ps = dp.Client.local(write_job(tmp_path, more="", epochs=1), settings={"train.in_flight": 4})
    with ps:
        threads = [threading.Thread(target=lambda: [step(ps, batch) for batch in ps.batches()]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_accounts(ps.summary, 1)


def test_ctrl_c(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1)) as ps:
        waiting = child(ps.chief, "step(ps, batch); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)")
        with waiting:
            waiting.stdout.readline()
            assert waiting.wait(timeout=20) != 0
        train(ps)
    check_accounts(ps.summary, 1)


def test_errors(tmp_path):
    with dp.Client.local(write_job(tmp_path, epochs=1)) as ps:
        batches = ps.batches()
        batch = next(batches)
        for grads, message in [
            ({"w": np.zeros(3)}, r"`w` has the shape \(3,\), but its values have \(2,\)"),
            ({"v": np.zeros(2)}, "no variable `v`; there are"),
            ({"w": [np.nan, 0]}, "the gradient of variable w is not finite"),
        ]:
            with pytest.raises(ValueError, match=message):
                ps.push(batch, grads)
        with pytest.raises(ValueError, match=r"predictions of `p` have the shape \(2,\)"):
            ps.push(batch, {}, predictions=[0, 0])
        with pytest.raises(ValueError, match="a loss needs the predictions"):
            ps.push(batch, {}, loss=1.0)
        with pytest.raises(ValueError, match="no field of numbers `user`"):
            batch["user"]
        with pytest.raises(ValueError, match="is dense"):
            batch.bag("w")
        with pytest.raises(RuntimeError, match="was not pushed"):
            next(batches)
        step(ps, batch)
        with pytest.raises(ValueError, match="pushed already"):
            ps.push(batch, {})
        worker = subprocess.run([program("downpour-worker"), "--chief", ps.chief], capture_output=True, text=True)
        assert worker.returncode == 78 and "model.variables" in worker.stderr
        for batch in ps.batches():
            if not batch.training:
                with pytest.raises(ValueError, match="has no predictions"):
                    ps.push(batch, {})
            step(ps, batch)
    check_accounts(ps.summary, 1)
    run, data = str(tmp_path / "runs/job"), str(tmp_path / "data.csv")
    for verb in (["predict", run, "--data", data], ["eval", run], ["importance", run, "--data", data],
                 ["export", run, "--out", str(tmp_path / "model.onnx")], ["serve", run]):
        refused = subprocess.run([program("downpour"), *verb], capture_output=True, text=True, timeout=60)
        assert refused.returncode == 69 and "no layers to compute" in refused.stderr, (verb, refused.stderr)
    for verb in (["inspect", run], ["inspect", run, "--top", "3"], ["runs", str(tmp_path / "runs")],
                 ["train", str(tmp_path / "job.toml"), "--dry-run"]):
        subprocess.run([program("downpour"), *verb], check=True, capture_output=True, timeout=60)


def test_errors_of_the_job(tmp_path):
    for model, message in [
        (CUSTOM.replace('fields = ["user"]', 'fields = ["usr"]'), "did you mean `user`"),
        (CUSTOM.replace('fields = ["user"]', 'fields = ["a"]'), "`a` gives numbers"),
        (CUSTOM.replace("shape = [2]", "dim = 2"), "needs either fields or a shape"),
        (CUSTOM.replace('"bias"', '"w"'), "two variables are named `w`"),
        (CUSTOM.replace('name = "p"', 'name = "p", input = "w"'), "has an input"),
        (CUSTOM.replace("[model]", '[model]\npreset = "wide_deep"'), "can't be combined"),
        (LAYERS, "a model of layers"),
    ]:
        with pytest.raises(dp.DownpourError, match=message):
            dp.Client.local(write_job(tmp_path, model), settings={"cluster.workers": 2})
    with pytest.raises(dp.DownpourError, match="does not answer"):
        dp.Client(f"127.0.0.1:{free_port()}", insecure=True, connect_timeout=1)


EXAMPLES = pathlib.Path(__file__).parents[2] / "docs/examples/own-model"
DATA = pathlib.Path(os.environ.get("DOWNPOUR_DATA", EXAMPLES.parents[4] / "shared/data"))


def test_example_focal_loss(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import focal_loss

    logits, labels, step_width = np.linspace(-4, 4, 21), np.arange(21) % 2, 1e-5
    _, slope = focal_loss.focal_loss(logits, labels)
    above, below = (focal_loss.focal_loss(logits + d, labels)[0] for d in (step_width, -step_width))
    np.testing.assert_allclose(slope, (above - below) / (2 * step_width), atol=1e-8)
    if not (DATA / "frappe").exists():
        pytest.skip(f"{DATA}/frappe is missing")
    monkeypatch.setenv("DOWNPOUR__RUN_DIR", str(tmp_path / "run"))
    summary = focal_loss.main().summary
    assert summary["evaluations"][-1]["outputs"]["used"]["auc"] > 0.88
    assert summary["accounts"][-1]["loss"] < 0.2  # the focal loss, which is below the logistic one


@pytest.mark.skipif("DOWNPOUR_TORCH" not in os.environ, reason="DOWNPOUR_TORCH names no Python with PyTorch")
def test_example_torch_network(tmp_path):
    if not (DATA / "frappe").exists():
        pytest.skip(f"{DATA}/frappe is missing")
    done = subprocess.run([os.environ["DOWNPOUR_TORCH"], str(EXAMPLES / "torch_network.py")], check=True, text=True,
                          capture_output=True, env={**os.environ, "DOWNPOUR__RUN_DIR": str(tmp_path / "run")})
    assert float(done.stdout.split()[-1]) > 0.92
