"""Every command and every example of the README and of the documentation runs, as written."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from repalign.cli.app import app
from repalign.cli.reference import commands
from tests.given_files import FILES
from tests.packages import LIBRARY, WEIGHTS, install
from tests.pages import (
    INLINE,
    PAGES,
    ROOT,
    Step,
    blocks_of,
    commands_in,
    differences,
    page_id,
    prose_of,
    steps_of,
)

pytestmark = pytest.mark.docs

ROOT_COMMAND = typer.main.get_command(app)
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
TEXTS = {page_id(path): path.read_text(encoding="utf-8") for path in PAGES}
STEPS = {
    page: [step for block in blocks_of(page, text) for step in steps_of(block)]
    for page, text in TEXTS.items()
}

# What would download a model runs with one that comes with the package, or a tiny one.
STANDS_IN = {
    "hf:facebook/hubert-base-ls960": "tiny-hubert",
    "hf:openai/whisper-base": "tiny-whisper",
    "hf:EleutherAI/pythia-160m": "$(repalign zoo path gpt-neox-seed0)",
    "pythia-160m-seed0": "$(repalign zoo path gpt-neox-seed0)",
    "pythia-160m-seed1": "$(repalign zoo path gpt-neox-seed1)",
}
# What no test runs, by how it begins, and why. Its options must exist all the same.
NOT_RUN = {
    "pip install": "a fresh environment: a step of .ci/run",
    "repalign demo": "a step of .ci/run; tests/cli/commands/test_demo.py compares the output",
    "repalign reproduce": "takes minutes; tests/cli/commands/test_reproduce.py runs the shortest",
    "repalign zoo train": "trains for a minute; tests/zoo/test_training.py trains for less",
    "srun": "needs Slurm; tests/extraction sets its variables",
    "torchrun": "needs torchrun; tests/extraction sets its variables",
    "ray ": "needs a cluster; benchmarks/cluster.py starts one",
    "export RAY_AUTH_MODE": "of the cluster",
    "repalign extract --models models.txt": "needs a cluster, as above",
    "repalign compare stores/*.h5 --engine ray": "needs a cluster, as above",
    "pytest": "would run itself; a step of .ci/run",
    "python -m repalign.cli.reference": "writes into the clone; tests/test_docs.py compares",
    "ruff": "a step of .ci/run",
    "mkdocs": "a step of .ci/run",
    "python benchmarks/": "takes minutes, and a device that may not be here",
    "OMP_NUM_THREADS=1 python benchmarks/": "takes minutes and gigabytes",
    "OMP_NUM_THREADS=1 python -m benchmarks.": "takes an hour",
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
# Pages whose blocks of Python share their names, with the test that runs them.
ELSEWHERE = {"docs/own-model.md": "tests/extraction/test_own_model_page.py"}
# Pages that need packages which no extra of the tests brings; tests marked slow install them.
PACKAGES = {"docs/sentence-embeddings.md": (WEIGHTS, LIBRARY)}


def reason_not_to_run(step: Step) -> str | None:
    page = step.place.partition(":")[0]
    return ELSEWHERE.get(page) or next(
        (NOT_RUN[start] for start in NOT_RUN if step.text.startswith(start)), None
    )


@pytest.fixture
def shell(tmp_path: Path):
    """Run steps as a reader would: a fresh folder, `repalign` and `python` on the path."""
    programs, folder = tmp_path / "bin", tmp_path / "folder"
    programs.mkdir()
    folder.mkdir()
    module = programs / "repalign"
    module.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m repalign "$@"\n')
    module.chmod(0o755)
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    for name in THREADS:  # a worker of the tests has one, a reader as many as libraries choose
        environment.pop(name, None)
    bash = shutil.which("bash")
    assert bash

    def run(step: Step) -> subprocess.CompletedProcess[str]:
        for name, shipped in STANDS_IN.items():
            step = Step(step.place, step.language, step.text.replace(name, shipped), step.shown)
        program = [bash, "-c"] if step.language == "sh" else [sys.executable, "-c"]
        return subprocess.run(
            [*program, step.text],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    run.folder = folder
    run.environment = environment
    return run


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page in PACKAGES else [])
        for page, steps in STEPS.items()
        if steps
    ],
)
def test_what_a_page_shows_runs_in_order(page: str, shell) -> None:
    if page in PACKAGES:
        packages = install(shell.folder.with_name("packages"), *PACKAGES[page])
        shell.environment["PATH"] += f"{os.pathsep}{packages / 'bin'}"
        shell.environment["PYTHONPATH"] += f"{os.pathsep}{packages}"
    for make in FILES.get(page, ()):
        make(shell.folder)
    for step in STEPS[page]:
        if reason_not_to_run(step):
            continue
        ran = shell(step)
        assert ran.returncode == 0, f"{step.place}: {step.text}\n{ran.stderr}"
        wrong = differences(step.shown, ran.stdout + ran.stderr)
        assert wrong == [], f"{step.place}: {step.text}\n{ran.stdout}{ran.stderr}"


def test_what_is_not_run_is_on_a_page() -> None:
    texts = [step.text for steps in STEPS.values() for step in steps]
    for start in NOT_RUN:
        assert any(text.startswith(start) for text in texts), start
    for name in STANDS_IN:
        assert any(name in text for text in texts), name
    assert FILES.keys() | PACKAGES.keys() <= STEPS.keys()
    for page, test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")


def parse(words: list[str]) -> None:
    """Parse a command line as the program would, without running it."""
    command, name = ROOT_COMMAND, "repalign"
    while words and words[0] in getattr(command, "commands", {}):
        name, *words = words
        command = command.commands[name]
    if hasattr(command, "commands") and words:
        command.resolve_command(typer.Context(command), words)  # says that there is none
    command.make_context(name, words)


@pytest.mark.parametrize("page", TEXTS)
def test_what_is_not_run_is_written_right(page: str) -> None:
    for step in filter(reason_not_to_run, STEPS[page]):
        for words in commands_in(step.text) if step.language == "sh" else ():
            parse(words)
        for script, options in re.findall(r"python (benchmarks/\w+\.py)(.*)", step.text):
            known = (ROOT / script).read_text(encoding="utf-8")
            for word in re.findall(r"--[\w-]+", options):
                assert f'"{word}"' in known, f"{step.place}: {word}"


SCRIPTS = "".join(path.read_text() for path in ROOT.glob("benchmarks/*.py"))
OPTIONS = (
    {"--help"}
    | set(re.findall(r'"(--[\w-]+)"', SCRIPTS))
    | {
        option
        for _, command in commands()
        for p in command.params
        for option in [*p.opts, *p.secondary_opts]
    }
)


@pytest.mark.parametrize("page", TEXTS)
def test_options_named_in_the_text_exist(page: str) -> None:
    for code in INLINE.findall(prose_of(TEXTS[page])):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", code))
        assert named <= OPTIONS or code.startswith(("pip ", "python ")), f"{page}: `{code}`"


@pytest.mark.parametrize("page", TEXTS)
def test_every_fence_says_what_it_holds(page: str) -> None:
    for block in blocks_of(page, TEXTS[page]):
        assert block.language in {"sh", "console", "python", "text"}, block.place
        assert block.language != "text" or not re.search(r"^(\$ |repalign )", block.text, re.M), (
            block.place
        )
    indented = re.findall(
        r"^    (?:\$ )?(?:\w+=\S+ )*(repalign|python|pip)\b.*", prose_of(TEXTS[page]), re.M
    )
    assert indented == [], f"{page}: fence it, so that it is run"


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", TEXTS[page]):
        if "://" not in target:
            assert (ROOT / page).parent.joinpath(target).exists(), target


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for target in re.findall(r"\]\(([^)#\s:]+\.md)[^)]*\)", page.read_text()):
            linked = (page.parent / target).resolve()
            if linked not in reached:
                waiting.append(linked)
    assert set(PAGES) <= reached


def test_the_two_commands_of_the_readme_are_those_of_the_gate() -> None:
    shown = " ".join(step.text + "\n" for step in STEPS["README.md"])
    for command in ("pip install . && repalign demo", "pip install -e '.[test]' && pytest"):
        assert command in shown
        for step in command.split(" && "):
            assert f"\n{step}\n" in CI, step


def test_the_gate_runs_what_a_plain_pytest_leaves_out() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    (left_out,) = (
        re.fullmatch(r"-m not \((.+)\)", each)
        for each in options["addopts"]
        if each.startswith("-m")
    )
    assert left_out
    assert f"\npytest -m '{left_out[1]}'\n" in CI


def test_the_workflow_of_the_gate_runs_as_written(shell) -> None:
    (text,) = (b.text for b in blocks_of("gate", TEXTS["docs/gate.md"]) if "runs-on" in b.text)
    runs = [step["run"] for step in yaml.safe_load(text)["jobs"]["gate"]["steps"] if "run" in step]
    assert runs[0] == "pip install ."
    for command in runs[1:]:
        ran = shell(Step("docs/gate.md", "sh", f"set -e\n{command}"))
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
    assert (shell.folder / "report.html").exists()


def test_excerpts_of_the_demo_are_in_its_output() -> None:
    demo = TEXTS["docs/demo.md"].splitlines()
    excerpts = re.findall(r"^    (.*\S)", prose_of(TEXTS["docs/reading-results.md"]), re.M)
    assert len(excerpts) > 20
    assert [line for line in excerpts if line.strip() not in {each.strip() for each in demo}] == []


def test_the_checks_can_fail() -> None:
    with pytest.raises(Exception, match="No such option: --nope"):
        parse(["compare", "a.h5", "b.h5", "--nope"])
    with pytest.raises(Exception, match="No such command 'nope'"):
        parse(["zoo", "nope"])
    page = "text\n\n```console\n$ a\n  1.00   x\n$ b | repalign compare $(c --d) --quick > e\n```\n"
    (block,) = blocks_of("page.md", page)
    first, second = steps_of(block)
    assert (block.place, first.text, first.shown) == ("page.md:3", "a", "  1.00   x")
    assert commands_in(second.text) == [["compare", "SUBSTITUTED", "--quick"]]
    assert differences(first.shown, "else\n1.05 x\n") == []
    assert differences(first.shown, "1.2 x\n") == ["  1.00   x"]
    assert differences(first.shown, "1.00 y\n") == ["  1.00   x"]
