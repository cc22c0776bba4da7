"""The commands that do step by step what the demo does at once."""

from repalign.experiments.table_one import TableOneSettings
from repalign.experiments.table_one_pairs import PAIRS, extractions
from repalign.workflows.compare.settings import CompareSettings


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
    trust = _trust_options(settings.compare)
    for pair in PAIRS:
        names = (pair.source, pair.target)
        ending = "npy" if pair.role == "unrelated" else "h5"
        if pair.role == "unrelated":
            lines += [
                f"repalign store export {where}/{name}.h5 {where}/{name}.npy" for name in names
            ]
        files = " ".join(f"{where}/{name}.{ending}" for name in names)
        lines.append(f"repalign compare {files}{trust}")
    return tuple(lines)


def _trust_options(settings: CompareSettings) -> str:
    default = CompareSettings()
    options = {
        "--folds": (settings.n_folds, default.n_folds),
        "--null": (settings.n_null, default.n_null),
        "--gaussian-null": (settings.n_gaussian, default.n_gaussian),
        "--bootstrap": (settings.n_bootstrap, default.n_bootstrap),
        "--ica-seeds": (settings.ica_seeds, default.ica_seeds),
    }
    return "".join(f" {name} {value}" for name, (value, usual) in options.items() if value != usual)
