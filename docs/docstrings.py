"""How `mkdocs build` reads docstrings: their examples under ``Example:`` are code."""

from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Call the section of examples by the name under which it is known as such."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
