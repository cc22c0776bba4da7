"""Which engine a command asks for: this process, a pool of processes, or Ray."""

from repalign.engine.cache import Cache
from repalign.engine.engine import Engine, ProcessPool
from repalign.exceptions import InputError


def choose_engine(
    name: str = "local",
    workers: int | None = None,
    ray_address: str | None = None,
    cache: Cache | None = None,
) -> Engine:
    """Return an engine; use it in a ``with`` block.

    Args:
        name: ``local`` for this machine's processes, ``ray`` for a cluster of Ray.
        workers: How many calls at the same time; None for one locally, and for as many as there
            are processors with Ray.
        ray_address: Of a running cluster; None starts one on this machine.
        cache: Where results are kept and looked for; None for nowhere.

    Raises:
        InputError: An unknown name, not at least one worker, or an address without Ray.
    """
    if name not in ("local", "ray"):
        raise InputError(f"engine: got {name!r}, expected local or ray")
    if name == "ray":
        from repalign.engine.ray import RayEngine

        return RayEngine(workers, cache, address=ray_address)
    if ray_address is not None:
        raise InputError("--ray-address is of --engine ray; add it, or leave the address out")
    if workers is None or workers == 1:
        return Engine(cache)
    return ProcessPool(workers, cache)


def address_warnings(ray_address: str | None) -> tuple[str, ...]:
    """Return what to know before connecting to a cluster that others may reach."""
    if ray_address is None:
        return ()
    return (
        f"whoever reaches a Ray cluster can run code on it: keep {ray_address} inside a "
        "network that you trust, with token authentication (RAY_AUTH_MODE=token)",
    )
