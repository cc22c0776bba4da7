"""Killing extractions at random moments, and processes that write one store at once.

One subprocess imports everything once and forks a child for every extraction, so that a kill
can hit any moment of it: reading, computing, committing, packing.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = """
import json, os, random, signal, sys, time
from pathlib import Path
import repalign.extraction.run as e
import repalign.models.load, transformers.models.gpt_neox.modeling_gpt_neox
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from repalign.store import open_store, verify_store
from repalign.extraction.settings import ExtractSettings

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})

def start(model, data, output, **environment):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.environ.update(environment)
        e.extract(ExtractSettings(model, data, Path(output), shard_samples=32))
        status = 0
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\\n")
    finally:
        os._exit(status)

def n_shards(parts):
    return len(list(parts.glob("part-*.h5"))) if parts.is_dir() else 0

def end(child):
    status = os.waitpid(child, 0)[1]
    signal.sigtimedwait({signal.SIGCHLD}, 0)  # the signal of this end, so that none is left over
    return os.waitstatus_to_exitcode(status)

def fingerprint(output):
    verify_store(output)
    with open_store(output) as store:
        return store.fingerprint
"""

KILLS = """
model, data, folder, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
whole = folder + "/whole.h5"
begun = time.perf_counter()
assert end(start(model, data, whole)) == 0
duration = time.perf_counter() - begun
moments, killed, partial, found = random.Random(0), 0, 0, []
for number in range(count):
    output = f"{folder}/{number}.h5"
    child = start(model, data, output)
    parts = Path(output + ".parts")
    # three of four kills come when some shards are there, however fast the machine is today
    wanted = moments.randrange(1, 5) if number % 4 else 0
    until = time.perf_counter() + (10 * duration if wanted else moments.uniform(0.0, duration))
    while time.perf_counter() < until and not (wanted and n_shards(parts) >= wanted):
        if signal.sigtimedwait({signal.SIGCHLD}, 0.002):
            break  # it has ended
    os.kill(child, signal.SIGKILL)
    killed += end(child) == -signal.SIGKILL
    shards = n_shards(parts)
    partial += shards > 0 and not Path(output).exists()
    assert end(start(model, data, output)) == 0, number
    found.append(fingerprint(output))
print(json.dumps({"same": [f == fingerprint(whole) for f in found], "killed": killed,
                  "partial": partial}))
"""

RANKS = """
model, data, folder, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
whole = folder + "/whole.h5"
assert end(start(model, data, whole)) == 0
found, codes = [], []
for number in range(count):
    output = f"{folder}/{number}.h5"
    children = [start(model, data, output, RANK=str(r), WORLD_SIZE="2") for r in range(2)]
    codes += [end(child) for child in children]
    found.append(fingerprint(output))
print(json.dumps({"same": [f == fingerprint(whole) for f in found], "codes": codes}))
"""


PACKAGE = Path(__file__).parents[2] / "repalign"
MODEL = PACKAGE / "zoo" / "weights" / "gpt-neox-seed0"


def drive(script: str, folder: Path, count: int) -> dict[str, Any]:
    """Run a script over a trained language model and 400 lines of real text."""
    lines = (PACKAGE / "data" / "shakespeare.txt").read_text().splitlines()
    (folder / "texts.txt").write_text("\n".join([line for line in lines if line][:400]))
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER + script, MODEL, folder / "texts.txt", folder, str(count)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.strip().splitlines()[-1])


def check_kills(found: dict[str, Any], count: int) -> None:
    assert found["same"] == [True] * count
    assert found["killed"] > count / 2, "most kills must come before the end"
    assert found["partial"] > 0, "some kills must leave committed shards behind"


def test_killed_extractions_resume_to_the_same_store(tmp_path: Path) -> None:
    check_kills(drive(KILLS, tmp_path, 4), 4)


@pytest.mark.slow
def test_thirty_killed_extractions_resume_to_the_same_store(tmp_path: Path) -> None:
    check_kills(drive(KILLS, tmp_path, 30), 30)


def test_two_processes_at_once_write_the_store_of_one(tmp_path: Path) -> None:
    found = drive(RANKS, tmp_path, 2)
    assert found["codes"] == [0] * 4
    assert found["same"] == [True] * 2
