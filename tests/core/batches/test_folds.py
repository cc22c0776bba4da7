import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repalign.core.batches.folds import leave_batches_out, permute_within, train_on_one_batch
from repalign.exceptions import InputError


def planted(n_batches: int, per_batch: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    batches = np.repeat(np.arange(n_batches), per_batch)
    labels = rng.integers(0, 2, batches.size)
    labels[:2] = [0, 1]
    return labels, batches


@given(st.integers(2, 12), st.integers(2, 8), st.integers(2, 6), st.integers(0, 99))
def test_folds_partition_the_rows_and_never_share_a_batch(
    n_batches: int, per_batch: int, n_folds: int, seed: int
) -> None:
    labels, batches = planted(n_batches, per_batch, seed)

    folds = leave_batches_out(labels, batches, n_folds=n_folds, seed=seed)

    assert len(folds) == min(n_folds, n_batches)
    assert np.sort(np.concatenate([fold.test for fold in folds])).tolist() == list(
        range(labels.size)
    )
    for fold in folds:
        assert not set(batches[fold.train]) & set(batches[fold.test])
        assert fold.train.size + fold.test.size == labels.size


def test_folds_hold_both_labels_although_some_batches_are_control_only() -> None:
    batches = np.repeat(np.arange(28), 60)
    labels = np.tile(np.repeat([0, 1], 30), 28)
    labels[batches >= 21] = 0

    for seed in range(10):
        folds = leave_batches_out(labels, batches, n_folds=5, seed=seed)
        shares = [labels[fold.test].sum() / labels.sum() for fold in folds]
        assert all(fold.reason == "" for fold in folds)
        assert max(shares) <= 0.25
        assert min(shares) >= 0.15


def test_folds_depend_on_the_seed_and_on_nothing_else() -> None:
    labels, batches = planted(12, 6, 0)
    first, again, other = (
        leave_batches_out(labels, batches, n_folds=3, seed=seed)[0].name for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_a_fold_with_one_label_says_so() -> None:
    labels = np.array([0, 0, 0, 1, 0, 1])
    batches = np.array(["a", "a", "b", "b", "c", "c"])
    folds = leave_batches_out(labels, batches, n_folds=3, seed=0)
    reasons = {fold.name: fold.reason for fold in folds}
    assert "test" in reasons["without a"]
    assert reasons["without b"] == ""


def test_training_on_one_batch_tests_on_all_the_others() -> None:
    labels = np.array([0, 0, 0, 1, 0, 1])
    batches = np.array(["a", "a", "b", "b", "c", "c"])
    folds = {fold.name: fold for fold in train_on_one_batch(labels, batches)}
    assert folds["only b"].train.tolist() == [2, 3]
    assert folds["only b"].test.tolist() == [0, 1, 4, 5]
    assert "training" in folds["only a"].reason


def test_permuting_within_batches_keeps_what_a_batch_says() -> None:
    labels, batches = planted(6, 50, 0)
    permuted = permute_within(labels, batches, np.random.default_rng(0))
    assert np.bincount(batches, permuted).tolist() == np.bincount(batches, labels).tolist()
    assert (permuted != labels).any()


@pytest.mark.parametrize("split", [train_on_one_batch, leave_batches_out])
@pytest.mark.parametrize(
    ("labels", "batches", "message"),
    [
        ([0, 1, 0], ["a", "a", "a"], "one batch"),
        ([0, 0, 0], ["a", "b", "b"], "label.* 0"),
        ([0, 1, 2], ["a", "b", "b"], "label.* 0, 1, 2"),
        ([0, 1, 1], ["a", "b"], "3.* 2"),
    ],
)
def test_unusable_labels_and_batches_are_refused(split, labels, batches, message: str) -> None:
    options = {"n_folds": 2, "seed": 0} if split is leave_batches_out else {}
    with pytest.raises(InputError, match=message):
        split(np.array(labels), np.array(batches), **options)


def test_fewer_than_two_folds_are_refused() -> None:
    with pytest.raises(InputError, match="folds"):
        leave_batches_out(np.array([0, 1]), np.array([0, 1]), n_folds=1, seed=0)
