// LevelDB with one filter of sstfilter for each table, without a patch of LevelDB. An example, not a product.
//
//   sst::TableFilterPolicy policy(1.0 / 128);                // both must outlive the database
//   sst::TableFilterEnv env(leveldb::Env::Default(), &policy);
//   options.filter_policy = &policy;
//   options.env = &env;                                      // without it, no table gets a filter
//
// LevelDB passes a policy the keys of 2 KiB of data at a time, and builds a filter block of all their filters in memory.
// It appends this block to the table's file at once:
//
//   LevelDB's  [filter 0] [filter 1] ...  [offset of each filter, u32] [where these begin, u32] [11: one for 2^11 bytes]
//   ours       [zeros] [block of all keys of the table] [its offset, u32] [its end, u32] [63]           the same length
//
// CreateFilter adds keys to the table's builder. It appends a marker, and as many zeros as the final block needs in
// addition to LevelDB's offsets. The Env's file recognizes the marker, writes our block, and corrects the checksum that
// follows. LevelDB's reader shifts the offset of a data block right by the last byte, so each data block has filter 0.
//
// What it depends on in LevelDB (checked with 1.23):
//  1. All calls of CreateFilter for a table pass the same `dst`, empty at first, and together all keys of the table.
//  2. A call comes right after an Append to the table's file by the same thread.
//  3. The filter block is one Append, uncompressed. The next one is its type and masked CRC32C, 5 bytes.
//  4. The reader takes the shift from the last byte, and answers true if the offsets begin past the end.
// If 2 or 3 does not hold, tables get no filter, and probes answer true. If a later version breaks 1 or 4, keys can be
// lost: run bench.cc with each version.
//
// Damage. By default, LevelDB does not verify filter blocks. KeyMayMatch does, once for each open table, and answers
// true if the block is damaged. It cannot see three things: several wrong bits in the last 9 bytes, which LevelDB's
// reader interprets (one bit loses no key); damaged index and metaindex blocks, which LevelDB does not verify by default
// either; and the intact block of another table, because KeyMayMatch does not know which table it answers for.
//
// Limits. Each filter is in memory twice: LevelDB's bytes and the verified copy. Keys are compared bytewise, so the
// comparator must not ignore bytes of keys. If values are far longer than 2 KiB, LevelDB's offsets, which become zeros,
// take more space than the filter. A probe holds one of 16 locks for a moment, as LevelDB's own caches do.
#ifndef SST_POLICY_H
#define SST_POLICY_H

#include <leveldb/env.h>
#include <leveldb/filter_policy.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "sstfilter.h"

namespace sst {

using leveldb::Slice;
using leveldb::Status;

// Length of the file to which this thread appended last: in CreateFilter, that of the table so far.
inline thread_local uint64_t last_file_bytes = 0;

inline void Put32(char* to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = static_cast<char>(value >> 8 * i);
}

// Returns what LevelDB writes after an uncompressed block: its type, 0, and the masked CRC32C of the block and the type.
inline std::string BlockTrailer(std::string block) {
  block.push_back(0);
  uint32_t crc = ~0u;
  for (unsigned char byte : block) {
    crc ^= byte;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
  }
  std::string trailer(5, '\0');
  Put32(&trailer[1], (~crc >> 15 | ~crc << 17) + 0xa282ead8);
  return trailer;
}

class TableFilterPolicy : public leveldb::FilterPolicy {
 public:
  // `max_open_files` is that of LevelDB's options.
  explicit TableFilterPolicy(double false_positive_rate, size_t max_open_files = 1000)
      : tag_(sstf_file_id_random()), max_opened_(max_open_files * 2 / kShards + 1) {
    sstf_options options = SSTF_OPTIONS_INIT;
    options.kind = "ribbon";
    options.false_positive_rate = false_positive_rate;
    // Without a policy, the library builds no filter, and each probe answers true.
    if (tag_ != 0 && sstf_abi_version() >= SSTF_ABI_VERSION) sstf_policy_create(&options, &policy_, nullptr);
  }
  ~TableFilterPolicy() override { sstf_policy_destroy(policy_); }

  const char* Name() const override { return "sstfilter.table"; }

  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    const std::shared_ptr<Table> table = dst->empty() ? Start(dst) : Find(*dst);
    if (table == nullptr) return;
    for (int i = 0; i < n; i++) sstf_builder_add_key(table->builder, keys[i].data(), keys[i].size());
    // LevelDB will append an offset for each call, and one for each 2 KiB of the table.
    const size_t offsets = std::max<size_t>(++table->calls, last_file_bytes >> kLevelDbShift);
    const size_t have = dst->size() + 4 * offsets + 5;
    // The library may estimate for 1/64 fewer keys, and Ribbon grows by 64 slots at a time.
    const size_t estimate = sstf_builder_estimated_bytes(table->builder);
    const size_t need = estimate + estimate / 64 + 128 + kTail;
    if (need > have) dst->append(need - have, '\0');
    table->reserved = dst->size();
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.empty()) return true;
    Shard& shard = shards_[reinterpret_cast<uintptr_t>(filter.data()) * 0x9e3779b97f4a7c15u >> 60];
    std::shared_ptr<const Opened> opened;
    {
      std::lock_guard<std::mutex> lock(shard.mutex);
      const auto found = shard.opened.find(filter.data());
      if (found != shard.opened.end() && found->second->IsOf(filter)) opened = found->second;
    }
    if (opened == nullptr) {
      opened = std::make_shared<Opened>(policy_, filter);
      if (opened->filter == nullptr) unusable_++;
      std::lock_guard<std::mutex> lock(shard.mutex);
      // LevelDB does not report closed tables. At twice as many as can be open, the open ones are verified again.
      if (shard.opened.size() >= max_opened_) shard.opened.clear();
      shard.opened[filter.data()] = opened;
    }
    return sstf_filter_may_contain(opened->filter, key.data(), key.size()) != 0;
  }

  // Returns whether the file appends the filter block of a table that CreateFilter has marked.
  bool IsFilterBlock(const Slice& data) const { return Find(data) != nullptr; }

  // Puts the table's filter into its filter block. Without `has_trailer`, something else followed the block.
  void Seal(std::string* block, bool has_trailer) const {
    const std::shared_ptr<Table> table = Find(*block);
    const size_t end = block->size() - kTail;
    std::string tail(5, kLevelDbShift);
    Put32(&tail[0], static_cast<uint32_t>(table == nullptr ? 0 : table->reserved));
    const bool is_expected = has_trailer && table != nullptr && block->compare(end + 4, 5, tail) == 0;
    const void* filter;
    size_t bytes;
    const bool fits =
        is_expected && sstf_builder_finish(table->builder, &filter, &bytes, nullptr) == SSTF_OK && bytes <= end;
    (fits ? tables_ : misfits_)++;
    if (!is_expected) return;  // what CreateFilter appended is no filter, so KeyMayMatch answers true
    std::fill(block->begin(), block->end(), '\0');
    Put32(&(*block)[end + 4], fits ? static_cast<uint32_t>(end) : ~0u);  // past the end: LevelDB answers true
    block->back() = kOurShift;
    if (fits) {
      Put32(&(*block)[end], static_cast<uint32_t>(end - bytes));
      std::memcpy(&(*block)[end - bytes], filter, bytes);
    }
    table->Clear();
  }

  uint64_t tables() const { return tables_; }      // written with a filter
  uint64_t misfits() const { return misfits_; }    // written without one
  uint64_t unusable() const { return unusable_; }  // filters that were damaged when a table was opened

 private:
  static constexpr size_t kTail = 9, kShards = 16, kMaxTables = 64;
  static constexpr char kLevelDbShift = 11, kOurShift = 63;  // with any bit of 63 flipped, filter 0 serves 2 GiB

  struct Table {  // that is being written
    ~Table() { Clear(); }
    void Clear() { sstf_builder_destroy(std::exchange(builder, nullptr)); }
    std::string marker;
    sstf_builder* builder = nullptr;
    size_t calls = 0, reserved = 0;
  };

  // A verified copy of a filter, NULL if it cannot be used. LevelDB may open another table, or this one damaged, at the
  // address of a closed one. So an entry also has the last bytes of the block: its trailer with two CRC32C, and the end
  // of the payload, because 32 bits could be those of two tables. If they are equal, the copy is what was written.
  struct Opened {
    Opened(const sstf_policy* policy, const Slice& block) : bytes(block.size()), end(End(block).ToString()) {
      // Unbound: LevelDB does not tell a policy which table it is for.
      sstf_filter_open(policy, block.data(), bytes, SSTF_UNBOUND, SSTF_COPY, &filter, nullptr);
    }
    ~Opened() { sstf_filter_close(filter); }
    bool IsOf(const Slice& block) const { return block.size() == bytes && End(block) == Slice(end); }
    static Slice End(Slice block) {
      if (block.size() > 96) block.remove_prefix(block.size() - 96);
      return block;
    }
    const size_t bytes;
    const std::string end;
    sstf_filter* filter = nullptr;
  };

  struct Shard {
    std::mutex mutex;
    std::unordered_map<const char*, std::shared_ptr<const Opened>> opened;
  };

  // Marks `dst` in any case: if it stayed empty, the next call would begin a filter that lacks these keys.
  std::shared_ptr<Table> Start(std::string* dst) const {
    auto table = std::make_shared<Table>();
    const uint64_t marker[2] = {tag_, ++markers_};
    dst->assign(reinterpret_cast<const char*>(marker), sizeof marker);
    table->marker = *dst;
    sstf_builder_create(policy_, SSTF_UNBOUND, SSTF_COMPACTION, 0, &table->builder, nullptr);
    std::lock_guard<std::mutex> lock(mutex_);
    if (writing_.size() >= kMaxTables) writing_.pop_front();  // LevelDB does not report tables that it abandons
    writing_.push_back(table);
    return table;
  }

  // Returns the table whose marker these bytes begin with, or null.
  std::shared_ptr<Table> Find(const Slice& bytes) const {
    if (!bytes.starts_with(Slice(reinterpret_cast<const char*>(&tag_), sizeof tag_))) return nullptr;
    std::lock_guard<std::mutex> lock(mutex_);
    for (const std::shared_ptr<Table>& table : writing_) {
      if (bytes.starts_with(table->marker)) return table;
    }
    return nullptr;
  }

  sstf_policy* policy_ = nullptr;
  const uint64_t tag_;  // random, begins all markers: no key or value is taken for a filter block
  const size_t max_opened_;
  mutable std::mutex mutex_;
  mutable std::deque<std::shared_ptr<Table>> writing_;
  mutable std::array<Shard, kShards> shards_;
  mutable std::atomic<uint64_t> tables_{0}, misfits_{0}, unusable_{0}, markers_{0};
};

class TableFilterEnv : public leveldb::EnvWrapper {
 public:
  TableFilterEnv(leveldb::Env* base, const TableFilterPolicy* policy) : EnvWrapper(base), policy_(policy) {}

  Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    const Status status = target()->NewWritableFile(name, file);
    if (status.ok()) *file = new File(*file, policy_);
    return status;
  }

 private:
  class File : public leveldb::WritableFile {
   public:
    File(leveldb::WritableFile* base, const TableFilterPolicy* policy) : base_(base), policy_(policy) {}

    Status Append(const Slice& data) override {
      if (held_.empty()) {
        if (!policy_->IsFilterBlock(data)) return Write(data);
        held_ = data.ToString();  // until its trailer comes
        return Status::OK();
      }
      const bool has_trailer = data == Slice(BlockTrailer(held_));
      policy_->Seal(&held_, has_trailer);
      const std::string next = has_trailer ? BlockTrailer(held_) : data.ToString();
      const Status status = WriteHeld();
      return status.ok() ? Write(next) : status;
    }
    Status Close() override {
      const Status status = WriteHeld();
      return status.ok() ? base_->Close() : status;
    }
    Status Flush() override { return base_->Flush(); }
    Status Sync() override { return base_->Sync(); }

   private:
    Status Write(const Slice& data) {
      last_file_bytes = bytes_ += data.size();
      return base_->Append(data);
    }
    Status WriteHeld() {
      const Status status = held_.empty() ? Status::OK() : Write(held_);
      held_.clear();
      return status;
    }

    const std::unique_ptr<leveldb::WritableFile> base_;
    const TableFilterPolicy* const policy_;
    std::string held_;
    uint64_t bytes_ = 0;
  };

  const TableFilterPolicy* const policy_;
};

}  // namespace sst
#endif
