"""Builds and checks filter blocks with ctypes: blocks.py path/to/libsstfilter.so.0"""
import ctypes
import sys


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("kind", ctypes.c_char_p), ("false_positive_rate", ctypes.c_double),
                ("bits_per_key", ctypes.c_double), ("seed", ctypes.c_uint64), ("hash_tag", ctypes.c_uint64)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int32), ("message", ctypes.c_char * 252)]


lib = ctypes.CDLL(sys.argv[1])
lib.sstf_file_id_random.restype = ctypes.c_uint64
policy, builder, filter_, block, size, error = (ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(),
                                                ctypes.c_void_p(), ctypes.c_size_t(), Error())
options = Options(ctypes.sizeof(Options), b"ribbon", 0.01)  # the fields that this program knows; the others are 0
file_id = ctypes.c_uint64(lib.sstf_file_id_random())
if lib.sstf_policy_create(ctypes.byref(options), ctypes.byref(policy), ctypes.byref(error)):
    sys.exit(error.message.decode())
lib.sstf_builder_create(policy, file_id, 1, ctypes.c_uint64(0), ctypes.byref(builder), None)
keys = [b"key %d" % number for number in range(10_000)]
for key in keys:
    lib.sstf_builder_add_key(builder, key, ctypes.c_size_t(len(key)))
if lib.sstf_builder_finish(builder, ctypes.byref(block), ctypes.byref(size), ctypes.byref(error)):
    sys.exit(error.message.decode())
data = ctypes.string_at(block, size.value)
if lib.sstf_filter_open(policy, data, size, file_id, 1, ctypes.byref(filter_), ctypes.byref(error)):
    print(error.message.decode())  # the filter is NULL, and answers "may be present"
probe = lambda key: lib.sstf_filter_may_contain(filter_, key, ctypes.c_size_t(len(key)))
print(f"{len(data) * 8 / len(keys):.2f} bits per key, {sum(map(probe, keys))} of {len(keys)} keys found, "
      f"{sum(probe(b'absent %d' % number) for number in range(10_000))} of 10000 absent ones")
