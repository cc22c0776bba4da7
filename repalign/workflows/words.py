"""Settings as the words that say them on the command line."""

from repalign.options import Settings, options_of, value_at


def words_of(settings: Settings, usual: Settings | None = None) -> list[str]:
    """Return what to write on the command line for settings that differ from the usual ones.

    Without these, every one is told: the words mean the same where the usual ones have changed.
    """
    words = []
    for each in options_of(type(settings)):
        value = value_at(settings, each.path)
        is_usual = usual is not None and value == value_at(usual, each.path)
        if not each.flag or is_usual or value is None or value == ():
            continue
        if isinstance(value, bool):
            # a flag that stands on the line says yes, or no where it begins with that
            words += [f"--{each.flag}"] if value != each.flag.startswith("no-") else []
        elif isinstance(value, tuple) and each.declared.repeat:
            words += [word for one in value for word in (f"--{each.flag}", str(one))]
        elif isinstance(value, tuple):
            words += [f"--{each.flag}", ",".join(map(str, value))]
        else:
            words += [f"--{each.flag}", str(value)]
    return words
