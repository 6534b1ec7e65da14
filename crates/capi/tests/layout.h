/* Written by src/tests.rs: the layouts that the library has. */
#include "sstfilter.h"

#ifndef __cplusplus
#define static_assert _Static_assert
#endif
#if UINTPTR_MAX > 0xffffffff
static_assert(sizeof(sstf_error) == 256, "");
static_assert(offsetof(sstf_error, status) == 0, "");
static_assert(offsetof(sstf_error, message) == 4, "");
static_assert(sizeof(sstf_options) == 80, "");
static_assert(offsetof(sstf_options, struct_size) == 0, "");
static_assert(offsetof(sstf_options, kind) == 8, "");
static_assert(offsetof(sstf_options, false_positive_rate) == 16, "");
static_assert(offsetof(sstf_options, bits_per_key) == 24, "");
static_assert(offsetof(sstf_options, seed) == 32, "");
static_assert(offsetof(sstf_options, hash_tag) == 40, "");
static_assert(offsetof(sstf_options, longest_range) == 48, "");
static_assert(offsetof(sstf_options, seed_is_secret) == 56, "");
static_assert(offsetof(sstf_options, prefix_bytes) == 60, "");
static_assert(offsetof(sstf_options, only_prefixes) == 64, "");
static_assert(offsetof(sstf_options, integer_bytes) == 68, "");
static_assert(offsetof(sstf_options, granularity_bits) == 72, "");
static_assert(offsetof(sstf_options, reserved) == 76, "");
static_assert(sizeof(sstf_info) == 88, "");
static_assert(offsetof(sstf_info, struct_size) == 0, "");
static_assert(offsetof(sstf_info, keys) == 8, "");
static_assert(offsetof(sstf_info, block_bytes) == 16, "");
static_assert(offsetof(sstf_info, expected_fpr) == 24, "");
static_assert(offsetof(sstf_info, file_id) == 32, "");
static_assert(offsetof(sstf_info, kind) == 40, "");
static_assert(offsetof(sstf_info, requested) == 64, "");
#endif
