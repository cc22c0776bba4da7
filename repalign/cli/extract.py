"""``repalign extract``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from repalign.cli import output
from repalign.cli.extract_options import (
    ColumnOption,
    IdColumnOption,
    LayerOption,
    LimitOption,
    MaxLengthOption,
    OfflineOption,
    PoolOption,
    PreprocessOption,
    SampleOption,
    TokenizerOption,
    TokensOption,
    UnitOption,
)
from repalign.cli.extract_progress import extract_bar
from repalign.cli.inputs import WRITTEN
from repalign.cli.options import DeviceOption, OverwriteOption, PlainFormatOption, SeedOption
from repalign.cli.talk import Talk, talk_of

if TYPE_CHECKING:
    from repalign.workflows.extract.settings import ExtractResult


def extract(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="hf:org/name[@revision], timm:name, torchvision:name, mae:file.pth, a directory "
            "or file of these formats, or a preset (`repalign models`)."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="Text (.txt, .md, .jsonl, .csv, .parquet) or images (directory, list, .npz, .h5, "
            "IDX): a file or a directory, builtin:shakespeare, builtin:digits, or "
            "datasets:name@split."
        ),
    ],
    store: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The store: a file ending in .h5, or a directory of shards.",
        ),
        WRITTEN,
    ],
    layer: LayerOption = None,
    pool: PoolOption = None,
    tokens: TokensOption = "all",
    unit: UnitOption = None,
    column: ColumnOption = None,
    id_column: IdColumnOption = None,
    limit: LimitOption = None,
    sample: SampleOption = None,
    max_length: MaxLengthOption = None,
    tokenizer: TokenizerOption = None,
    preprocess: PreprocessOption = None,
    image_backend: Annotated[
        Literal["pil", "torchvision"],
        typer.Option(help="Library that resizes images; transformers 5 takes torchvision."),
    ] = "pil",
    device: DeviceOption = "auto",
    dtype: Annotated[
        Literal["fp32", "bf16", "fp16"],
        typer.Option(help="Type of matrix products; weights and stored rows stay float32."),
    ] = "fp32",
    store_dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="Type of the stored rows.")
    ] = "float32",
    compress: Annotated[
        Literal["gzip", "blosc2"] | None,
        typer.Option(
            help="Compress the store; activations hardly shrink. blosc2 needs the extra blosc.",
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tokens per batch with padding, or images per batch. Default: on the CPU 512, or "
            "8 images of 224×224 and more of smaller ones; found by trial elsewhere.",
            show_default=False,
        ),
    ] = None,
    shard_samples: Annotated[
        int | None,
        typer.Option(
            min=1, help="Samples per shard. Default: about 64 MiB of rows.", show_default=False
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, help="Threads that decode images. Default: one per core.", show_default=False
        ),
    ] = None,
    seed: SeedOption = 0,
    no_ids: Annotated[
        bool, typer.Option("--no-ids", help="Store no sample ids, which may identify people.")
    ] = False,
    offline: OfflineOption = False,
    overwrite: OverwriteOption = False,
    verify_device: Annotated[
        bool, typer.Option("--verify-device", help="First recompute eight samples on the CPU.")
    ] = False,
    form: PlainFormatOption = None,
) -> None:
    """Extract embeddings of a pretrained model into a store; run it again to continue.

    Under torchrun or Slurm the processes share the work and write one store.

    Example: repalign extract timm:resnet18.a1_in1k --data photos/ -o a1.h5
    """
    from repalign.data.open_data import ReadOptions
    from repalign.workflows.extract.run import extract as run
    from repalign.workflows.extract.settings import ExtractSettings

    settings = ExtractSettings(
        model=model,
        data=data,
        output=store,
        layers=tuple(layer or ()),
        pools=tuple(pool or ()),
        tokens=tokens,
        read=ReadOptions(unit=unit, column=column, id_column=id_column),
        limit=limit,
        sample=sample,
        max_length=max_length,
        tokenizer=tokenizer,
        preprocess=preprocess,
        image_backend=image_backend,
        device=device,
        dtype=dtype,
        store_dtype=store_dtype,
        compression=compress,
        batch_size=batch_size,
        shard_samples=shard_samples,
        workers=workers,
        seed=seed,
        with_ids=not no_ids,
        offline=offline,
        overwrite=overwrite,
        verify_device=verify_device,
    )
    talk = talk_of(context)
    _say_preset(talk, model)
    with extract_bar(quiet=talk.quiet) as on_progress:
        result = run(settings, on_progress)
    records = [_record(result)]
    output.emit(output.render_records(records, output.choose_format(form, None)))
    _say(talk, result)


def _say_preset(talk: Talk, model: str) -> None:
    from repalign.models.naming.presets import resolve_name

    _, preset = resolve_name(model)
    if preset is None:
        return
    talk.note(f"{model} is {preset.model} (licence {preset.licence}). {preset.certain}")
    if preset.inferred:
        talk.note(f"not certain: {preset.inferred}")


def _record(result: "ExtractResult") -> dict[str, Any]:
    return {
        "store": str(result.path),
        "complete": result.is_complete,
        "rows": result.n_rows,
        "views": " ".join(f"{key}:{dim}" for key, dim in result.views.items()),
        "new_rows": result.rows_new,
        "seconds": round(result.seconds, 3),
        "device": result.device,
        "fingerprint": result.fingerprint,
    }


def _say(talk: Talk, result: "ExtractResult") -> None:
    for warning in result.warnings:
        talk.warn(warning)
    if result.device_difference is not None:
        talk.note(f"{result.device} agrees with the CPU to {result.device_difference:.1e}")
    if not result.is_complete:
        talk.note("this process is done; other processes still write their shards")
    elif result.rows_new == 0:
        talk.note("the store was complete already; nothing was computed")
    else:
        rate = result.tokens / result.seconds if result.seconds else 0.0
        talk.note(f"{result.rows_new:,} rows in {result.seconds:.1f} s ({rate:,.0f} tokens/s)")
