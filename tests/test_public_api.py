"""The public names: listed, importable, documented."""

import inspect

import repalign


def test_public_names_are_sorted_and_importable() -> None:
    assert list(repalign.__all__) == sorted(repalign.__all__)
    for name in repalign.__all__:
        assert getattr(repalign, name) is not None


def test_every_lazy_name_is_public() -> None:
    assert set(repalign._LAZY) <= set(repalign.__all__)


def test_public_functions_and_classes_are_documented() -> None:
    for name in repalign.__all__:
        thing = getattr(repalign, name)
        if not isinstance(thing, str):
            assert inspect.getdoc(thing), name


def test_every_public_name_has_an_example() -> None:
    # tests/test_examples.py runs them
    lacking = [
        name
        for name in repalign.__all__
        if name != "__version__" and ">>> " not in inspect.getdoc(getattr(repalign, name))
    ]
    assert lacking == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(repalign, "no_such_thing")
