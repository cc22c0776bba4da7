"""Time per step of the simulations' training loop against a bare PyTorch loop of the same model.

Processor seconds of one thread, so that other programs on the machine disturb little.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from repalign.simulation.contrastive import ContrastiveModel, info_nce, outputs
from repalign.simulation.fitting import Budget, fit, perceptron, seeded
from repalign.simulation.latents import Latents
from repalign.simulation.mixing import draw_mixing

LATENTS = Latents("sphere", 5, "von-mises-fisher", 10.0)
MODEL = ContrastiveModel("cosine", 0.1)


def bare(encoder: torch.nn.Module, loss_of_step: Callable[[], torch.Tensor], steps: int) -> None:
    optimizer = torch.optim.Adam(encoder.parameters(), lr=5e-3)
    for _ in range(steps):
        loss = loss_of_step()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def ours(encoder: torch.nn.Module, loss_of_step: Callable[[], torch.Tensor], steps: int) -> None:
    fit(encoder, loss_of_step, Budget(steps, 256, 5e-3))


def milliseconds(loop: Callable[..., None], steps: int) -> float:
    rng = np.random.default_rng(0)
    mixing = draw_mixing(LATENTS.draw(1000, rng), 3, rng)
    with seeded(0):
        encoder = perceptron([5, 50, 250, 250, 50, 5])

        def loss_of_step() -> torch.Tensor:
            points = LATENTS.draw(256, rng)
            pairs = np.concatenate([points, LATENTS.neighbours(points, rng)])
            return info_nce(outputs(encoder, torch.from_numpy(mixing.observe(pairs)), MODEL), MODEL)

        started = time.process_time()
        loop(encoder, loss_of_step, steps)
    return 1000 * (time.process_time() - started) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    rounds = [
        [milliseconds(loop, given.steps) for loop in (bare, ours)] for _ in range(given.rounds + 1)
    ]
    plain, looped = (statistics.median(times) for times in zip(*rounds[1:], strict=True))
    print(f"bare loop {plain:.2f} ms a step, fit {looped:.2f} ms, ratio {plain / looped:.2f}")


if __name__ == "__main__":
    main()
