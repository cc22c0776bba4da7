"""Extraction by processes of Ray: the store of one, whatever is lost on the way."""

import importlib.util
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from repalign.core.device import threads_held
from repalign.engine.ray import RayEngine
from repalign.engine.shards import extract_on_ray
from repalign.exceptions import InputError, RepalignError
from repalign.extraction.run import Extraction, extract
from repalign.extraction.settings import ExtractProgress, ExtractSettings
from repalign.store.directory import parts_directory

if importlib.util.find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)


@pytest.fixture
def settings(tiny: ModuleType, tmp_path: Path) -> ExtractSettings:
    tiny.save_transformers(tmp_path / "bert", "bert")
    data = tmp_path / "texts.txt"
    data.write_text("\n".join(text for text in tiny.TEXTS for _ in range(8)))
    return ExtractSettings(
        str(tmp_path / "bert"), str(data), tmp_path / "a.h5", shard_samples=16, device="cpu"
    )


def test_extractions_share_the_shards_of_one_store(
    settings: ExtractSettings, tmp_path: Path
) -> None:
    alone = extract(settings)
    shared = replace(settings, output=tmp_path / "shared.h5")
    first, second = Extraction(shared, 2), Extraction(shared, 2)
    assert first.missing == second.missing == [0, 1, 2, 3, 4, 5]
    assert [first.shard(number).stop for number in first.missing] == [16, 32, 48, 64, 80, 96]
    counts = first.make([0, 2, 4]) + second.make([1])
    assert first.make([]).samples == 0
    counts += second.make([3, 5])
    second.writer.close()
    result = first.finish(counts)
    assert (result.fingerprint, result.rows_new) == (alone.fingerprint, 96)
    again = Extraction(shared, 2)
    assert again.missing == []
    assert again.finish(counts).fingerprint == alone.fingerprint


class Killing:
    """Ends a process after so many calls."""

    def __init__(self, after: int) -> None:
        self.left, self.told = after, list[ExtractProgress]()

    def __call__(self, progress: ExtractProgress) -> None:
        self.told.append(progress)
        self.left -= 1
        if self.left == 0:
            host, _, number = progress.workers[0][0].partition("/")
            assert host == socket.gethostname()
            os.kill(int(number), signal.SIGKILL)


@pytest.mark.slow
def test_a_lost_process_costs_only_its_shard(settings: ExtractSettings, tmp_path: Path) -> None:
    # a process of one processor computes with one thread, and another number rounds otherwise
    with threads_held(1):
        alone = extract(settings)
    wanted = [
        replace(settings, output=tmp_path / "b.h5"),
        replace(settings, model=str(tmp_path / "nothing"), output=tmp_path / "c.h5"),
    ]
    killing = Killing(after=3)
    done, failed = extract_on_ray(wanted, RayEngine(2), killing)
    assert not isinstance(done, Exception)
    assert isinstance(failed, RepalignError)
    assert done.fingerprint == alone.fingerprint
    last = killing.told[-1]
    assert (last.samples_done, last.samples_total, last.rows) == (96, 96, 96)
    assert len(last.workers) <= 3
    assert all(speed.rate > 0 for _, speed in last.workers)
    assert not parts_directory(tmp_path / "b.h5").exists()
    with pytest.raises(InputError, match="old store"):
        extract_on_ray([replace(settings, overwrite=True)], RayEngine(1))
