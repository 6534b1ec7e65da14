// LevelDB with one filter of sstfilter for each table, without a patch of LevelDB. An example, not a product.
//
//   sst::TableFilters filters(leveldb::Env::Default(), 1.0 / 128);  // must outlive the database
//   options.filter_policy = &filters;
//   options.env = &filters;
//
// LevelDB passes a policy the keys of 2 KiB of data at a time, collects their filters in memory, and appends all of
// them to the table's file at once. Our file puts a single filter there, in the same length:
//
//   LevelDB's  [filter 0] [filter 1] ... [offset of each filter, u32] [where these begin, u32] [11: one per 2^11 bytes]
//   ours       [zeros] [block of all keys of the table] [its offset, u32] [its end, u32] [63]
//
// CreateFilter adds keys to the table's builder. It appends a marker, by which the file recognizes the filter block,
// and as many zeros as our block needs in addition to LevelDB's offsets. The file corrects the checksum that follows.
// LevelDB's reader shifts the offset of a data block right by the last byte, so each data block has filter 0.
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
// reader interprets (one bit loses no key); damaged index and metaindex blocks, which LevelDB does not verify by
// default either; and the intact block of another table, because KeyMayMatch does not know the table.
//
// Limits. Each filter is in memory twice: LevelDB's bytes and the verified copy. The comparator must not ignore bytes
// of keys. If values are far longer than 2 KiB, LevelDB's offsets, which become zeros, are longer than the filter.
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

#include "sstfilter.h"

namespace sst {

using leveldb::Slice;
using leveldb::Status;

// Length of the file to which this thread appended last: in CreateFilter, that of the table so far.
inline thread_local uint64_t last_file_bytes = 0;

inline void Put32(char* to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = static_cast<char>(value >> 8 * i);
}

// Returns what LevelDB writes after an uncompressed block: its type, 0, and the masked CRC32C of block and type.
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

class TableFilters : public leveldb::FilterPolicy, public leveldb::EnvWrapper {
 public:
  TableFilters(leveldb::Env* base, double false_positive_rate) : EnvWrapper(base) {
    sstf_options options = SSTF_OPTIONS_INIT;
    options.kind = "ribbon";
    options.false_positive_rate = false_positive_rate;
    // Without a policy, the library builds no filter, and each probe answers true.
    if (tag_ != 0 && sstf_abi_version() >= SSTF_ABI_VERSION) sstf_policy_create(&options, &policy_, nullptr);
  }
  ~TableFilters() override { sstf_policy_destroy(policy_); }

  const char* Name() const override { return "sstfilter.table"; }

  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    const std::shared_ptr<Table> table = dst->empty() ? Start(dst) : Find(*dst);
    if (table == nullptr) return;
    for (int i = 0; i < n; i++) sstf_builder_add_key(table->builder.get(), keys[i].data(), keys[i].size());
    // LevelDB will append an offset for each call, and one for each 2 KiB of the table.
    const size_t offsets = std::max<size_t>(++table->calls, last_file_bytes >> kLevelDbShift);
    const size_t have = dst->size() + 4 * offsets + 5;
    // The library may estimate for 1/64 fewer keys, and Ribbon grows by 64 slots at a time.
    const size_t estimate = sstf_builder_estimated_bytes(table->builder.get());
    const size_t need = estimate + estimate / 64 + 128 + kTail;
    if (need > have) dst->append(need - have, '\0');
    table->reserved = dst->size();
  }

  bool KeyMayMatch(const Slice& key, const Slice& filter) const override {
    if (filter.empty()) return true;
    const size_t shard = reinterpret_cast<uintptr_t>(filter.data()) * 0x9e3779b97f4a7c15u >> 60;
    std::shared_ptr<const Opened> opened;
    {
      std::lock_guard<std::mutex> lock(opened_mutexes_[shard]);
      const auto found = opened_[shard].find(filter.data());
      if (found != opened_[shard].end() && found->second->IsOf(filter)) opened = found->second;
    }
    if (opened == nullptr) {
      opened = std::make_shared<Opened>(policy_, filter);
      if (opened->filter == nullptr) unusable_++;
      std::lock_guard<std::mutex> lock(opened_mutexes_[shard]);
      if (opened_[shard].size() >= kMaxOpened) opened_[shard].clear();  // LevelDB does not report closed tables
      opened_[shard][filter.data()] = opened;
    }
    return sstf_filter_may_contain(opened->filter, key.data(), key.size()) != 0;
  }

  Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    const Status status = target()->NewWritableFile(name, file);
    if (status.ok()) *file = new File(*file, this);
    return status;
  }

  uint64_t tables() const { return tables_; }      // written with a filter
  uint64_t misfits() const { return misfits_; }    // written without one
  uint64_t unusable() const { return unusable_; }  // filters that were damaged when they were first probed

 private:
  static constexpr size_t kTail = 9, kMaxWriting = 64;
  // Per shard. In all, twice as many as LevelDB's tables with the default max_open_files.
  static constexpr size_t kShards = 16, kMaxOpened = 128;
  static constexpr char kLevelDbShift = 11, kOurShift = 63;  // with any bit of 63 flipped, filter 0 serves 2 GiB

  class File : public leveldb::WritableFile {
   public:
    File(leveldb::WritableFile* base, const TableFilters* filters) : base_(base), filters_(filters) {}

    Status Append(const Slice& data) override {
      if (held_.empty()) {
        if (filters_->Find(data) == nullptr) return Write(data);
        held_ = data.ToString();  // until its trailer comes
        return Status::OK();
      }
      std::string block, trailer = BlockTrailer(held_);
      block.swap(held_);
      const bool has_trailer = data == Slice(trailer);
      filters_->Seal(&block, has_trailer);
      if (has_trailer) trailer = BlockTrailer(block);
      const Status status = Write(block);
      return status.ok() ? Write(has_trailer ? Slice(trailer) : data) : status;
    }
    Status Close() override {
      const Status status = held_.empty() ? Status::OK() : Write(held_);
      return status.ok() ? base_->Close() : status;
    }
    Status Flush() override { return base_->Flush(); }
    Status Sync() override { return base_->Sync(); }

   private:
    Status Write(const Slice& data) {
      last_file_bytes = bytes_ += data.size();
      return base_->Append(data);
    }

    const std::unique_ptr<leveldb::WritableFile> base_;
    const TableFilters* const filters_;
    std::string held_;
    uint64_t bytes_ = 0;
  };

  struct Table {  // that is being written
    std::string marker;
    std::unique_ptr<sstf_builder, decltype(&sstf_builder_destroy)> builder{nullptr, sstf_builder_destroy};
    size_t calls = 0, reserved = 0;
  };

  // A verified copy of a filter, NULL if it cannot be used. LevelDB may open another table, or this one damaged, at the
  // address of a closed one. So an entry also has the last bytes of the block: its trailer with two CRC32C, and the end
  // of the payload, because 32 bits could be those of two tables. If they are equal, the copy is what was written. If a
  // block could not be used, and an intact one with this end comes to its address, its probes answer true, too.
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

  // Marks `dst` in any case: if it stayed empty, the next call would begin a filter that lacks these keys.
  std::shared_ptr<Table> Start(std::string* dst) const {
    auto table = std::make_shared<Table>();
    const uint64_t marker[2] = {tag_, ++markers_};
    dst->assign(reinterpret_cast<const char*>(marker), sizeof marker);
    table->marker = *dst;
    sstf_builder* builder;
    sstf_builder_create(policy_, SSTF_UNBOUND, SSTF_COMPACTION, 0, &builder, nullptr);
    table->builder.reset(builder);
    std::lock_guard<std::mutex> lock(writing_mutex_);
    if (writing_.size() >= kMaxWriting) writing_.pop_front();  // LevelDB does not report tables that it abandons
    writing_.push_back(table);
    return table;
  }

  // Returns the table whose marker these bytes begin with, or null.
  std::shared_ptr<Table> Find(const Slice& bytes) const {
    if (!bytes.starts_with(Slice(reinterpret_cast<const char*>(&tag_), sizeof tag_))) return nullptr;
    std::lock_guard<std::mutex> lock(writing_mutex_);
    for (const std::shared_ptr<Table>& table : writing_) {
      if (bytes.starts_with(table->marker)) return table;
    }
    return nullptr;
  }

  // Puts the table's filter into its filter block. Without `has_trailer`, something else followed the block.
  void Seal(std::string* block, bool has_trailer) const {
    const std::shared_ptr<Table> table = Find(*block);
    std::string tail(5, kLevelDbShift);
    Put32(&tail[0], table == nullptr ? 0 : static_cast<uint32_t>(table->reserved));
    const size_t end = block->size() - kTail;
    const bool is_expected = has_trailer && table != nullptr && block->compare(end + 4, 5, tail) == 0;
    const void* filter;
    size_t bytes;
    const bool fits =
        is_expected && sstf_builder_finish(table->builder.get(), &filter, &bytes, nullptr) == SSTF_OK && bytes <= end;
    (fits ? tables_ : misfits_)++;
    if (!is_expected) return;  // what CreateFilter appended is no filter, so KeyMayMatch answers true
    std::fill(block->begin(), block->end(), '\0');
    Put32(&(*block)[end], fits ? static_cast<uint32_t>(end - bytes) : 0);
    Put32(&(*block)[end + 4], fits ? static_cast<uint32_t>(end) : ~0u);  // past the end: LevelDB answers true
    block->back() = kOurShift;
    if (fits) std::memcpy(&(*block)[end - bytes], filter, bytes);
    table->builder.reset();
  }

  sstf_policy* policy_ = nullptr;
  const uint64_t tag_ = sstf_file_id_random();  // begins all markers, so that no key or value is taken for one
  mutable std::mutex writing_mutex_;
  mutable std::deque<std::shared_ptr<Table>> writing_;
  mutable std::array<std::mutex, kShards> opened_mutexes_;
  mutable std::array<std::unordered_map<const char*, std::shared_ptr<const Opened>>, kShards> opened_;
  mutable std::atomic<uint64_t> tables_{0}, misfits_{0}, unusable_{0}, markers_{0};
};

}  // namespace sst
#endif
