"""A row about attacks by a client that has a worker's key."""
import re

from .frame import Broken, is_true, row

ROW = "hardening-roles"
TESTS = {
    "a worker's key is good for a worker and nothing else": "not a ps, an input process or a chief; no order obeyed, no file outside, no other run read",
    "a worker's key attacks beside a training job, which ends as if it were alone": "exit 0, account balances, events and logs bounded",
    "links in a run folder lead no process outside": "files outside unchanged, the error names the link",
    "a forged chief makes a ps write nothing outside its run folder": "refused at the Welcome, or at the Save",
}


@row(ROW, "a client with a worker's key, beside a training job, on real processes")
def roles(lab):
    """Runs tests/integration/keys_test.cc, which uses real processes."""
    for test, got in TESTS.items():
        ended = lab.run(ROW, [lab.program("keys_test"), test.replace(",", "\\,")], 300, cwd=lab.bin.parent)
        passed = re.search(r"All tests passed \((\d+) assertions?", ended.out)
        if ended.code != 0 and not re.search(r"assertions?:", ended.out):
            raise Broken(f"keys_test ended with {ended.code}: {ended.out.strip()[-300:]}")
        yield is_true(test, ended.code == 0 and passed is not None, "holds", got if passed else "FAILED",
                      f"{passed[1]} assertions" if passed else ended.out.strip()[-300:])
