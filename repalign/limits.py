"""Sizes of inputs, compared with what a file declares before any memory is taken for it."""

# Of an image, before it is resized and afterwards.
MAX_PIXELS = 50_000_000
# Of arrays that are held in memory as a whole.
MAX_HELD_BYTES = 4 * 2**30
# Samples a second of a sound, and samples of all of its channels, as read and as resampled.
SOUND_RATES = (1000, 768_000)
# Silence packs to nearly nothing: megabytes of it would become gigabytes. Half an hour of two
# channels at 48 kHz has fewer.
MAX_SOUND_VALUES = 2**28
