"""How `mkdocs build` reads the package: examples are code, and options have their defaults."""

import dataclasses
import importlib
from typing import Any

from griffe import Class, ExprCall, Extension, Object


class Examples(Extension):
    """Call the section of examples by the name under which it is known as such."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Rename the section in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")


class Defaults(Extension):
    """Show the default of an option instead of the call that declares it for the command line."""

    def on_class_members(self, *, cls: Class, **_: Any) -> None:
        """Replace what fields of one class are said to be set to."""
        declared = {
            name: member
            for name, member in cls.members.items()
            if member.is_attribute
            and isinstance(member.value, ExprCall)
            and str(member.value.function).endswith("option")
        }
        if not declared:
            return
        made = getattr(importlib.import_module(cls.module.path), cls.name)
        for field in dataclasses.fields(made):
            if field.name in declared:
                declared[field.name].value = repr(field.default)
