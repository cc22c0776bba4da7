import pytest

from repalign.exceptions import InputError
from repalign.zoo.recipe import RECIPES, find_recipe


def test_recipes_are_found_by_name() -> None:
    assert {name: find_recipe(name).name for name in RECIPES} == {name: name for name in RECIPES}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnett", r"'resnett'.* resnet\b"),
        ("zzz", "'zzz'.* gpt-neox, mae-transformers"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_recipe(name)
