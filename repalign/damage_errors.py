"""What libraries raise for damaged files, to be named where they are called (``reading``).

A tuple is of one library: nothing of this package runs in a block that maps it.
"""

import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib

# zipfile: a directory or member that is damaged, cut or encrypted (RuntimeError, of another method
# NotImplementedError), a place before the file (ValueError, OSError), a packed stream that ends
# early (EOFError).
ZIP_ERRORS: tuple[type[Exception], ...] = (
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
# numpy.lib.format parses the header as Python: SyntaxError and TokenError of other text,
# TypeError of keys that cannot be sorted or of an unknown type, MemoryError and
# RecursionError of brackets without end, OverflowError of a shape that no array has.
NPY_ERRORS: tuple[type[Exception], ...] = (
    EOFError,
    MemoryError,
    OSError,
    OverflowError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)
# A reader that follows what a damaged file describes fails wherever that leads: at names, places
# and types that are not there, at numbers and sizes beyond all, in code written in C.
_ANYWHERE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
    struct.error,
)
# torch.load: a pickle is a program; ImportError of what is not in a module.
PICKLE_ERRORS: tuple[type[Exception], ...] = (
    *_ANYWHERE,
    ImportError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)
# ImportError of a codec, zlib.error of a damaged chunk.
ZARR_ERRORS: tuple[type[Exception], ...] = (*_ANYWHERE, ImportError, zlib.error)
# Packed data that end early; a warning where the real part of complex values would be read.
SCIPY_ERRORS: tuple[type[Exception], ...] = (*_ANYWHERE, Warning, zlib.error)
