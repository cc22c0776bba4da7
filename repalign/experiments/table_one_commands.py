"""The commands that do step by step what the demo does at once."""

from repalign.comparison.settings import CompareSettings
from repalign.experiments.table_one import TableOneSettings
from repalign.experiments.table_one_pairs import PAIRS, extractions
from repalign.spoken import words_of


def commands_of(settings: TableOneSettings, where: str) -> tuple[str, ...]:
    """Return the commands that do the same in a folder, ready to paste into a shell."""
    lines = []
    for extraction in extractions(settings.text_limit):
        options = f"--data {extraction.data} -o {where}/{extraction.store}.h5"
        options += f" --limit {extraction.limit}" if extraction.limit else ""
        options += f" --pool {extraction.pool}" if extraction.pool else ""
        if extraction.preprocess:
            options += f" --preprocess $(repalign zoo path {extraction.preprocess})"
        options += "" if extraction.with_ids else " --no-ids"
        lines.append(f"repalign extract $(repalign zoo path {extraction.model}) {options}")
    trust = words_of(settings.compare, CompareSettings())
    for pair in PAIRS:
        names = (pair.source, pair.target)
        ending = "npy" if pair.role == "unrelated" else "h5"
        if pair.role == "unrelated":
            lines += [
                f"repalign store export {where}/{name}.h5 {where}/{name}.npy" for name in names
            ]
        files = " ".join(f"{where}/{name}.{ending}" for name in names)
        lines.append(" ".join(["repalign compare", files, *trust]))
    return tuple(lines)
