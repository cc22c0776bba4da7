"""Readers that damage can crash or never end, run in a process of their own with limits."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repalign.exceptions import InputError

DAMAGED = 65  # exit code of a program whose library cannot read the file
TIME_LIMIT = 20.0  # seconds, of a small file; a million texts of HDF5 take about two


def run_apart(
    program: Path,
    arguments: Sequence[str],
    *,
    label: str,
    library: str,
    memory_bytes: int,
    time_limit: float = TIME_LIMIT,
    names: Sequence[str] = (),
    output: int | None = None,
) -> Any:
    """Run a program that reads part of a file, and return the JSON that it prints.

    Args:
        program: file of the program; it sets the limit of memory, its first argument, itself.
        arguments: the others, the path of the file first.
        label: what is read, for messages.
        library: what reads it, for messages.
        memory_bytes: most that the process may map.
        time_limit: seconds after which it is ended.
        names: given to the program as a JSON list on its standard input.
        output: descriptor of an open file that the program may write; its number is the last
            argument.

    Raises:
        InputError: the library cannot read the file, crashed or did not end.
        RuntimeError: the program itself failed, which is a bug.
    """
    command = [sys.executable, "-P", str(program), str(memory_bytes), *arguments]
    try:
        run = subprocess.run(
            [*command, *([] if output is None else [str(output)])],
            input=json.dumps(list(names)).encode(),
            capture_output=True,
            check=True,
            timeout=time_limit,
            pass_fds=() if output is None else (output,),
        )
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{label}: {library} did not read it in {time_limit:g} seconds; is it damaged?"
        ) from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines()
        reason = lines[-1][:160] if lines else "no output"
        if error.returncode > 0 and error.returncode != DAMAGED:  # below zero a signal ended it
            raise RuntimeError(f"{program.name}: {reason}") from error
        raise InputError(f"{label}: {library} cannot read it ({reason}); is it damaged?") from error
    return json.loads(run.stdout)
