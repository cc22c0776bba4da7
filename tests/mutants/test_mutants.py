"""The mutants can be made: their mistakes are mistakes, in files and tests that exist."""

import ast

import pytest

from tests.mutants.__main__ import ROOT, Mutant, count, read_mutants

MUTANTS = read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mistake_can_be_made(mutant: Mutant) -> None:
    assert count(mutant) == 1, "expected once: adapt tests/mutants/mutants.toml"
    text = (ROOT / mutant.file).read_text("utf-8")
    assert mutant.old != mutant.new
    ast.parse(text.replace(mutant.old, mutant.new))
    assert mutant.tests
    for path in mutant.tests:
        assert (ROOT / path).exists(), path
