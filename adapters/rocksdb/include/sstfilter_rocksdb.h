// sstfilter_rocksdb.h: iterators of unmodified RocksDB skip tables without a key in their range.
//
// A table is skipped as a whole, with its tombstones. That is sound only because a filter here has every entry of its
// table, deletions and merge operands as well, because a table with range tombstones gets none, and because an iterator
// cannot leave the range that tables were probed for: RangeOptions sets its bounds together with the callback.
//
//   sstf_options kind = SSTF_OPTIONS_INIT;                // keys of 16 bytes: user, time; ranges of up to 1,000 units
//   kind.kind = "hashed-range"; kind.prefix_bytes = 8; kind.integer_bytes = 8; kind.longest_range = 1000;
//   std::shared_ptr<sstfilter::TableFilter> filter;
//   rocksdb::Status s = sstfilter::TableFilter::Create(kind, "user-times", &filter);
//   if (s.ok()) s = filter->AddTo(&column_family_options);                                  // before the DB is opened
//   if (!s.ok()) return s;
//   std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(filter->RangeOptions(lower, upper), column_family));
//   for (it->Seek(lower); it->Valid(); it->Next()) ...                                      // or SeekForPrev and Prev
//
// Use these options for one range, and not with NewMultiScan, which sets bounds of its own.
#ifndef SSTFILTER_ROCKSDB_H
#define SSTFILTER_ROCKSDB_H

#include <rocksdb/comparator.h>
#include <rocksdb/options.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/version.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "sstfilter.h"

namespace sstfilter {
// The filters of one kind in the tables of a column family, or of several: of ranges, or of keys with prefixes. Any
// number of threads can use one. Filters of different kinds stand beside each other in a table, under their names.
class TableFilter : public std::enable_shared_from_this<TableFilter> {
 public:
  struct Stats {
    uint64_t without_filter = 0;  // tables from before, or with range tombstones
    uint64_t unusable = 0;        // tables whose filter is damaged, or of another seed, prefix or kind
    uint64_t probed = 0;          // tables with a filter that could be used
    uint64_t skipped = 0;         // those of them that had no key in the range
    uint64_t opened = 0;          // filters copied and verified: if it keeps growing, cache_bytes is too small
  };

  // Options of one range. Nobody can change them, because the callback owns the bounds: pass others as `base`.
  struct FixedOptions {
    const rocksdb::ReadOptions options;
    operator const rocksdb::ReadOptions&() const { return options; }
  };

  // Creates filters with these options. Tables keep them under `name`. Filters in use stay in memory, up to
  // `cache_bytes`, beside the copies in RocksDB: with less, each iterator copies and verifies them again.
  static rocksdb::Status Create(const sstf_options& options, const std::string& name,
                                std::shared_ptr<TableFilter>* filter, size_t cache_bytes = size_t{256} << 20) {
    sstf_policy* policy;
    sstf_error error;
    if (sstf_abi_version() < SSTF_ABI_VERSION) return rocksdb::Status::NotSupported("libsstfilter is too old");
    if (options.hash_tag != 0) return rocksdb::Status::InvalidArgument("hash_tag: the library hashes RocksDB's keys");
    // A '#' or a newline would keep RocksDB from writing OPTIONS files, and it would not report that.
    const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const bool is_name = !name.empty() && name.find_first_not_of(letters) == std::string::npos;
    if (!is_name) return rocksdb::Status::InvalidArgument("name: expected letters, digits, '-' and '_', got", name);
    if (sstf_policy_create(&options, &policy, &error)) return rocksdb::Status::InvalidArgument(error.message);
    filter->reset(new TableFilter(policy, "sstfilter." + name, cache_bytes));
    return rocksdb::Status::OK();
  }
  ~TableFilter() { sstf_policy_destroy(policy_); }

  // Has tables carry filters. Refuses comparators other than the bytewise ones, without timestamps or with 64-bit ones.
  rocksdb::Status AddTo(rocksdb::ColumnFamilyOptions* options) {
    const char* name = options->comparator->Name();
    const int bytes = TimestampBytes(name);
    if (bytes < 0) return rocksdb::Status::InvalidArgument("expected a bytewise comparator, got", name);
    auto& factories = options->table_properties_collector_factories;
    for (const auto& other : factories)
      if (other->Name() == property_) return rocksdb::Status::InvalidArgument("two filters have the name", property_);
    factories.push_back(std::make_shared<Factory>(shared_from_this(), static_cast<size_t>(bytes)));
    return rocksdb::Status::OK();
  }

  // Returns options for an iterator over the keys from `lower` to before `upper`, or to the end if that is empty, both
  // without timestamps. They are copied. The bounds and the callback of `base` stay in force: filters can be combined.
  FixedOptions RangeOptions(const rocksdb::Slice& lower, const rocksdb::Slice& upper,
                            const rocksdb::ReadOptions& base = {}) {
    return {Options(lower.ToString(), upper.ToString(), base)};
  }

  // Returns options for an iterator over the keys that begin with `prefix`.
  FixedOptions PrefixOptions(const rocksdb::Slice& prefix, const rocksdb::ReadOptions& base = {}) {
    std::string upper = prefix.ToString();
    while (!upper.empty() && upper.back() == '\xff') upper.pop_back();
    if (!upper.empty()) upper.back() = static_cast<char>(upper.back() + 1);
    return {Options(prefix.ToString(), std::move(upper), base)};
  }

  Stats stats() const { return {without_filter_, unusable_, probed_, skipped_, opened_}; }
 private:
  struct Bounds {
    const std::string from, to;
    const rocksdb::Slice lower{from}, upper{to};
  };
  // A property: one byte with the length of the timestamps that keys had, eight with the table's id, and the block.
  static constexpr size_t kHeaderBytes = 9;

  struct Collector : rocksdb::TablePropertiesCollector {
    Collector(std::shared_ptr<TableFilter> filter, size_t timestamp_bytes)
        : filter_(std::move(filter)), timestamp_bytes_(timestamp_bytes), id_(sstf_file_id_random()) {
      sstf_builder_create(filter_->policy_, id_, SSTF_COMPACTION, 0, &builder_, nullptr);
    }
    ~Collector() override { sstf_builder_destroy(builder_); }

    rocksdb::Status AddUserKey(const rocksdb::Slice& key, const rocksdb::Slice&, rocksdb::EntryType type,
                               rocksdb::SequenceNumber, uint64_t) override {
      is_refused_ = is_refused_ || type == rocksdb::kEntryRangeDeletion || key.size() < timestamp_bytes_;
      if (!is_refused_) sstf_builder_add_key(builder_, key.data(), key.size() - timestamp_bytes_);
      return rocksdb::Status::OK();
    }

    // RocksDB calls this twice for a table.
    rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
      const void* block = nullptr;
      size_t bytes = 0;
      if (is_refused_ || sstf_builder_finish(builder_, &block, &bytes, nullptr)) return rocksdb::Status::OK();
      std::string value(1, static_cast<char>(timestamp_bytes_));
      for (int shift = 0; shift < 64; shift += 8) value.push_back(static_cast<char>(id_ >> shift));
      value.append(static_cast<const char*>(block), bytes);
      (*properties)[filter_->property_] = std::move(value);
      return rocksdb::Status::OK();
    }

    rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
    const char* Name() const override { return filter_->property_.c_str(); }
    const std::shared_ptr<TableFilter> filter_;
    const size_t timestamp_bytes_;
    const uint64_t id_;
    sstf_builder* builder_ = nullptr;
    bool is_refused_ = false;
  };

  struct Factory : rocksdb::TablePropertiesCollectorFactory {
    Factory(std::shared_ptr<TableFilter> filter, size_t timestamp_bytes)
        : filter_(std::move(filter)), timestamp_bytes_(timestamp_bytes) {}
    rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context) override {
      return new Collector(filter_, timestamp_bytes_);
    }
    const char* Name() const override { return filter_->property_.c_str(); }
    const std::shared_ptr<TableFilter> filter_;
    const size_t timestamp_bytes_;
  };

  using OpenFilter = std::shared_ptr<sstf_filter>;
  struct Cached {
    std::string end;  // of the block, with its checksums and its table's id
    OpenFilter filter;
    size_t bytes;
  };

  TableFilter(sstf_policy* policy, std::string name, size_t bytes)
      : policy_(policy), property_(std::move(name)), cache_bytes_(bytes) {}

  rocksdb::ReadOptions Options(std::string from, std::string to, const rocksdb::ReadOptions& base) {
    // A callback of `base` probes tables for the bounds of `base` only.
    const rocksdb::Slice *lower = base.iterate_lower_bound, *upper = base.iterate_upper_bound;
    if (lower != nullptr && lower->compare(from) > 0) from = lower->ToString();
    const bool has_upper = upper != nullptr || !to.empty();
    if (upper != nullptr && (to.empty() || upper->compare(to) < 0)) to = upper->ToString();
    std::shared_ptr<const Bounds> bounds(new Bounds{std::move(from), std::move(to)});
    rocksdb::ReadOptions options = base;
    options.iterate_lower_bound = &bounds->lower;
    options.iterate_upper_bound = has_upper ? &bounds->upper : nullptr;
    // Every copy of the options has the callback, also the iterator's own, and so keeps the bounds alive.
    options.table_filter = [self = shared_from_this(), bounds = std::move(bounds),
                            first = base.table_filter](const rocksdb::TableProperties& table) {
      return (!first || first(table)) && self->MayContain(table, *bounds);
    };
    return options;
  }

  // Returns the length of timestamps in keys; -1 for a comparator of another order.
  static int TimestampBytes(const std::string& comparator) {
    return comparator == "leveldb.BytewiseComparator" ? 0 : comparator == "leveldb.BytewiseComparator.u64ts" ? 8 : -1;
  }

  bool MayContain(const rocksdb::TableProperties& table, const Bounds& bounds) {
    const auto property = table.user_collected_properties.find(property_);
    if (property == table.user_collected_properties.end() || table.num_range_deletions > 0) {
      without_filter_++;
      return true;
    }
    const std::string& value = property->second;
    const int timestamp_bytes = TimestampBytes(table.comparator_name);
    bool is_known = timestamp_bytes >= 0 && value.size() > kHeaderBytes && value[0] == timestamp_bytes;
#if ROCKSDB_MAJOR >= 9
    is_known = is_known && (timestamp_bytes == 0 || table.user_defined_timestamps_persisted != 0);
#endif
    const OpenFilter filter = is_known ? Open(value) : nullptr;
    const rocksdb::Slice &lower = bounds.lower, &upper = bounds.upper;  // an empty upper end is none
    const bool may_contain =
        sstf_filter_may_contain_range(filter.get(), lower.data(), lower.size(), upper.data(), upper.size());
    (filter ? probed_ : unusable_)++;
    if (!may_contain) skipped_++;
    return may_contain;
  }

  // Returns the filter of a property, verified and from the cache; null if it cannot be used, which is cached as well.
  OpenFilter Open(const std::string& value) {
    std::string end = value.substr(value.size() > 80 ? value.size() - 80 : 0);
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = by_end_.find(end);
    if (found != by_end_.end()) {
      cached_.splice(cached_.begin(), cached_, found->second);
      return found->second->filter;
    }
    lock.unlock();
    uint64_t id = 0;
    for (int byte = 8; byte > 0; byte--) id = id << 8 | static_cast<unsigned char>(value[byte]);
    sstf_filter* opened = nullptr;
    const size_t bytes = value.size() - kHeaderBytes;
    sstf_filter_open(policy_, value.data() + kHeaderBytes, bytes, id, SSTF_COPY, &opened, nullptr);
    OpenFilter filter(opened, sstf_filter_close);
    opened_++;
    lock.lock();
    if (by_end_.count(end) == 0) {
      cached_.push_front({end, filter, value.size()});
      by_end_[std::move(end)] = cached_.begin();
      used_bytes_ += value.size();
    }
    while (used_bytes_ > cache_bytes_ && !cached_.empty()) {
      used_bytes_ -= cached_.back().bytes;
      by_end_.erase(cached_.back().end);
      cached_.pop_back();
    }
    return filter;
  }

  sstf_policy* const policy_;
  const std::string property_;
  const size_t cache_bytes_;
  std::mutex mutex_;
  std::list<Cached> cached_;  // the one used last first
  std::unordered_map<std::string, std::list<Cached>::iterator> by_end_;
  size_t used_bytes_ = 0;
  std::atomic<uint64_t> without_filter_{0}, unusable_{0}, probed_{0}, skipped_{0}, opened_{0};
};

}  // namespace sstfilter
#endif
