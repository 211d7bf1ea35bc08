"""Trains from s3:// and from the same bytes as files, and compares both.

The store is moto's S3, which boto3 fills. It checks the signatures of requests with botocore.

objects.py BIN FOLDER. Prints a line for each failed check, then JSON. Exits with 1 if a check has
failed.
"""
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import boto3
import botocore.config
import botocore.exceptions

BIN, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
BUCKET = "test.bucket-1"
ROWS = 6000
# The only feature of a row is its id. Its target is so large that the weight grows by exactly 1
# each time the row is applied: the gradient is -2^31, and the learning rate is 2^-31.
COUNTER = """\
partitions = 16
data = { source = SOURCE, format = "libsvm", shard_records = 200 }
model.layers = [{ name = "w", type = "linear", inputs = ["features"], bias = false }]
model.outputs = [{ name = "y", input = "w", loss = "squared", target = "label" }]
optimizer = { type = "sgd", learning_rate = 4.656612873077392578125e-10 }
train = { epochs = 2, batch_size = 16, reduction = "sum" }
"""
NAMES = ["part 1+a.svm", "part-é&<2>.svm.gz", "part-3%20=.svm.zst", "part-4.svm", "part;5'\"~$,.svm"]
checks = {"passed": 0, "failed": []}


def check(what, good, detail=""):
    if good:
        checks["passed"] += 1
    else:
        checks["failed"].append(what)
        print(f"FAILED {what}: {detail}", flush=True)


def environment(**variables):
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "DOWNPOUR_"))}
    return plain | {"no_proxy": "127.0.0.1"} | variables


class Store:
    """The moto server in a child process."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(FOLDER / "store.log", "w")
        self.process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=self.log, stderr=self.log,
                                        env=environment(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x"))
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/moto-api/", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the store does not start: " + (FOLDER / "store.log").read_text())

    def client(self, service, key="x", secret="x"):
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=key, aws_secret_access_key=secret,
                            config=botocore.config.Config(s3={"addressing_style": "path"}))

    def check_keys(self):
        """From now on the store requires that requests are signed by a user with permission."""
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", data=b"0", method="POST", headers={"Content-Type": "text/plain"})
        urllib.request.urlopen(request, timeout=10).close()

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def downpour(*arguments, env, status=0, timeout=240):
    ended = subprocess.run([BIN / "downpour", *map(str, arguments)], cwd=FOLDER, env=env, capture_output=True, text=True, timeout=timeout)
    check(f"status {status} of downpour {' '.join(map(str, arguments))[:80]}", ended.returncode == status, f"{ended.returncode}: {ended.stdout[-300:]}{ended.stderr[-1500:]}")
    return ended


def shows(what, text, ended):
    check(what, text in ended.stderr + ended.stdout, ended.stderr)


def counter_rows(begin, end):
    return "".join(f"1073741824 {1_000_000 + i}:1\n" for i in range(begin, end)).encode()


def compressed(name, data):
    if name.endswith(".gz"):
        return gzip.compress(data)
    if name.endswith(".zst"):
        return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def train(job, run, env, *flags):
    ended = downpour("train", job, "--fresh", "--quiet", "--log-format", "json", "--set", f"run_dir={FOLDER / run}", *flags, env=env)
    return json.loads(ended.stdout) if ended.stdout.strip().startswith("{") else {}


def same_training(s3, env):
    """Checks that every record counts once per epoch, and that both models are equal.

    Returns the glob of the objects.
    """
    names = NAMES if shutil.which("zstd") else [name for name in NAMES if not name.endswith(".zst")]
    (FOLDER / "rows").mkdir()
    for i, name in enumerate(names):
        data = compressed(name, counter_rows(ROWS * i // len(names), ROWS * (i + 1) // len(names)))
        (FOLDER / "rows" / name).write_bytes(data)
        s3.put_object(Bucket=BUCKET, Key=f"a b/rows é/{name}", Body=data)
    sources = {"files": f"rows/part*", "objects": f"s3://{BUCKET}/a b/rows é/part*"}
    found, weights = {}, {}
    for run, source in sources.items():
        (FOLDER / f"{run}.toml").write_text(COUNTER.replace("SOURCE", json.dumps(source)))
        found[run] = train(f"{run}.toml", run, env, "--ps", 2, "--workers", 2)
        weights[run] = downpour("predict", FOLDER / run, "--data", *sorted((FOLDER / "rows").iterdir()), env=env).stdout.split()
    accounts = {run: [{k: v for k, v in account.items() if k != "seconds"} for account in done.get("accounts", [])] for run, done in found.items()}
    check("accounts are the same", len(accounts["objects"]) == 2 and accounts["files"] == accounts["objects"], accounts)
    check("models are the same", weights["files"] == weights["objects"])
    check("each record counted once an epoch", len(weights["objects"]) == ROWS and {float(w) for w in weights["objects"]} == {2.0})
    read_there = downpour("predict", FOLDER / "files", "--data", sources["objects"], env=env).stdout.split()
    check("objects are predicted as files are", read_there == weights["files"])
    mixed = COUNTER.replace("SOURCE", f'["rows/part 1+a.svm", {{ path = "s3://{BUCKET}/a b/rows é/part-4.svm" }}]')
    (FOLDER / "mixed.toml").write_text(mixed)
    account = (train("mixed.toml", "mixed", env).get("accounts") or [{}])[0]
    check("files and objects in one source", account.get("applied") == 2 * (ROWS // len(names)), account)
    return sources["objects"]


def clicks(s3, env):
    """Trains on a table without a job file.

    With one worker and one order of reading, the models are equal bit by bit.
    """
    (FOLDER / "there").mkdir()
    downpour("synth", FOLDER / "there/clicks.tsv", "--rows", 20000, env=env)
    s3.upload_file(str(FOLDER / "there/clicks.tsv"), BUCKET, "clicks.tsv")
    one = ["--ps", 1, "--workers", 1, "--epochs", 1, "--set", "train.in_flight=1", "--set", "data.parallelism=1", "--set", "data.prefetch=1", "--set", "eval.holdout=0", "--set", "data.interleave.cycle=1"]
    models = []
    for run, path in {"local": FOLDER / "there/clicks.tsv", "remote": f"s3://{BUCKET}/clicks.tsv"}.items():
        done = train(path, f"clicks-{run}", env, *one)
        check(f"{run} clicks are all applied", (done.get("accounts") or [{}])[0].get("applied") == 20000, done.get("accounts"))
        models.append(downpour("predict", FOLDER / f"clicks-{run}", "--data", FOLDER / "there/clicks.tsv", env=env).stdout)
    check("models of clicks are the same to the last bit printed", models[0] == models[1] and models[0].count("\n") >= 20000)


def verbs(s3, env, glob):
    path = f"s3://{BUCKET}/clicks.tsv"
    heads = [downpour("data", "head", which, "-n", 5, "--quiet", env=env).stdout.replace(str(which), "") for which in (path, FOLDER / "there/clicks.tsv")]
    check("head of an object", heads[0] == heads[1] != "", f"{heads[0][:300]}, not {heads[1][:300]}")
    check("records counted", json.loads(downpour("data", "count", path, "--json", env=env).stdout)["records"] == 20000)
    check("records of a glob counted", json.loads(downpour("data", "count", glob, "--json", env=env).stdout)["records"] == ROWS)
    downpour("data", "validate", path, "--quiet", env=env)
    downpour("data", "plan", path, "--workers", 3, "--quiet", env=env)
    downpour("data", "stats", path, "--quiet", env=env)
    downpour("train", path, "--dry-run", env=env)
    downpour("shard", path, "-o", FOLDER / "sharded", "-n", 4, "--to", "tfrecord", env=env)
    for shard in sorted((FOLDER / "sharded").iterdir()) if (FOLDER / "sharded").is_dir() else sorted(FOLDER.glob("sharded*")):
        s3.upload_file(str(shard), BUCKET, f"tf/{shard.name}")
    counted = json.loads(downpour("data", "count", f"s3://{BUCKET}/tf/*.tfrecord", "--json", env=env).stdout)
    check("TFRecords of a store counted", counted["records"] == 20000, counted)


def pages(s3, env):
    """Counts more objects than one page of a listing holds. Each has one row."""
    count = 1205
    for i in range(count):
        s3.put_object(Bucket=BUCKET, Key=f"many/{i:04}.svm", Body=counter_rows(i, i + 1))
    counted = json.loads(downpour("data", "count", f"s3://{BUCKET}/many/*.svm", "--json", env=env).stdout)
    check("keys of all pages, in order", counted["records"] == count and [Path(f["path"]).name for f in counted["files"]] == [f"{i:04}.svm" for i in range(count)])


def refusals(store, env):
    one = downpour("data", "head", f"s3://{BUCKET}/clicks.tvs", env=env, status=66)
    shows("an absent object has a hint", f"did you mean s3://{BUCKET}/clicks.tsv?", one)
    shows("a glob without a match has one", "clicks.tsv?", downpour("data", "head", f"s3://{BUCKET}/click*.csv", env=env, status=66))
    shows("an absent bucket is one", "no such bucket", downpour("data", "head", "s3://nowhere/x.tsv", env=env, status=66))
    downpour("data", "head", "s3://nowhere/*.tsv", env=env, status=66)
    wrong = env | {"AWS_SECRET_ACCESS_KEY": "topsecret-wrong"}
    for path in (f"s3://{BUCKET}/clicks.tsv", f"s3://{BUCKET}/*.tsv"):
        refused = downpour("data", "head", path, env=wrong, status=77)
        check("wrong keys are no part of the error", "topsecret" not in refused.stderr and env["AWS_ACCESS_KEY_ID"] not in refused.stderr, refused.stderr)
        check("wrong keys are one error", refused.stderr.count("error:") == 1, refused.stderr)
    unsigned = {name: value for name, value in env.items() if not name.startswith("AWS_") or name == "AWS_ENDPOINT_URL"}
    shows("without keys they are asked for", "set AWS_ACCESS_KEY_ID", downpour("data", "head", f"s3://{BUCKET}/clicks.tsv", env=unsigned, status=77))
    downpour("train", "objects.toml", "--set", "run_dir=denied", env=wrong, status=77)
    nobody = env | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    shows("a store that is not there", "AWS_ENDPOINT_URL", downpour("data", "head", f"s3://{BUCKET}/clicks.tsv", env=nobody, status=74))


def changed(s3, env):
    """Replaces an object with other rows of the same total size while a job reads it."""
    key, size = "moving.svm", 40000
    s3.put_object(Bucket=BUCKET, Key=key, Body=counter_rows(0, size))
    (FOLDER / "moving.toml").write_text(COUNTER.replace("SOURCE", json.dumps(f"s3://{BUCKET}/{key}")))
    run = FOLDER / "moving"
    with open(FOLDER / "moving.err", "w") as err:
        process = subprocess.Popen([BIN / "downpour", "train", "moving.toml", "--fresh", "--set", f"run_dir={run}", "--epochs", "1000", "--workers", "2"],
                                   cwd=FOLDER, env=env, stdout=err, stderr=err)
    for _ in range(300):
        if (run / "checkpoints").is_dir() and any((run / "checkpoints").iterdir()):
            break
        time.sleep(0.1)
    s3.put_object(Bucket=BUCKET, Key=key, Body=counter_rows(1, size + 1))
    try:
        status = process.wait(120)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        status = process.wait()
    said = (FOLDER / "moving.err").read_text()
    check("an object that changes ends the job", status == 65 and "changed after the job started" in said, f"{status}: {said[-800:]}")


def secrets_stay(*texts):
    """Checks that no file in the folder contains one of the texts, except the log of the store."""
    for path in FOLDER.rglob("*"):
        if not path.is_file() or path.name == "store.log":
            continue
        data = path.read_bytes()
        for text in texts:
            check(f"no keys in {path.name}", text.encode() not in data, str(path))


def main():
    store = Store()
    try:
        admin = store.client("s3")
        admin.create_bucket(Bucket=BUCKET)
        users = store.client("iam")
        users.create_user(UserName="reader")
        everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
        users.put_user_policy(UserName="reader", PolicyName="all", PolicyDocument=json.dumps(everything))
        key = users.create_access_key(UserName="reader")["AccessKey"]
        store.check_keys()
        s3 = store.client("s3", key["AccessKeyId"], key["SecretAccessKey"])
        try:
            store.client("s3", key["AccessKeyId"], "wrong").list_objects_v2(Bucket=BUCKET)
            check("the store checks signatures", False, "it takes a wrong one")
        except botocore.exceptions.ClientError as error:
            check("the store checks signatures", error.response["Error"]["Code"] == "SignatureDoesNotMatch", error)
        env = environment(AWS_ENDPOINT_URL=store.url, AWS_ACCESS_KEY_ID=key["AccessKeyId"], AWS_SECRET_ACCESS_KEY=key["SecretAccessKey"], AWS_REGION="us-east-1")
        glob = same_training(s3, env)
        clicks(s3, env)
        verbs(s3, env, glob)
        pages(s3, env)
        refusals(store, env)
        changed(s3, env)
        secrets_stay(key["AccessKeyId"], key["SecretAccessKey"])
    finally:
        store.stop()
    print(json.dumps(checks))
    return 1 if checks["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
