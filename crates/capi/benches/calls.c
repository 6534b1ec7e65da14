/* The loops that benches/calls.rs compares with Rust's. */
#include "sstfilter.h"

uint64_t by_hash(const sstf_filter *filter, const uint64_t *hashes, size_t count) {
  uint64_t found = 0;
  for (size_t i = 0; i < count; i++) found += sstf_filter_may_contain_hash(filter, hashes[i]);
  return found;
}

uint64_t by_key(const sstf_filter *filter, const char (*keys)[16], size_t count) {
  uint64_t found = 0;
  for (size_t i = 0; i < count; i++) found += sstf_filter_may_contain(filter, keys[i], sizeof keys[i]);
  return found;
}

uint64_t by_sixteen(const sstf_filter *filter, const uint64_t *hashes, size_t count) {
  uint64_t found = 0, bits;
  for (size_t i = 0; i + 16 <= count; i += 16) found += sstf_filter_may_contain_hashes(filter, hashes + i, 16, &bits);
  return found;
}

uint64_t by_set(const sstf_set *set, const uint64_t *hashes, size_t count) {
  uint64_t found = 0, bits[2];
  for (size_t i = 0; i < count; i++) found += sstf_set_may_contain_hash(set, hashes[i], bits, 70);
  return found;
}
