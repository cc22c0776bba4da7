import pytest
import torch

from repalign.zoo.language_model import CONTEXT, LanguageModelTask, train_tokenizer
from repalign.zoo.recipe import RECIPES
from repalign.zoo.shakespeare import held_out_text, training_text
from repalign.zoo.task import data_generator


def test_no_speech_of_the_held_out_text_is_trained_on() -> None:
    training, held_out = training_text(), held_out_text()
    assert len(training) > 8 * len(held_out)
    speeches = [speech for speech in held_out.split("\n\n") if len(speech) > 100]
    assert len(speeches) > 100
    assert not any(speech in training for speech in speeches)


def test_the_tokenizer_reads_any_text_and_gives_it_back() -> None:
    tokenizer = train_tokenizer("to be or not to be, that is the question\n" * 50)
    text = "Tö be, or nöt — ☃"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


@pytest.mark.slow
def test_an_untrained_model_is_worse_than_unigrams() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        task = LanguageModelTask(RECIPES["gpt-neox"])
    figures = task.figures()
    assert figures["held_out_loss"] > figures["unigram_loss"] + 0.5
    assert figures["held_out_tokens"] % CONTEXT == 0
    with torch.no_grad():
        first, again = (float(task.loss(data_generator(0, 3))) for _ in range(2))
    assert first == again
