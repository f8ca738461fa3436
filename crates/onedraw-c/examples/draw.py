"""Draws eight tokens from one row of logits, with nothing but Python's ctypes: draw.py LIBRARY

This shows that the C interface is enough for any language. In Python use the package `onedraw`.
"""

import ctypes
import sys
from ctypes import POINTER, Structure, byref, c_char, c_double, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p


class Error(Structure):
    _fields_ = [("status", c_int32), ("length", c_uint32), ("kind", c_char * 48), ("message", c_char * 456)]


class Row(Structure):
    _fields_ = [
        ("logits", c_void_p),
        ("vocabulary", c_size_t),
        ("dtype", c_uint32),
        ("mask_words", c_uint32),
        ("mask", POINTER(c_uint32)),
    ]


class Sampled(Structure):
    _fields_ = [
        *[(name, c_uint32) for name in ("status", "token", "position", "sequence")],
        ("seed", c_uint64),
        *[(name, c_double) for name in ("probability", "logprob", "mirostat_mu")],
        *[(name, c_uint32) for name in ("rank", "logprobs")],
    ]


library = ctypes.CDLL(sys.argv[1])


def call(name, *arguments):
    """Calls a function, which has one more argument for the error."""
    error = Error()
    if getattr(library, name)(*arguments, byref(error)):
        raise ValueError(error.message.decode())


logits = (c_float * 5)(1.5, 0.2, 3.1, -4.0, 2.6)
row = Row(ctypes.cast(logits, c_void_p), len(logits))
params, sampler, sampled = c_void_p(), c_void_p(), Sampled()
call("onedraw_params_from_json", b'{"temperature": 0.8, "top_p": 0.9, "seed": 42}', byref(params))
call("onedraw_sampler_new", params, byref(sampler))
for _ in range(8):
    call("onedraw_sampler_sample", sampler, byref(row), byref(sampled))
    print(sampled.token, end=" ")
print()
call("onedraw_sampler_free", sampler)
call("onedraw_params_free", params)
