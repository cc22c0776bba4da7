"""What this installation can do, what is missing, and the command that fixes it."""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

Status = Literal["ok", "note", "problem"]

IMPORT_SECONDS = 120
LOW_DISK_BYTES = 2 * 1024**3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what was found and, where it is not fine, what to do."""

    subject: str
    status: Status
    found: str
    advice: str = ""


def diagnose() -> tuple[Finding, ...]:
    """Look at versions, imports, device, threads, caches and disk."""
    return (
        Finding("python", "ok", f"{platform.python_version()} on {platform.platform()}"),
        *find_packages(),
        find_vision_import(),
        find_device(),
        find_threads(),
        find_hub(),
        find_disk("home", home_folder()),
        find_disk("temporary files", temporary_folder()),
    )


def find_packages() -> list[Finding]:
    """Compare every declared dependency with what is installed."""
    from packaging.requirements import Requirement

    findings = []
    for line in requires("repalign") or []:
        need = Requirement(line)
        extra = _extra_of(need.marker)
        if extra == "test":
            continue
        findings.append(check_requirement(need.name, str(need.specifier), extra=extra))
    return findings


def check_requirement(name: str, specifier: str, *, extra: str | None) -> Finding:
    """Say whether one package is there in a version that will do."""
    from packaging.specifiers import SpecifierSet

    fix = f"pip install -U '{name}{specifier}'"
    try:
        found = version(name)
    except PackageNotFoundError:
        status: Status = "note" if extra else "problem"
        return Finding(name, status, f"not installed (extra {extra})" if extra else "missing", fix)
    if not SpecifierSet(specifier).contains(found, prereleases=True):
        return Finding(name, "problem", f"{found}, need {specifier}", fix)
    return Finding(name, "ok", found)


def find_vision_import() -> Finding:
    """Import torch and torchvision in a process of their own: builds that do not match fail."""
    code = "import torch, torchvision; print(torch.__version__, torchvision.__version__)"
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        found = f"the import takes more than {IMPORT_SECONDS} s"
        return Finding("torch with torchvision", "problem", found, "look at the disk they are on")
    return read_vision_import(ran.returncode, ran.stdout, ran.stderr)


def read_vision_import(returncode: int, stdout: str, stderr: str) -> Finding:
    """Explain how ``import torch, torchvision`` ended."""
    subject = "torch with torchvision"
    if returncode == 0:
        return Finding(subject, "ok", " with ".join(stdout.split()))
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    if "torchvision::nms" in stderr:
        return Finding(
            subject,
            "problem",
            f"builds do not match ({last}); timm and transformers fail with it",
            "pip install --force-reinstall torch torchvision",
        )
    return Finding(subject, "problem", last, "pip install -U torch torchvision")


def find_device() -> Finding:
    """Name the device that ``--device auto`` would use."""
    try:
        import torch
    except ImportError as failure:
        return Finding("device", "problem", str(failure), "pip install -U torch")
    if torch.cuda.is_available():
        index = torch.cuda.current_device()
        gib = torch.cuda.get_device_properties(index).total_memory / 1024**3
        name = torch.cuda.get_device_name(index)
        return Finding("device", "ok", f"cuda:{index} {name}, {gib:.0f} GiB")
    if torch.backends.mps.is_available():
        return Finding("device", "ok", "mps")
    built = f"torch built for CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    return Finding("device", "note", f"cpu ({built}, no accelerator found)")


def find_threads() -> Finding:
    """List the thread pools of the numerical libraries and the cores they share."""
    import numpy  # noqa: F401  (loads its BLAS, which is then seen)
    from threadpoolctl import threadpool_info

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pools = [
        " ".join([pool["internal_api"], *filter(None, [pool.get("version")])])
        + f": {pool['num_threads']}"
        for pool in threadpool_info()
    ]
    return Finding("threads", "ok", f"{cores} cores; " + ", ".join(pools))


def find_hub() -> Finding:
    """Say where checkpoints are cached and whether the hub may be asked."""
    own = os.environ.get("HF_HOME")
    home = Path(own) if own else (home_folder() or Path()) / ".cache" / "huggingface"
    offline = os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0")
    state = "offline (HF_HUB_OFFLINE is set)" if offline else "online"
    there = "exists" if home.is_dir() else "not there yet"
    return Finding("checkpoint cache", "ok", f"{home} ({there}), {state}")


def home_folder() -> Path | None:
    """Return the user's home; None if nothing names it."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def temporary_folder() -> Path | None:
    """Return the folder of temporary files; None if none can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:
        return None


def find_disk(subject: str, folder: Path | None) -> Finding:
    """Say how much room a folder has left."""
    name = f"disk, {subject}"
    if folder is None:
        return Finding(name, "problem", "no such folder is known", "set HOME and TMPDIR")
    try:
        free = shutil.disk_usage(folder).free
    except OSError as failure:
        return Finding(
            name, "problem", f"{folder}: {failure.strerror}", "set HOME or TMPDIR to a folder"
        )
    found = f"{free / 1024**3:.1f} GiB free at {folder}"
    if free < LOW_DISK_BYTES:
        return Finding(name, "problem", found, "free some space")
    return Finding(name, "ok", found)


def _extra_of(marker: object) -> str | None:
    """Return x of a marker such as ``extra == 'x'``."""
    text = str(marker) if marker is not None else ""
    if "extra ==" not in text:
        return None
    return text.split("extra ==")[1].strip().strip("\"'")
