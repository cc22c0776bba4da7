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
# torch.load: a pickle is a program, whose damaged steps fail wherever they lead, at an object that
# is not on the stack (IndexError, TypeError, AttributeError), not in the memo (KeyError,
# AssertionError), or not in a module (ImportError), at a number beyond any size (OverflowError,
# MemoryError), at text that is not UTF-8 (ValueError), at what torch does not load (RuntimeError,
# NotImplementedError), at nesting without end (RecursionError).
PICKLE_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
    zipfile.BadZipFile,
)
