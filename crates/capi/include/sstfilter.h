/* sstfilter.h: filter blocks for LSM storage engines.
 *
 * A filter says "absent", which is certain, or "may be present". Whatever goes wrong, the answer is "may be present": a
 * NULL filter or set answers it, a NULL builder builds nothing, and no function fails a read or a write. A program that
 * ignores every status loses no key, only speed.
 *
 *   sstf_options options = SSTF_OPTIONS_INIT;            // once per store
 *   sstf_policy *policy; sstf_error error;
 *   if (sstf_policy_create(&options, &policy, &error) != SSTF_OK) fail(error.message);
 *
 *   uint64_t file_id = sstf_file_id_random();            // once per file written: store the id and the block in it
 *   sstf_builder *builder; const void *block; size_t bytes;
 *   sstf_builder_create(policy, file_id, SSTF_COMPACTION, 0, &builder, NULL);
 *   for (each key, deleted ones too) sstf_builder_add_key(builder, key, length);
 *   if (sstf_builder_finish(builder, &block, &bytes, NULL) == SSTF_OK) store_block(block, bytes);
 *   sstf_builder_destroy(builder);                       // the block lives until here
 *
 *   sstf_filter *filter;                                 // once per file opened
 *   if (sstf_filter_open(policy, block, bytes, file_id, SSTF_COPY, &filter, &error) != SSTF_OK) log(error.message);
 *   if (!sstf_filter_may_contain(filter, key, length)) skip the file;
 *   sstf_filter_close(filter);
 *
 * Ownership. Each sstf_*_create or sstf_*_open has an sstf_*_destroy or sstf_*_close, which accepts NULL. The caller
 * frees nothing else. After an error, the out pointer is NULL. Filters and sets need their policy only to be opened.
 *
 * Threads. Any number of threads can use a policy, a filter or a set at once. A builder can move between threads, but
 * only one may use it at a time. Close an object when no other thread uses it. No function keeps state in a thread.
 *
 * Bytes. A key or a prefix is any bytes; NULL stands for the empty one if the length is 0. Keys are compared bytewise.
 *
 * Versions. New versions add functions, statuses, and fields at the end of sstf_options and sstf_info, which begin with
 * their size. Nothing is stable before version 1.0 of the library. */
#ifndef SSTFILTER_H
#define SSTFILTER_H

#include <stddef.h>
#include <stdint.h>

#define SSTF_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sstf_policy sstf_policy;   /* how keys are hashed, and which filters files get */
typedef struct sstf_builder sstf_builder; /* builds the filter of one file */
typedef struct sstf_filter sstf_filter;   /* the filter of one open file */
typedef struct sstf_set sstf_set;         /* the filters of many open files */

typedef enum sstf_status {
  SSTF_OK = 0,
  SSTF_INVALID_ARGUMENT = 1, /* an option out of range, or a NULL pointer */
  SSTF_NO_FILTER = 2,        /* no filter could be built or copied: write none, and always search the file */
  SSTF_NOT_A_BLOCK = 3,      /* the bytes do not end with a block of this kind, or are too short */
  SSTF_DAMAGED = 4,          /* a checksum, a length or a field is wrong */
  SSTF_UNKNOWN = 5,          /* a newer version, kind or hash */
  SSTF_OTHER_HASH = 6,       /* built with another hash, seed or prefix */
  SSTF_OTHER_FILE = 7,       /* bound to another file; bound or unbound where the reader expects the opposite */
  SSTF_PANIC = 8             /* a defect of the library */
} sstf_status;

/* Details of an error. Functions that return sstf_status fill it, also after success; pass NULL to do without. */
typedef struct sstf_error {
  int32_t status;
  char message[252]; /* UTF-8, ends with 0, truncated if longer */
} sstf_error;

/* Options of a policy. A store has one policy for filters of keys and, if it scans ranges, another one of ranges: each
 * file then has a block of both. Fields that do not apply to the kind must be 0. */
typedef struct sstf_options {
  size_t struct_size;         /* sizeof(sstf_options): SSTF_OPTIONS_INIT sets it */
  const char *kind;           /* of keys: NULL or "auto", Bloom for flushes and below 1,024 keys, else Ribbon; "bloom",
                                 "ribbon", "line-ribbon", "binary-fuse", "xor" and others.
                                 "ordered-range": for big-endian numbers, and ranges of any length. Of little use for
                                 digits, hexadecimal and other text: most ranges between two keys may be present.
                                 "hashed-range": for fixed-width integers after a prefix, ranges of a known length */
  double false_positive_rate; /* such as 0.01; 0: bits_per_key counts, and if it is 0, too, about 0.01 */
  double bits_per_key;        /* of the whole block; not for ranges */
  uint64_t seed;              /* of the hash; 0: the default seed */
  uint64_t hash_tag;          /* not 0: the engine hashes keys, and the tag stands for its hash and seed. The hash must
                                 be well mixed, such as XXH3. Call the functions for hashes, never those for keys */
  uint64_t longest_range;     /* "hashed-range": ranges of up to this many units have the rate */
  uint32_t seed_is_secret;    /* 1: blocks store only a fingerprint of the seed, for keys that others choose */
  uint32_t prefix_bytes;      /* not 0: filters of keys also hold prefixes of this length. "hashed-range": the length of
                                 the prefix before the integer; both ends of a range must share it */
  uint32_t only_prefixes;     /* 1: filters of keys hold prefixes, and no whole keys */
  uint32_t integer_bytes;     /* "hashed-range": bytes of the big-endian integer that ranges are counted in, 1 to 8 */
  uint32_t granularity_bits;  /* "hashed-range": a unit is 2^this of the integer */
  uint32_t reserved;
} sstf_options;

#define SSTF_OPTIONS_INIT {sizeof(sstf_options), NULL, 0.0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* What a block says of itself. */
typedef struct sstf_info {
  size_t struct_size;  /* sizeof(sstf_info): SSTF_INFO_INIT sets it */
  uint64_t keys;       /* distinct keys */
  uint64_t block_bytes;
  double expected_fpr; /* from 0 to 1. "hashed-range": of one unit; "ordered-range": far from keys, near them up to 1 */
  uint64_t file_id;    /* the file that it is bound to, or SSTF_UNBOUND */
  char kind[24];       /* "bloom", "ribbon", "ordered-range", ... */
  char requested[24];  /* differs from kind if the library fell back, such as to Bloom for few keys */
} sstf_info;

#define SSTF_INFO_INIT {sizeof(sstf_info), 0, 0, 0.0, 0, {0}, {0}}

enum { SSTF_FLUSH = 0, SSTF_COMPACTION = 1, SSTF_INGEST = 2 }; /* why a file is written: "auto" chooses by it */

enum {
  SSTF_BORROW = 0, /* the caller keeps the bytes unchanged until the object is closed; 64-byte alignment is fastest */
  SSTF_COPY = 1,   /* the object copies the bytes */
  SSTF_TRUSTED = 2 /* sstf_block_may_contain: the caller has verified the bytes by a checksum of its own */
};

/* The id of no file. Only for blocks whose place the engine verifies: an unbound block of another file is believed. */
#define SSTF_UNBOUND UINT64_MAX

/* Returns the library's version of this interface. Do not use a library with a smaller one than SSTF_ABI_VERSION. */
uint32_t sstf_abi_version(void);
/* Returns the name of a status, such as "damaged": a constant. */
const char *sstf_status_name(int32_t status);
/* Returns an id for a new file, which no other file has. File numbers are no ids: they come back after a crash. Returns
 * 0 if the system has no randomness; no file can have it. */
uint64_t sstf_file_id_random(void);

/* Creates a policy. Fails if an option is out of range, with a message that says what was expected. */
sstf_status sstf_policy_create(const sstf_options *options, sstf_policy **policy, sstf_error *error);
/* Destroys a policy. What was opened and created with it stays valid. */
void sstf_policy_destroy(sstf_policy *policy);
/* Returns the hash of a key, for the filters of all files of the store. Returns 0 if it cannot, and for policies with a
 * hash_tag. 0 stands for no hash: it may always be present, and a builder that gets it builds no filter. */
uint64_t sstf_policy_hash(const sstf_policy *policy, const void *key, size_t length);

/* Creates the builder of a file's filter. `file_id` is one of sstf_file_id_random, or SSTF_UNBOUND. `purpose` is
 * SSTF_FLUSH, SSTF_COMPACTION or SSTF_INGEST. `expected_keys` is an upper bound of the distinct keys, or 0 if it is
 * unknown; with far more keys, a Bloom filter excludes fewer or none. */
sstf_status sstf_builder_create(const sstf_policy *policy, uint64_t file_id, uint32_t purpose, uint64_t expected_keys,
                                sstf_builder **builder, sstf_error *error);
/* Adds a key. Add every key of the file, also those of tombstones and merge operands; repetitions are free. Filters of
 * ranges need keys in ascending order. A file with range tombstones must not get a filter, unless the engine looks for
 * them before it skips the file. If a key is out of order or cannot be added, there will be no filter. */
void sstf_builder_add_key(sstf_builder *builder, const void *key, size_t length);
/* Adds keys by their hashes: those of sstf_policy_hash, or the engine's own if the policy has a hash_tag. The filter
 * then holds no prefixes. */
void sstf_builder_add_hashes(sstf_builder *builder, const uint64_t *hashes, size_t count);
/* Returns how many bytes the block would have now, exactly or within 2 %; 0 if there will be none. */
uint64_t sstf_builder_estimated_bytes(const sstf_builder *builder);
/* Builds the block, which lives until the builder is destroyed. SSTF_NO_FILTER if there is none. Later calls return the
 * same block, unless a key was added in between: then there is no filter. A file without keys has a block, too. */
sstf_status sstf_builder_finish(sstf_builder *builder, const void **block, size_t *bytes, sstf_error *error);
/* Destroys a builder, and the block that it built. */
void sstf_builder_destroy(sstf_builder *builder);

/* Describes a block. Reads only its end, and does not verify the rest. Set info->struct_size before. */
sstf_status sstf_block_info(const void *block, size_t bytes, sstf_info *info, sstf_error *error);
/* Probes an unbound block of keys once, for engines that pass a filter's bytes with each key. Verifies the whole block
 * each time, in 9 ns for 64 bytes and 45 us for a MiB: open a large one once instead. With SSTF_TRUSTED, it verifies
 * nothing, and a flipped bit can lose many keys. Returns 0 if the key is absent, and 1 if it may be present or the
 * bytes are no such block. Fast for "bloom", "ribbon" and "line-ribbon". */
int sstf_block_may_contain(const sstf_policy *policy, const void *block, size_t bytes, const void *key, size_t length,
                           uint32_t flags);

/* Opens and verifies the block that fills `bytes`. `file_id` is the id that it was built for. `flags` is SSTF_BORROW or
 * SSTF_COPY. The policy must have the hash of the one that built it, and a kind of ranges for a filter of ranges. */
sstf_status sstf_filter_open(const sstf_policy *policy, const void *block, size_t bytes, uint64_t file_id,
                             uint32_t flags, sstf_filter **filter, sstf_error *error);
/* Closes a filter. */
void sstf_filter_close(sstf_filter *filter);
/* Returns 0 if the file does not have the key, and 1 if it may have it. */
int sstf_filter_may_contain(const sstf_filter *filter, const void *key, size_t length);
/* Like sstf_filter_may_contain, for a hash: of sstf_policy_hash, or the engine's own if the policy has a hash_tag. Only
 * filters of whole keys answer. */
int sstf_filter_may_contain_hash(const sstf_filter *filter, uint64_t hash);
/* Sets bit i % 64 of bits[i / 64] if the file may have key i, and clears the other bits of these words: one for each 64
 * hashes. The arrays must not overlap. Returns how many are set. */
size_t sstf_filter_may_contain_hashes(const sstf_filter *filter, const uint64_t *hashes, size_t count, uint64_t *bits);
/* Returns 0 if the file has no key that begins with `prefix`, and 1 if it may have one. Filters of keys answer if they
 * hold prefixes that are not longer than this one. */
int sstf_filter_may_contain_prefix(const sstf_filter *filter, const void *prefix, size_t length);
/* Returns 0 if the file has no key at or above `lower` and below `upper`, and 1 if it may have one. For a scan that
 * includes its last key, append a zero byte to it. If `upper` is NULL or empty, the range has no upper end. A range
 * whose `upper` is not above `lower` has no key. Filters of keys answer if `upper` is `lower` and a zero byte, or if
 * the range lies within one of their prefixes. */
int sstf_filter_may_contain_range(const sstf_filter *filter, const void *lower, size_t lower_length, const void *upper,
                                  size_t upper_length);

/* Opens the blocks of `count` files, of keys, to be probed together. Block i has bytes[i] bytes, and is that of
 * file_ids[i]; NULL with 0 bytes stands for none. A block that cannot be used matches every key, and is counted in
 * `unusable`, which can be NULL; sstf_filter_open says why. */
sstf_status sstf_set_open(const sstf_policy *policy, const void *const *blocks, const size_t *bytes,
                          const uint64_t *file_ids, size_t count, uint32_t flags, sstf_set **set, size_t *unusable,
                          sstf_error *error);
/* Closes a set. */
void sstf_set_close(sstf_set *set);
/* Sets bit i % 64 of bits[i / 64] if file i may have the key, and clears the other bits of these words: one for each 64
 * files. Returns how many are set. `count` is the number of files; if the set has another, all are set. */
size_t sstf_set_may_contain_hash(const sstf_set *set, uint64_t hash, uint64_t *bits, size_t count);

#ifdef __cplusplus
}
#endif
#endif
