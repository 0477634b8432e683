"""A run that is killed at random moments, over and over, in processes of its own: what it leaves, and how it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["resumed_after_kills"]

_SCRIPT = """
import os, random, shutil, signal, sys
from pathlib import Path
sys.path.insert(0, TESTS)
from MODULE import STUDY as made
place = Path(FOLDER)

def child(kill_at):
    # In a process of its own: run, and be killed as call number `kill_at` of any function written in Python begins.
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        calls = 0
        def count(*_):
            nonlocal calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        one = made()
        sys.settrace(count)  # returns None, so that it hears of calls and not of lines
        record = one.run(place / "record")
        sys.settrace(None)
        os.write(writing, f"{calls} {record.measurements_hash}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split()
    ended = os.waitpid(process, 0)[1]
    assert ended == 0 or os.WTERMSIG(ended) == signal.SIGKILL, ended
    return said

calls, expected = child(None)
shutil.rmtree(place / "record")
moments, kills, resumed = random.Random(0), 0, 0
while kills < KILLS:
    resumed += (place / "record.partial").exists()
    said = child(moments.randrange(1, int(calls)))
    kills += not said
    if said or (place / "record").exists():  # killed between its last step and its last word
        assert not said or said[1] == expected
        shutil.rmtree(place / "record")
        shutil.rmtree(place / "record.partial", ignore_errors=True)
assert child(None)[1] == expected
assert os.listdir(place) == ["record"], os.listdir(place)
print(resumed)
"""


def resumed_after_kills(module: str, study: str, folder: Path, *, kills: int) -> int:
    """How many of the runs went on from what a killed one had left; that all end with the same bits is asserted.

    Args:
        module: the test module that makes the study.
        study: its function without arguments that returns one; it must have `run(folder)`.
        folder: an empty one.
        kills: how often the run is killed, at seeded moments.
    """
    words = {"TESTS": repr(str(Path(__file__).parent)), "FOLDER": repr(str(folder)), "MODULE": module, "STUDY": study}
    code = _SCRIPT
    for name, value in {**words, "KILLS": str(kills)}.items():
        code = code.replace(name, value)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return int(ended.stdout)
