/* Checks the C interface from C: no key is lost, whatever is damaged, swapped, misused or ignored. Prints what failed.
 * Compiles as C11 and as C++11. `check` runs it plainly, with sanitizers, and in valgrind. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "sstfilter.h"

static int checks, faults;

static void check(int holds, const char *what, const char *kind, size_t at) {
  __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);
  if (!holds && __atomic_add_fetch(&faults, 1, __ATOMIC_RELAXED) < 20) printf("%s: %s (%zu)\n", kind, what, at);
}

#define CHECK(holds) check((holds), #holds, __func__, __LINE__)

enum { KEYS = 1500, KEY_BYTES = 12 };

static const char *const KINDS[] = {"auto", "bloom", "ribbon", "line-ribbon", "standard-bloom", "counting-bloom",
                                    "register-blocked-bloom", "cuckoo", "xor", "xor+", "binary-fuse", "binary-fuse-4",
                                    "ordered-range", "hashed-range"};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

/* Four bytes of a prefix, and eight of a big-endian number. */
static const char *key(uint32_t number, char *buffer) {
  memset(buffer, 0, KEY_BYTES);
  buffer[3] = (char)(number / 1000);
  for (int byte = 0; byte < 4; byte++) buffer[8 + byte] = (char)(number >> (24 - 8 * byte));
  return buffer;
}

static sstf_options options_of(const char *kind) {
  sstf_options options = SSTF_OPTIONS_INIT;
  options.kind = kind;
  options.false_positive_rate = !strncmp(kind, "register", 8) || !strncmp(kind, "counting", 8) ? 0.05 : 0.01;
  if (!strcmp(kind, "hashed-range")) {
    options.prefix_bytes = 4;
    options.integer_bytes = 8;
    options.longest_range = 16;
  }
  return options;
}

static sstf_policy *policy_of(const sstf_options *options) {
  sstf_policy *policy = NULL;
  sstf_error error;
  check(sstf_policy_create(options, &policy, &error) == SSTF_OK, error.message, options->kind, 0);
  return policy;
}

/* Builds the block of the keys from `first` on, and returns it with its length. */
static unsigned char *build(const sstf_policy *policy, uint64_t file, uint32_t first, size_t *bytes) {
  sstf_builder *builder;
  const void *block;
  char buffer[KEY_BYTES];
  sstf_builder_create(policy, file, SSTF_COMPACTION, KEYS, &builder, NULL);
  for (uint32_t i = 0; i < KEYS; i++) sstf_builder_add_key(builder, key(2 * (first + i), buffer), KEY_BYTES);
  CHECK(sstf_builder_estimated_bytes(builder) > 0);
  CHECK(sstf_builder_finish(builder, &block, bytes, NULL) == SSTF_OK);
  unsigned char *copy = (unsigned char *)malloc(*bytes);
  memcpy(copy, block, *bytes);
  CHECK(sstf_builder_finish(builder, &block, bytes, NULL) == SSTF_OK && !memcmp(copy, block, *bytes));
  sstf_builder_destroy(builder);
  return copy;
}

/* Checks that no function says of a key of the block that it is absent. */
static void has_all(const sstf_policy *policy, const sstf_filter *filter, uint32_t step, const char *kind, size_t at) {
  char buffer[KEY_BYTES], end[KEY_BYTES];
  for (uint32_t i = 0; i < KEYS; i += step) {
    uint64_t bits = 0, hash = sstf_policy_hash(policy, key(2 * i, buffer), KEY_BYTES);
    check(sstf_filter_may_contain(filter, buffer, KEY_BYTES), "a key is lost", kind, at);
    check(sstf_filter_may_contain_hash(filter, hash), "a hash is lost", kind, at);
    check(sstf_filter_may_contain_hashes(filter, &hash, 1, &bits) == 1 && bits == 1, "a batch loses a key", kind, at);
    check(sstf_filter_may_contain_prefix(filter, buffer, 1 + i % KEY_BYTES), "a prefix is lost", kind, at);
    check(sstf_filter_may_contain_range(filter, buffer, KEY_BYTES, key(2 * i + 3, end), KEY_BYTES), "a range is lost",
          kind, at);
  }
}

static void damage(const char *kind) {
  sstf_options options = options_of(kind);
  sstf_policy *policy = policy_of(&options);
  uint64_t file = sstf_file_id_random();
  size_t bytes;
  unsigned char *block = build(policy, file, 0, &bytes), *aligned = (unsigned char *)malloc(bytes + 64);
  sstf_filter *filter;
  sstf_error error;
  for (unsigned shift = 0; shift < 64; shift += 21) { /* any alignment */
    unsigned char *at = aligned + (64 - (uintptr_t)aligned % 64) % 64;
    if ((size_t)(at - aligned) + shift > 64) at = aligned;
    memcpy(at + shift, block, bytes);
    uint32_t flags = shift ? SSTF_BORROW : SSTF_COPY;
    CHECK(sstf_filter_open(policy, at + shift, bytes, file, flags, &filter, &error) == SSTF_OK);
    CHECK(error.status == SSTF_OK && error.message[0] == 0);
    if (!shift) memset(at, 0xee, bytes); /* it has a copy */
    has_all(policy, filter, 1, kind, shift);
    char buffer[KEY_BYTES];
    size_t found = 0;
    uint64_t hashes[KEYS], bits[(KEYS + 63) / 64];
    for (uint32_t i = 0; i < KEYS; i++) {
      hashes[i] = sstf_policy_hash(policy, key(2 * (KEYS + 1000 + i), buffer), KEY_BYTES);
      found += (size_t)sstf_filter_may_contain(filter, buffer, KEY_BYTES);
    }
    memset(bits, 0x55, sizeof bits);
    size_t in_batches = sstf_filter_may_contain_hashes(filter, hashes, KEYS, bits);
    check(found < KEYS / 5, "it excludes absent keys", kind, found);
    check(in_batches == (strstr(kind, "range") ? (size_t)KEYS : found), "batches differ", kind, in_batches);
    sstf_filter_close(filter);
  }
  size_t step = bytes > 4096 ? 997 : 1;
  for (size_t bit = 0; bit < bytes * 8; bit += step) {
    block[bit / 8] ^= (unsigned char)(1 << bit % 8);
    sstf_status status = sstf_filter_open(policy, block, bytes, file, SSTF_BORROW, &filter, &error);
    check(status != SSTF_OK && !filter, "a flip", kind, bit);
    if (bit % 101 == 0) has_all(policy, filter, 211, kind, bit);
    block[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  for (size_t cut = 0; cut < bytes; cut++) {
    const unsigned char *parts[] = {block, block + bytes - cut};
    for (int i = 0; i < 2; i++) {
      sstf_status status = sstf_filter_open(policy, parts[i], cut, file, SSTF_COPY, &filter, NULL);
      check(status != SSTF_OK && !filter, "a cut", kind, cut);
    }
  }
  CHECK(sstf_filter_open(policy, block, bytes, file + 1, SSTF_COPY, &filter, NULL) == SSTF_OTHER_FILE && !filter);
  CHECK(sstf_filter_open(policy, block, bytes, SSTF_UNBOUND, SSTF_COPY, &filter, NULL) == SSTF_OTHER_FILE && !filter);
  sstf_info info = SSTF_INFO_INIT;
  CHECK(sstf_block_info(block, bytes, &info, NULL) == SSTF_OK && info.file_id == file && info.keys == KEYS);
  CHECK(info.block_bytes == bytes && info.expected_fpr > 0 && info.expected_fpr < 0.1);
  CHECK(info.kind[0] && info.requested[0]);
  options.seed = 7; /* another hash: ordered ranges have none */
  sstf_policy *other = policy_of(&options);
  sstf_status status = sstf_filter_open(other, block, bytes, file, SSTF_COPY, &filter, NULL);
  CHECK(!strcmp(kind, "ordered-range") ? status == SSTF_OK : status == SSTF_OTHER_HASH && !filter);
  sstf_filter_close(filter);
  sstf_policy_destroy(other);
  sstf_policy_destroy(policy);
  free(block);
  free(aligned);
}

/* Unbound blocks whose bytes are passed with each key. */
static void raw_bytes(const char *kind) {
  sstf_options options = options_of(kind);
  sstf_policy *policy = policy_of(&options);
  size_t bytes;
  char buffer[KEY_BYTES];
  unsigned char *block = build(policy, SSTF_UNBOUND, 0, &bytes);
  int absent = 0;
  for (uint32_t i = 0; i < KEYS; i += 7) {
    check(sstf_block_may_contain(policy, block, bytes, key(2 * i, buffer), KEY_BYTES, 0), "raw", kind, i);
    check(sstf_block_may_contain(policy, block, bytes, buffer, KEY_BYTES, SSTF_TRUSTED), "trusted", kind, i);
    absent += !sstf_block_may_contain(policy, block, bytes, key(2 * (KEYS + i), buffer), KEY_BYTES, 0);
  }
  CHECK(strstr(kind, "range") ? absent == 0 : absent > 0);
  for (size_t bit = 0; bit < bytes * 8; bit += bytes > 4096 ? 997 : 7) {
    block[bit / 8] ^= (unsigned char)(1 << bit % 8);
    int may_contain = sstf_block_may_contain(policy, block, bytes, key(2 * (KEYS + 9), buffer), KEY_BYTES, 0);
    check(may_contain, "a flip in raw bytes", kind, bit);
    block[bit / 8] ^= (unsigned char)(1 << bit % 8);
  }
  sstf_policy_destroy(policy);
  free(block);
}

static void prefixes(void) {
  sstf_options options = options_of("bloom");
  options.prefix_bytes = 4;
  sstf_policy *both = policy_of(&options);
  options.only_prefixes = 1;
  sstf_policy *only = policy_of(&options);
  const sstf_policy *policies[] = {both, only};
  for (int i = 0; i < 2; i++) {
    size_t bytes;
    char buffer[KEY_BYTES], end[KEY_BYTES];
    unsigned char *block = build(policies[i], 5, 0, &bytes);
    sstf_filter *filter;
    CHECK(sstf_filter_open(policies[i], block, bytes, 5, SSTF_COPY, &filter, NULL) == SSTF_OK);
    has_all(policies[i], filter, 1, "prefixes", (size_t)i);
    int absent = 0, ranges = 0;
    for (uint32_t prefix = 4; prefix < 100; prefix++) {
      key(1000 * prefix, buffer);
      memcpy(end, buffer, 4);
      end[3]++;
      absent += !sstf_filter_may_contain_prefix(filter, buffer, 4);
      absent += !sstf_filter_may_contain_prefix(filter, buffer, 9);
      ranges += !sstf_filter_may_contain_range(filter, buffer, 4, end, 4);
      end[3]++; /* keys of another prefix, too */
      CHECK(sstf_filter_may_contain_range(filter, buffer, 4, end, 4));
      CHECK(sstf_filter_may_contain_range(filter, buffer, 4, NULL, 0));
      CHECK(sstf_filter_may_contain_prefix(filter, buffer, 3));
    }
    CHECK(absent > 160 && ranges > 80);
    sstf_filter_close(filter);
    /* Hashes bring no prefixes, so that nothing is known of these. */
    sstf_builder *builder;
    uint64_t bits = 0, hash = sstf_policy_hash(policies[i], "a", 1);
    uint64_t hashes[] = {sstf_policy_hash(policies[i], "b", 1), 0};
    sstf_builder_create(policies[i], 5, SSTF_FLUSH, 0, &builder, NULL);
    sstf_builder_add_hashes(builder, &hash, 1);
    const void *of_hashes;
    filter = NULL;
    if (sstf_builder_finish(builder, &of_hashes, &bytes, NULL) == SSTF_OK) {
      sstf_filter_open(policies[i], of_hashes, bytes, 5, SSTF_BORROW, &filter, NULL);
    }
    CHECK(sstf_filter_may_contain(filter, "a", 1) && sstf_filter_may_contain_prefix(filter, "abcd", 4));
    CHECK(sstf_filter_may_contain_hash(filter, 0)); /* what could not be hashed */
    CHECK(sstf_filter_may_contain_hashes(filter, hashes, 2, &bits) == 2);
    sstf_filter_close(filter);
    sstf_builder_destroy(builder);
    free(block);
  }
  sstf_policy_destroy(both);
  sstf_policy_destroy(only);
}

/* Prefixes that no key is above. */
static void highest_keys(void) {
  sstf_options options = options_of("ordered-range");
  sstf_policy *policy = policy_of(&options);
  sstf_builder *builder;
  sstf_filter *filter;
  const void *block;
  size_t bytes;
  sstf_builder_create(policy, SSTF_UNBOUND, SSTF_INGEST, 0, &builder, NULL);
  sstf_builder_add_key(builder, "a", 1);
  sstf_builder_add_key(builder, "\xff\xff", 2);
  CHECK(sstf_builder_finish(builder, &block, &bytes, NULL) == SSTF_OK);
  CHECK(sstf_filter_open(policy, block, bytes, SSTF_UNBOUND, SSTF_COPY, &filter, NULL) == SSTF_OK);
  CHECK(sstf_filter_may_contain_prefix(filter, "\xff", 1) && sstf_filter_may_contain_range(filter, "b", 1, NULL, 0));
  CHECK(sstf_filter_may_contain_range(filter, "b", 1, "", 0)); /* no upper end */
  CHECK(sstf_filter_may_contain_prefix(filter, NULL, 0));
  CHECK(!sstf_filter_may_contain_range(filter, "b", 1, "c", 1));
  CHECK(!sstf_filter_may_contain_range(filter, "b", 1, "a", 1));
  sstf_filter_close(filter);
  sstf_builder_destroy(builder);
  sstf_policy_destroy(policy);
}

static void sets(void) {
  enum { FILES = 70 };
  sstf_options options = options_of("auto");
  sstf_policy *policy = policy_of(&options);
  const void *blocks[FILES];
  size_t bytes[FILES], unusable;
  uint64_t files[FILES], bits[2];
  char buffer[KEY_BYTES];
  for (uint32_t i = 0; i < FILES; i++) {
    files[i] = sstf_file_id_random();
    blocks[i] = build(policy, files[i], i * KEYS, &bytes[i]);
  }
  ((unsigned char *)blocks[3])[9] ^= 1;
  files[4]++;
  free((void *)blocks[5]);
  blocks[5] = NULL;
  bytes[5] = 0;
  bytes[6]--;
  sstf_set *set;
  CHECK(sstf_set_open(policy, blocks, bytes, files, FILES, SSTF_COPY, &set, &unusable, NULL) == SSTF_OK);
  CHECK(unusable == 4);
  size_t matches = 0;
  for (uint32_t file = 0; file < FILES; file++) {
    for (uint32_t i = 0; i < KEYS; i += 31) {
      uint64_t hash = sstf_policy_hash(policy, key(2 * (file * KEYS + i), buffer), KEY_BYTES);
      size_t count = sstf_set_may_contain_hash(set, hash, bits, FILES);
      matches += count;
      CHECK(bits[file / 64] >> file % 64 & 1 && bits[0] >> 3 % 64 & 1 && !(bits[1] >> (FILES - 64)));
      CHECK(count == (size_t)(__builtin_popcountll(bits[0]) + __builtin_popcountll(bits[1])));
    }
  }
  CHECK(matches < (size_t)FILES * (KEYS / 31 + 1) * 8);
  CHECK(sstf_set_may_contain_hash(set, 1, bits, 3) == 3 && bits[0] == 7);
  CHECK(sstf_set_may_contain_hash(set, 0, bits, FILES) == FILES);
  CHECK(sstf_set_may_contain_hash(NULL, 1, bits, 128) == 128 && bits[0] == UINT64_MAX && bits[1] == UINT64_MAX);
  sstf_set_close(set);
  CHECK(sstf_set_open(policy, blocks, bytes, files, FILES, 99, &set, NULL, NULL) == SSTF_INVALID_ARGUMENT && !set);
  CHECK(sstf_set_open(policy, NULL, NULL, NULL, 0, SSTF_COPY, &set, NULL, NULL) == SSTF_OK);
  CHECK(sstf_set_may_contain_hash(set, 1, NULL, 0) == 0);
  sstf_set_close(set);
  CHECK(sstf_set_open(policy, NULL, bytes, files, FILES, 0, &set, NULL, NULL) == SSTF_INVALID_ARGUMENT && !set);
  for (int i = 0; i < FILES; i++) free((void *)blocks[i]);
  sstf_policy_destroy(policy);
}

/* Options that must be refused, each with a message. */
static void refused(void) {
  struct { sstf_options options; const char *what; } wrong[] = {
#define WRONG(set) {SSTF_OPTIONS_INIT, #set}
      WRONG(kind = "blom"), WRONG(rate = 2), WRONG(rate = nan), WRONG(rate < 0), WRONG(bits = 1e9), WRONG(both sizes),
      WRONG(only_prefixes), WRONG(reserved), WRONG(struct_size), WRONG(struct_size = 3), WRONG(secret seed of 0),
      WRONG(hash_tag and seed), WRONG(hashed range without integer), WRONG(integer of 9 bytes), WRONG(range of 0 units),
      WRONG(integer of a bloom), WRONG(hash_tag of ranges), WRONG(prefixes of ordered ranges), WRONG(bits of ranges),
      WRONG(only_prefixes of hashed ranges)};
  sstf_options *o[sizeof wrong / sizeof *wrong];
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) o[i] = &wrong[i].options;
  o[0]->kind = "blom"; o[1]->false_positive_rate = 2; o[2]->false_positive_rate = 0.0 / (double)(o[2]->seed != 0);
  o[3]->false_positive_rate = -1; o[4]->bits_per_key = 1e9; o[5]->false_positive_rate = 0.1; o[5]->bits_per_key = 9;
  o[6]->only_prefixes = 1; o[7]->reserved = 1; o[8]->struct_size++; o[9]->struct_size = 3; o[10]->seed_is_secret = 1;
  o[11]->hash_tag = o[11]->seed = 1; o[12]->kind = "hashed-range"; o[12]->longest_range = 9;
  o[13]->kind = "hashed-range"; o[13]->longest_range = 9; o[13]->integer_bytes = 9;
  o[14]->kind = "hashed-range"; o[14]->integer_bytes = 8; o[15]->integer_bytes = 8;
  o[16]->kind = "ordered-range"; o[16]->hash_tag = 1; o[17]->kind = "ordered-range"; o[17]->prefix_bytes = 4;
  o[18]->kind = "ordered-range"; o[18]->bits_per_key = 9;
  *o[19] = options_of("hashed-range"); o[19]->only_prefixes = 1;
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    sstf_policy *policy = (sstf_policy *)(uintptr_t)1;
    sstf_error error;
    sstf_status status = sstf_policy_create(o[i], &policy, &error);
    int is_refused = status == SSTF_INVALID_ARGUMENT && !policy && error.status == (int32_t)status && error.message[0];
    check(is_refused, wrong[i].what, "refused", i);
  }
  sstf_options older = SSTF_OPTIONS_INIT; /* a program that knows two fields, from memory that ends there */
  size_t *small = (size_t *)malloc(2 * sizeof(size_t));
  older.kind = "bloom";
  older.struct_size = 2 * sizeof(size_t);
  memcpy(small, &older, older.struct_size);
  sstf_policy *policy;
  CHECK(sstf_policy_create((sstf_options *)small, &policy, NULL) == SSTF_OK);
  free(small);
  sstf_policy_destroy(policy);
}

/* NULL and wrong orders of calls, by a program that ignores every status. */
static void misuse(void) {
  sstf_options options = options_of("auto");
  sstf_policy *policy;
  uint64_t bits = 0, hash = 1;
  const void *block;
  size_t bytes;
  sstf_builder *builder;
  sstf_filter *filter;
  unsigned char copy[1024];
  CHECK(sstf_abi_version() >= SSTF_ABI_VERSION && !strcmp(sstf_status_name(SSTF_DAMAGED), "damaged"));
  CHECK(sstf_status_name(-1) && sstf_status_name(1000) && sstf_file_id_random() != sstf_file_id_random());
  sstf_policy_destroy(NULL);
  sstf_builder_destroy(NULL);
  sstf_filter_close(NULL);
  sstf_set_close(NULL);
  sstf_builder_add_key(NULL, "a", 1);
  sstf_builder_add_hashes(NULL, &hash, 1);
  CHECK(sstf_policy_create(NULL, &policy, NULL) == SSTF_INVALID_ARGUMENT && !policy);
  CHECK(sstf_policy_create(&options, NULL, NULL) == SSTF_INVALID_ARGUMENT);
  policy = policy_of(&options);
  CHECK(sstf_builder_create(NULL, 1, SSTF_FLUSH, 0, &builder, NULL) == SSTF_INVALID_ARGUMENT && !builder);
  CHECK(sstf_builder_create(policy, 1, 9, 0, &builder, NULL) == SSTF_INVALID_ARGUMENT && !builder);
  CHECK(sstf_builder_create(policy, 0, SSTF_FLUSH, 0, &builder, NULL) == SSTF_INVALID_ARGUMENT && !builder);
  CHECK(sstf_filter_open(policy, "abcde", 5, 0, SSTF_COPY, &filter, NULL) == SSTF_INVALID_ARGUMENT && !filter);
  CHECK(sstf_builder_finish(NULL, &block, &bytes, NULL) == SSTF_INVALID_ARGUMENT && !block && !bytes);
  CHECK(sstf_builder_estimated_bytes(NULL) == 0 && sstf_policy_hash(NULL, "a", 1) == 0);
  CHECK(sstf_filter_open(policy, NULL, 5, 1, SSTF_COPY, &filter, NULL) == SSTF_INVALID_ARGUMENT && !filter);
  CHECK(sstf_filter_open(policy, "abcde", 5, 1, 99, &filter, NULL) == SSTF_INVALID_ARGUMENT && !filter);
  CHECK(sstf_filter_open(policy, "", SIZE_MAX, 1, SSTF_COPY, &filter, NULL) == SSTF_INVALID_ARGUMENT && !filter);
  CHECK(sstf_filter_may_contain(NULL, "a", 1) && sstf_filter_may_contain_hash(NULL, 1));
  CHECK(sstf_filter_may_contain_prefix(NULL, "a", 1) && sstf_filter_may_contain_range(NULL, "a", 1, "b", 1));
  CHECK(sstf_filter_may_contain_hashes(NULL, &hash, 1, &bits) == 1 && bits == 1);
  CHECK(sstf_block_may_contain(NULL, "", 0, "a", 1, 0) && sstf_block_may_contain(policy, NULL, 9, "a", 1, 0));
  CHECK(sstf_block_info("abc", 3, NULL, NULL) != SSTF_OK && sstf_block_info(NULL, 3, NULL, NULL) != SSTF_OK);
  /* Keys that cannot be added leave no filter; the empty key can. */
  uint64_t none = sstf_policy_hash(NULL, "a", 1);
  for (int i = 0; i < 5; i++) {
    sstf_builder_create(policy, 1, SSTF_FLUSH, 0, &builder, NULL);
    sstf_builder_add_key(builder, "a", 1);
    if (i == 4) sstf_builder_add_hashes(builder, &none, 1);
    if (i == 0) sstf_builder_add_key(builder, NULL, 1);
    if (i == 1) sstf_builder_add_hashes(builder, NULL, 1);
    if (i == 2) sstf_builder_finish(builder, &block, &bytes, NULL);
    if (i == 2) memcpy(copy, block, bytes);
    sstf_builder_add_key(builder, NULL, 0);
    CHECK(i != 2 || !memcmp(block, copy, bytes)); /* a block lives as long as its builder */
    sstf_status status = sstf_builder_finish(builder, &block, &bytes, NULL);
    CHECK(i == 3 ? status == SSTF_OK : status == SSTF_NO_FILTER && !block && !bytes);
    if (i == 3) {
      CHECK(sstf_filter_open(policy, block, bytes, 1, SSTF_BORROW, &filter, NULL) == SSTF_OK);
      CHECK(sstf_filter_may_contain(filter, NULL, 0) && sstf_filter_may_contain(filter, NULL, 7));
      CHECK(sstf_filter_may_contain(filter, "b", SIZE_MAX) && !sstf_filter_may_contain(filter, "b", 1));
      sstf_filter_close(filter);
    }
    sstf_builder_destroy(builder);
  }
  sstf_policy_destroy(policy);
  /* An engine's own hash: keys as bytes are refused where hashes are expected. */
  options.hash_tag = 77;
  policy = policy_of(&options);
  sstf_builder_create(policy, 1, SSTF_FLUSH, 0, &builder, NULL);
  sstf_builder_add_hashes(builder, &hash, 1);
  CHECK(sstf_builder_finish(builder, &block, &bytes, NULL) == SSTF_OK);
  CHECK(sstf_filter_open(policy, block, bytes, 1, SSTF_BORROW, &filter, NULL) == SSTF_OK);
  CHECK(sstf_filter_may_contain_hash(filter, 1) && !sstf_filter_may_contain_hash(filter, 0x123456789abcdef));
  CHECK(sstf_filter_may_contain(filter, "a", 1) && sstf_block_may_contain(policy, block, bytes, "a", 1, 0));
  CHECK(sstf_policy_hash(policy, "a", 1) == 0 && sstf_filter_may_contain_hash(filter, 0));
  sstf_filter_close(filter);
  sstf_builder_destroy(builder);
  sstf_builder_create(policy, 1, SSTF_FLUSH, 0, &builder, NULL);
  sstf_builder_add_key(builder, "a", 1);
  CHECK(sstf_builder_finish(builder, &block, &bytes, NULL) == SSTF_NO_FILTER);
  sstf_builder_destroy(builder);
  sstf_policy_destroy(policy);
}

static struct { const sstf_policy *policy; const sstf_filter *filter; const sstf_set *set; } shared;

static void *use_shared(void *thread) {
  for (int round = 0; round < 3; round++) {
    uint64_t bits;
    has_all(shared.policy, shared.filter, 1, "threads", (size_t)(uintptr_t)thread);
    CHECK(sstf_set_may_contain_hash(shared.set, sstf_policy_hash(shared.policy, "none", 4), &bits, 1) <= 1);
    size_t bytes;
    free(build(shared.policy, 8, 0, &bytes));
  }
  return NULL;
}

static void threads(void) {
  sstf_options options = options_of("auto");
  sstf_policy *policy = policy_of(&options);
  size_t bytes;
  uint64_t file = 8;
  unsigned char *block = build(policy, file, 0, &bytes);
  const void *blocks[] = {block};
  sstf_filter *filter;
  sstf_set *set;
  sstf_filter_open(policy, block, bytes, file, SSTF_BORROW, &filter, NULL);
  sstf_set_open(policy, blocks, &bytes, &file, 1, SSTF_BORROW, &set, NULL, NULL);
  shared.policy = policy;
  shared.filter = filter;
  shared.set = set;
  pthread_t running[8];
  for (uintptr_t i = 0; i < 8; i++) pthread_create(&running[i], NULL, use_shared, (void *)i);
  for (int i = 0; i < 8; i++) pthread_join(running[i], NULL);
  sstf_set_close(set);
  sstf_filter_close(filter);
  sstf_policy_destroy(policy);
  free(block);
}

int main(void) {
  for (size_t i = 0; i < KIND_COUNT; i++) {
    damage(KINDS[i]);
    raw_bytes(KINDS[i]);
  }
  prefixes();
  highest_keys();
  sets();
  refused();
  misuse();
  threads();
  printf("%d checks, %d faults\n", checks, faults);
  return faults != 0;
}
