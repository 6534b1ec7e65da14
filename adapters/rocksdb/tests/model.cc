// model SCANS SEED: scans of RocksDB with filters, compared with a model row by row.
//
// A filter that lacks one entry of a table loses rows, or brings back rows that were deleted: silently, and only if the
// table is skipped. So random operations of many kinds write tables with filters, with none and with foreign ones, and
// each scan is compared with a map of all versions. Fails if a scan is wrong, and if nothing was skipped.
#include <rocksdb/compaction_filter.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/checkpoint.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "sstfilter_rocksdb.h"

using namespace rocksdb;  // NOLINT
using sstfilter::TableFilter;
using FilterPtr = std::shared_ptr<TableFilter>;
using IteratorPtr = std::unique_ptr<Iterator>;

static void Check(const Status& status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

static void Expect(bool is_true, const char* what) { Check(is_true ? Status::OK() : Status::Aborted("not so"), what); }

struct Random {
  std::mt19937_64 engine;
  uint64_t Below(uint64_t limit) { return engine() % limit; }
  bool Percent(unsigned percent) { return Below(100) < percent; }
};

// --- The database ---------------------------------------------------------------------------------------------------

// The database that DB::Open opens: a pointer, or a unique_ptr in newer versions of RocksDB.
struct Opened {
  DB* pointer = nullptr;
  std::unique_ptr<DB> owner;
  operator DB**() { return &pointer; }
  operator std::unique_ptr<DB>*() { return &owner; }
  DB* Release() { return pointer != nullptr ? pointer : owner.release(); }
};

struct Family {
  const char* name;
  std::vector<sstf_options> filters;  // combined, if there are several
  bool has_timestamps, has_range_deletions, has_blobs;
  size_t extractor_bytes;  // of RocksDB's own prefixes; 0: none
};

static sstf_options FilterOptions(const char* kind, uint32_t prefix_bytes, uint32_t integer_bytes,
                                  uint32_t granularity_bits) {
  sstf_options options = SSTF_OPTIONS_INIT;
  options.kind = kind;
  options.prefix_bytes = prefix_bytes;
  options.integer_bytes = integer_bytes;
  options.granularity_bits = granularity_bits;
  if (integer_bytes != 0) options.longest_range = 64;
  if (integer_bytes == 0 && prefix_bytes != 0) options.only_prefixes = 1;
  return options;
}

static constexpr bool kIsNew = ROCKSDB_MAJOR >= 9;  // RocksDB 7.8 scans wrongly after DeleteRange with timestamps

static const Family kFamilies[] = {
    {"hashed", {FilterOptions("hashed-range", 3, 4, 0)}, false, true, false, 0},
    {"ordered", {FilterOptions("ordered-range", 0, 0, 0)}, false, true, true, 3},
    {"prefixes", {FilterOptions("auto", 5, 0, 0), FilterOptions("ribbon", 0, 0, 0)}, false, false, false, 0},
    {"timestamps", {FilterOptions("hashed-range", 3, 4, 2), FilterOptions("bloom", 0, 0, 0)}, true, kIsNew, false, 0},
    {"combined", {FilterOptions("ordered-range", 0, 0, 0), FilterOptions("bloom", 5, 0, 0)}, false, true, true, 3},
};
static constexpr size_t kFamilyCount = std::size(kFamilies);

struct Append : AssociativeMergeOperator {
  bool Merge(const Slice&, const Slice* old, const Slice& operand, std::string* merged, Logger*) const override {
    *merged = (old != nullptr ? old->ToString() + "," : "") + operand.ToString();
    return true;
  }
  const char* Name() const override { return "model.Append"; }
};

// Rows with this value can vanish at any compaction, so that scans ignore them.
static bool IsDropped(const Slice& value) { return value.starts_with("drop"); }

struct DropMarked : CompactionFilter {
  bool Filter(int, const Slice&, const Slice& value, std::string*, bool*) const override { return IsDropped(value); }
  const char* Name() const override { return "model.DropMarked"; }
};
static const DropMarked kDropMarked;

enum class Writes { kFiltered, kUnfiltered, kForeign };

// Returns the filters of a family. Foreign ones have the same names, but another seed, kind or prefix length.
static std::vector<FilterPtr> Filters(const Family& family, bool is_foreign) {
  std::vector<FilterPtr> filters;
  for (sstf_options options : family.filters) {
    const std::string name = std::string(family.name) + std::to_string(filters.size());
    if (is_foreign && options.prefix_bytes == 0) options = FilterOptions("hashed-range", 3, 4, 0);
    if (is_foreign && filters.empty()) options.prefix_bytes--;
    if (is_foreign) options.seed = 77;
    // Some hundred filters are in use, and the second of a family evicts them all the time.
    const size_t cache_bytes = filters.empty() ? size_t{1} << 20 : 1000;
    filters.emplace_back();
    Check(TableFilter::Create(options, name, &filters.back(), cache_bytes), "create a filter");
  }
  return filters;
}

// `is_too_early`: by mistake, filters are added before the comparator of timestamps is set.
static ColumnFamilyOptions FamilyOptions(const Family& family, const std::vector<FilterPtr>& filters,
                                         bool is_too_early = false) {
  ColumnFamilyOptions options;
  const auto add_filters = [&] {
    for (const FilterPtr& filter : filters) Check(filter->AddTo(&options), "add a filter");
  };
  options.write_buffer_size = 32 << 10;
  options.target_file_size_base = 8 << 10;
  options.max_bytes_for_level_base = 32 << 10;
  options.level0_file_num_compaction_trigger = 6;
  options.num_levels = 4;
  // RocksDB 7.8 can fail to compact tables with timestamps: "Compaction sees out-of-order keys", without filters, too.
  options.disable_auto_compactions = family.has_timestamps && !kIsNew;
  options.enable_blob_files = family.has_blobs;
  options.enable_blob_garbage_collection = family.has_blobs;
  options.min_blob_size = 64;
  options.merge_operator = std::make_shared<Append>();
  if (!family.has_timestamps) options.compaction_filter = &kDropMarked;
  if (is_too_early) add_filters();
  if (family.has_timestamps) {
    Check(Comparator::CreateFromString({}, "leveldb.BytewiseComparator.u64ts", &options.comparator), "compare times");
    options.max_sequential_skip_in_iterations = 1000000;  // a reverse scan that seeks would not end in RocksDB 7.8
  }
  BlockBasedTableOptions table;
  if (family.extractor_bytes != 0) {
    options.prefix_extractor.reset(NewCappedPrefixTransform(family.extractor_bytes));
    table.filter_policy.reset(NewRibbonFilterPolicy(10));
    options.memtable_prefix_bloom_size_ratio = 0.1;
  }
  options.table_factory.reset(NewBlockBasedTableFactory(table));
  if (!is_too_early) add_filters();
  return options;
}

// --- The model ------------------------------------------------------------------------------------------------------

using Key = std::string;
using Row = std::pair<Key, std::string>;
using Rows = std::vector<Row>;
// The versions of a key, the newest first; those of families without timestamps replace each other, at time 0.
using Versions = std::map<uint64_t, std::optional<std::string>, std::greater<>>;
using Table = std::map<Key, Versions>;
using Model = std::vector<Table>;

struct Bounds {
  Key lower, upper;
  bool has_upper = true;
  bool HasBelowUpper(const Key& key) const { return !has_upper || key < upper; }
};

static Rows Expected(const Table& table, const Bounds& range, uint64_t time) {
  Rows rows;
  for (auto key = table.lower_bound(range.lower); key != table.end() && range.HasBelowUpper(key->first); ++key) {
    const auto version = key->second.lower_bound(time);
    if (version == key->second.end() || !version->second || IsDropped(*version->second)) continue;
    rows.emplace_back(key->first, *version->second);
  }
  return rows;
}

static Bounds Intersection(const Bounds& a, const Bounds& b) {
  Bounds both{std::max(a.lower, b.lower), a.has_upper ? a.upper : b.upper, a.has_upper || b.has_upper};
  if (a.has_upper && b.has_upper) both.upper = std::min(a.upper, b.upper);
  return both;
}

static Key RandomKey(Random& random) {
  static const char kBytes[] = {'\0', '\x01', 'a', 'm', '\xfe', '\xff'};
  const auto bytes = [&](size_t count) {
    Key key;
    while (key.size() < count) key.push_back(kBytes[random.Below(sizeof kBytes)]);
    return key;
  };
  if (random.Percent(2)) return bytes(random.Below(5));
  Key key = bytes(3);
  const uint64_t number = random.Below(1 << 20);
  for (int shift = 24; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  if (random.Percent(3)) key += bytes(random.Below(4));
  if (random.Percent(1)) key += bytes(200);
  return key;
}

// Returns the key with its last byte that can grow increased, by about `distance` of the integers in keys.
static Key After(Key key, uint64_t distance) {
  if (key.size() < 7) return key + static_cast<char>(distance);
  for (int byte = 6; byte >= 3; byte--) {
    distance += static_cast<unsigned char>(key[byte]);
    key[byte] = static_cast<char>(distance);
    distance >>= 8;
  }
  return key;
}

// --- Scans ----------------------------------------------------------------------------------------------------------

struct Tally {
  std::atomic<uint64_t> scans{0}, rows{0}, wrong{0}, own{0};
};
static Tally tally;

enum class Seeks { kAny, kInside, kForward };

// Moves an iterator at random, and compares each step with the rows. Returns whether all were right.
static bool Walk(Random& random, Iterator* it, const Bounds& range, const Rows& rows, Seeks seeks) {
  size_t at = rows.size();  // the row that the iterator must be at; rows.size(): none
  const auto skip_dropped = [&](bool is_forward) {
    while (it->Valid() && IsDropped(it->value())) is_forward ? it->Next() : it->Prev();
  };
  const auto is_right = [&] {
    if (!it->status().ok() || it->Valid() != (at < rows.size())) return false;
    if (!it->Valid()) return true;
    tally.rows++;
    return it->key() == rows[at].first && it->value() == rows[at].second;
  };
  const auto before = [&](const Key& key, bool or_equal) {  // the last row before a key
    size_t count = 0;
    while (count < rows.size() && (rows[count].first < key || (or_equal && rows[count].first == key))) count++;
    return count == 0 ? rows.size() : count - 1;
  };
  uint64_t how = random.Below(6);
  if (seeks == Seeks::kInside) how = random.Percent(60) ? 0 : 4;
  if (seeks == Seeks::kForward) how = random.Percent(60) ? 0 : 2;
  const bool is_forward = how == 0 || how == 2 || how == 4;
  const bool is_all = how < 4;
  Key target = range.lower;
  if (how == 1 || how >= 4) {
    target = random.Percent(50) && !rows.empty() ? rows[random.Below(rows.size())].first : RandomKey(random);
    if (how == 1) target = range.has_upper ? range.upper : Key(300, '\xff');
    if (seeks == Seeks::kInside && (target < range.lower || !range.HasBelowUpper(target))) target = range.lower;
  }
  if (how == 0 || how == 4) it->Seek(target);
  if (how == 1 || how == 5) it->SeekForPrev(target);
  if (how == 2) it->SeekToFirst();
  if (how == 3) it->SeekToLast();
  skip_dropped(is_forward);
  if (how == 0 || how == 2) at = 0;
  if (how == 1 || how == 3) at = rows.empty() ? 0 : rows.size() - 1;
  if (how == 4) for (at = 0; at < rows.size() && rows[at].first < target; at++) {}
  if (how == 5) at = before(target, true);
  if (!is_right()) return false;
  for (int step = 0; it->Valid() && (is_all || step < 12); step++) {
    const bool is_next = is_all ? is_forward : seeks == Seeks::kForward || random.Percent(is_forward ? 70 : 30);
    is_next ? it->Next() : it->Prev();
    skip_dropped(is_next);
    at = is_next ? at + 1 : at == 0 ? rows.size() : at - 1;
    if (!is_right()) return false;
  }
  return true;
}

// A database, and what it must hold. `Run` performs one random operation after another.
class Test {
 public:
  explicit Test(uint64_t seed) : directory_(std::filesystem::temp_directory_path() / ("sstfilter-model-" +
        std::to_string(seed) + "-" + std::to_string(std::random_device()()))), model_(kFamilyCount) {
    random_.engine.seed(seed);
    std::filesystem::create_directories(directory_);
    for (const Family& family : kFamilies) filters_.push_back(Filters(family, false));
    Open();
  }

  ~Test() {
    Close();
    filters_.clear();
    std::filesystem::remove_all(directory_);
  }

  void Run(uint64_t scans) {
    while (tally.scans < scans) {
      const uint64_t operation = random_.Below(10000);
      if (operation < 9500) {
        for (int write = 0; write < 4; write++) Write();
        for (int scan = 0; scan < 8; scan++) ScanOnce(random_, db_, handles_, model_, nullptr);
      } else if (operation < 9650) {
        Check(db_->Flush(FlushOptions(), handles_[random_.Below(kFamilyCount)]), "flush");
      } else if (operation < 9700) {
        Compact();
      } else if (operation < 9800) {
        Ingest(random_.Below(kFamilyCount));
      } else if (operation < 9860) {
        Hold();
      } else if (operation < 9970) {
        ScanHeld();
      } else if (operation < 9980) {
        ScanElsewhere();
      } else if (operation < 9985) {
        ScanFromThreads();
      } else {
        Close();
        Open();
      }
    }
  }

  void AddTo(TableFilter::Stats* sum) const {
    for (const auto& filters : filters_) {
      for (const FilterPtr& filter : filters) {
        const TableFilter::Stats stats = filter->stats();
        Expect(stats.skipped > 0, "skip tables by each filter");
        sum->probed += stats.probed, sum->skipped += stats.skipped, sum->unusable += stats.unusable;
      }
    }
  }

 private:
  // A snapshot, and iterators as old as it.
  struct Held {
    const Snapshot* snapshot;
    uint64_t time;
    Model model;
    struct Open {
      size_t family;
      Bounds range;
      uint64_t time;
      std::unique_ptr<std::string> timestamp;
      std::unique_ptr<Slice> slice;
      IteratorPtr it;
    };
    std::vector<Open> iterators;
  };

  // Tables of one opening are written with filters, without, or with foreign ones; readers have the same filters.
  void Open() {
    std::vector<ColumnFamilyDescriptor> families{{kDefaultColumnFamilyName, ColumnFamilyOptions()}};
    for (size_t i = 0; i < kFamilyCount; i++) {
      const bool is_filtered = values_ == 0 || random_.Percent(60);
      const std::vector<FilterPtr> filters = is_filtered ? filters_[i]
                                             : random_.Percent(50) ? Filters(kFamilies[i], true)
                                                                   : std::vector<FilterPtr>();
      const bool is_too_early = values_ != 0 && random_.Percent(30);
      families.emplace_back(kFamilies[i].name, FamilyOptions(kFamilies[i], filters, is_too_early));
    }
    DBOptions options;
    options.create_if_missing = options.create_missing_column_families = true;
    options.max_open_files = random_.Percent(50) ? 20 : -1;
    options.max_subcompactions = 2;
    Opened opened;
    Check(DB::Open(options, (directory_ / "db").string(), families, &handles_, opened), "open");
    db_ = opened.Release();
    Expect(handles_.size() == kFamilyCount + 1, "open all families");
    Check(db_->DestroyColumnFamilyHandle(handles_[0]), "close a family");
    handles_.erase(handles_.begin());
  }

  void Close() {
    while (!held_.empty()) Release();
    for (ColumnFamilyHandle* handle : handles_) Check(db_->DestroyColumnFamilyHandle(handle), "close a family");
    handles_.clear();
    delete db_;
  }

  void Release() {
    held_.front().iterators.clear();
    db_->ReleaseSnapshot(held_.front().snapshot);
    held_.erase(held_.begin());
  }

  Key SomeKey(Random& random, const Table& table) {
    const Key key = RandomKey(random);
    const auto near = random.Percent(60) ? table.lower_bound(key) : table.end();
    return near == table.end() ? key : near->first;
  }

  // Returns a key to be written: none of those that SingleDelete deletes.
  Key WritableKey(const Table& table) {
    const Key key = SomeKey(random_, table);
    return key.find("single") == Key::npos ? key : RandomKey(random_);
  }

  Bounds SomeRange(Random& random, const Table& table) {
    Bounds range{SomeKey(random, table), {}};
    const uint64_t how = random.Below(100);
    range.upper = After(range.lower, how < 90 ? random.Below(64) : random.Below(20000));
    if (how < 10) range.upper = range.lower.substr(0, 5) + std::string(4, '\xff');
    if (how >= 80) range.upper = range.lower + '\0';  // a single key
    if (how == 10) range.upper = RandomKey(random);  // often below the lower bound
    if (how == 11 || how == 12) range.upper.clear();
    if (how == 13) range.lower.clear();
    range.has_upper = !range.upper.empty();
    return range;
  }

  std::string Value() {
    return "v" + std::to_string(++values_) + std::string(random_.Percent(30) ? 100 : random_.Below(20), 'v');
  }

  void DeleteRows(Table& table, const Bounds& range) {
    for (auto key = table.lower_bound(range.lower); key != table.end() && range.HasBelowUpper(key->first); ++key) {
      key->second[key->second.begin()->first == 0 ? 0 : time_] = std::nullopt;
    }
  }

  void Write() {
    const size_t i = random_.Below(kFamilyCount);
    Table& table = model_[i];
    const Key key = WritableKey(table);
    const uint64_t operation = random_.Below(1000);
    const WriteOptions options;
    if (kFamilies[i].has_timestamps) return WriteAtTime(i, key, operation);
    if (operation < 600) {
      const std::string value = random_.Percent(5) ? "drop" : Value();
      Check(db_->Put(options, handles_[i], key, value), "put");
      table[key][0] = value;
    } else if (operation < 750) {
      Check(db_->Delete(options, handles_[i], key), "delete");
      table[key][0] = std::nullopt;
    } else if (operation < 900) {
      auto& old = table[key][0];
      const std::string value = Value();
      // What a dropped value leaves for its merge operands depends on compactions.
      if (old && IsDropped(*old)) return;
      Check(db_->Merge(options, handles_[i], key, value), "merge");
      old = old ? *old + "," + value : value;
    } else if (operation < 990) {
      WriteSingle(i, key);
    } else if (kFamilies[i].has_range_deletions) {
      const Bounds range{key, After(key, random_.Below(5000))};
      if (range.upper < range.lower) return;
      Check(db_->DeleteRange(options, handles_[i], range.lower, range.upper), "delete a range");
      DeleteRows(table, range);
    }
  }

  // Keys of their own are written once, and then deleted by SingleDelete.
  void WriteSingle(size_t i, const Key& near) {
    std::vector<Key>& singles = singles_[i];
    if (random_.Percent(50) || singles.empty()) {
      singles.push_back(near + "single" + std::to_string(++values_));
      const std::string value = Value();
      Check(db_->Put(WriteOptions(), handles_[i], singles.back(), value), "put");
      model_[i][singles.back()][0] = value;
    } else {
      std::swap(singles[random_.Below(singles.size())], singles.back());
      Check(db_->SingleDelete(WriteOptions(), handles_[i], singles.back()), "delete a single");
      model_[i][singles.back()][0] = std::nullopt;
      singles.pop_back();
    }
  }

  static std::string Timestamp(uint64_t time) {
    std::string timestamp;
    for (int shift = 0; shift < 64; shift += 8) timestamp.push_back(static_cast<char>(time >> shift));
    return timestamp;
  }

  void WriteAtTime(size_t i, const Key& key, uint64_t operation) {
    const std::string timestamp = Timestamp(++time_);
    if (operation < 700) {
      const std::string value = Value();
      Check(db_->Put(WriteOptions(), handles_[i], key, timestamp, value), "put");
      model_[i][key][time_] = value;
    } else if (operation < 990) {
      Check(db_->Delete(WriteOptions(), handles_[i], key, timestamp), "delete");
      model_[i][key][time_] = std::nullopt;
    } else if (kFamilies[i].has_range_deletions) {
      const Bounds range{key, After(key, random_.Below(5000))};
      if (range.upper < range.lower) return;
      Check(db_->DeleteRange(WriteOptions(), handles_[i], range.lower, range.upper, timestamp), "delete a range");
      DeleteRows(model_[i], range);
    }
  }

  void Compact() {
    const size_t i = random_.Below(kFamilyCount);
    if (kFamilies[i].has_timestamps && !kIsNew) return;
    const Key lower = RandomKey(random_), upper = RandomKey(random_);
    const Slice from(std::min(lower, upper)), to(std::max(lower, upper));
    const bool is_all = random_.Percent(30);
    Check(db_->CompactRange({}, handles_[i], is_all ? nullptr : &from, is_all ? nullptr : &to), "compact");
  }

  void Ingest(size_t i) {
    if (kFamilies[i].has_timestamps) return;
    const uint64_t how = random_.Below(3);
    const std::vector<FilterPtr> filters = how == 0   ? filters_[i]
                                           : how == 1 ? Filters(kFamilies[i], true)
                                                      : std::vector<FilterPtr>();
    SstFileWriter writer(EnvOptions(), Options(DBOptions(), FamilyOptions(kFamilies[i], filters)));
    const std::string file = directory_ / ("ingest-" + std::to_string(++values_));
    Check(writer.Open(file), "open a file");
    std::map<Key, std::optional<std::string>> entries;
    for (uint64_t count = 1 + random_.Below(40); count > 0; count--) {
      entries[WritableKey(model_[i])] = random_.Percent(80) ? std::optional(Value()) : std::nullopt;
    }
    if (kFamilies[i].has_range_deletions && random_.Percent(30)) {
      const Bounds range{entries.begin()->first, After(entries.begin()->first, 3000)};
      if (range.lower < range.upper) {
        Check(writer.DeleteRange(range.lower, range.upper), "delete a range of a file");
        DeleteRows(model_[i], range);
      }
    }
    for (const auto& [key, value] : entries) {
      Check(value ? writer.Put(key, *value) : writer.Delete(key), "write a file");
      model_[i][key][0] = value;
    }
    Check(writer.Finish(), "finish a file");
    IngestExternalFileOptions options;
    options.move_files = true;
    Check(db_->IngestExternalFile(handles_[i], {file}, options), "ingest");
  }

  ReadOptions Scan(size_t i, const Bounds& range, bool is_prefix, const ReadOptions& base) {
    ReadOptions options = base;
    for (const FilterPtr& filter : filters_[i]) {
      options = is_prefix ? filter->PrefixOptions(range.lower, options)
                          : filter->RangeOptions(range.lower, range.upper, options);
    }
    return options;
  }

  void ScanOnce(Random& random, DB* db, const std::vector<ColumnFamilyHandle*>& handles, const Model& model,
                const Held* held) {
    const size_t i = random.Below(kFamilyCount);
    if (ROCKSDB_MAJOR < 8 && db != db_ && kFamilies[i].has_blobs) return;  // RocksDB 7.8 crashes without filters, too
    Bounds range = SomeRange(random, model[i]);
    const bool is_prefix = random.Percent(10);
    if (is_prefix) {
      range.lower = range.lower.substr(0, random.Below(8));
      if (random.Percent(5)) range.lower = std::string(random.Below(4), '\xff');
      range.upper = range.lower;
      while (!range.upper.empty() && range.upper.back() == '\xff') range.upper.pop_back();
      range.has_upper = !range.upper.empty();
      if (range.has_upper) range.upper.back()++;
    }
    ReadOptions base;
    base.snapshot = held != nullptr ? held->snapshot : nullptr;
    const uint64_t now = held != nullptr ? held->time : time_;
    const uint64_t time = kFamilies[i].has_timestamps ? (random.Percent(50) ? now : random.Below(now + 1)) : 0;
    const std::string timestamp = Timestamp(time);
    const Slice timestamp_slice(timestamp);
    if (kFamilies[i].has_timestamps) base.timestamp = &timestamp_slice;
    Seeks seeks = Seeks::kAny;
    const size_t extractor_bytes = kFamilies[i].extractor_bytes;
    const uint64_t mode = random.Below(10);
    if (extractor_bytes != 0) {
      const Key end = range.lower.substr(0, extractor_bytes) + std::string(300, '\xff');
      if (random.Percent(50) && range.lower.size() >= extractor_bytes && range.has_upper && range.upper <= end) {
        base.prefix_same_as_start = random.Percent(50);  // the prefix of the whole range
        seeks = Seeks::kInside;
      } else {
        (random.Percent(50) ? base.total_order_seek : base.auto_prefix_mode) = true;
      }
    }
    if (mode == 3 && held == nullptr && db == db_ && !kFamilies[i].has_range_deletions &&
        !kFamilies[i].has_timestamps) {
      base.tailing = true;
      seeks = Seeks::kForward;
    }
    if (mode == 4) base.pin_data = true;
    if (mode == 5) base.async_io = kIsNew;
    ReadOptions outer = base;
    Bounds all = range;
    if (random.Percent(2) && !is_prefix && seeks == Seeks::kAny) {
      const Bounds other = SomeRange(random, model[i]);
      if (other.has_upper) {
        outer = filters_[i][0]->RangeOptions(other.lower, other.upper, base);
        all = Intersection(range, other);
      }
    }
    const Rows rows = Expected(model[i], all, time);
    const IteratorPtr it(db->NewIterator(Scan(i, range, is_prefix, outer), handles[i]));
    tally.scans++;
    if (Walk(random, it.get(), all, rows, seeks)) return;
    Judge(db, i, handles[i], base, all, rows, seeks);
  }

  // Judges a scan with the wrong rows: RocksDB's own defects show in a scan without filters, too. Some are known: in
  // auto_prefix_mode, short keys are missed, and version 7.8 can lose rows with timestamps.
  void Judge(DB* db, size_t i, ColumnFamilyHandle* handle, ReadOptions base, const Bounds& range, const Rows& rows,
             Seeks seeks) {
    const Slice lower(range.lower), upper(range.upper);
    base.iterate_lower_bound = &lower;
    base.iterate_upper_bound = range.has_upper ? &upper : nullptr;
    const IteratorPtr it(db->NewIterator(base, handle));
    Random random;
    bool is_right = true;
    for (int walk = 0; is_right && walk < 50; walk++) is_right = Walk(random, it.get(), range, rows, seeks);
    (is_right ? tally.wrong : tally.own)++;
    if (!is_right || tally.wrong > 3) return;
    std::fprintf(stderr, "wrong: %s [%s, %s%s): expected %zu rows\n", kFamilies[i].name, lower.ToString(true).c_str(),
                 upper.ToString(true).c_str(), range.has_upper ? "" : "no end", rows.size());
  }

  void Hold() {
    if (held_.size() > 3) Release();
    Held held{db_->GetSnapshot(), time_, model_, {}};
    for (size_t i = 0; i < kFamilyCount; i++) {
      typename Held::Open open{i, SomeRange(random_, model_[i]), 0, nullptr, nullptr, nullptr};
      ReadOptions base;
      base.total_order_seek = true;
      if (kFamilies[i].has_timestamps) {
        open.time = random_.Below(time_ + 1);
        open.timestamp = std::make_unique<std::string>(Timestamp(open.time));
        open.slice = std::make_unique<Slice>(*open.timestamp);
        base.timestamp = open.slice.get();
      }
      open.it.reset(db_->NewIterator(Scan(i, open.range, false, base), handles_[i]));
      held.iterators.push_back(std::move(open));
    }
    held_.push_back(std::move(held));
  }

  void ScanHeld() {
    if (held_.empty()) return;
    Held& held = held_[random_.Below(held_.size())];
    for (int scan = 0; scan < 20; scan++) ScanOnce(random_, db_, handles_, held.model, &held);
    for (const auto& open : held.iterators) {
      const auto compare = [&](const Model& model, const Snapshot* snapshot) {
        tally.scans++;
        const Rows rows = Expected(model[open.family], open.range, open.time);
        if (Walk(random_, open.it.get(), open.range, rows, Seeks::kAny)) return;
        ReadOptions base;
        base.total_order_seek = true;
        base.snapshot = snapshot;
        base.timestamp = open.slice.get();
        Judge(db_, open.family, handles_[open.family], base, open.range, rows, Seeks::kAny);
      };
      compare(held.model, held.snapshot);
      if (kFamilies[open.family].has_timestamps || !random_.Percent(20)) continue;
      Check(open.it->Refresh(), "refresh");
      compare(model_, nullptr);
    }
    held.iterators.clear();
  }

  // Scans a checkpoint, the files without writing, or a secondary instance. None of them needs the factories.
  void ScanElsewhere() {
    const std::string place = directory_ / "elsewhere", live = directory_ / "db";
    const uint64_t how = random_.Below(3);
    std::vector<ColumnFamilyDescriptor> families{{kDefaultColumnFamilyName, ColumnFamilyOptions()}};
    for (const Family& family : kFamilies) families.emplace_back(family.name, FamilyOptions(family, {}));
    std::vector<ColumnFamilyHandle*> handles;
    Opened opened;
    DBOptions options;
    options.max_open_files = -1;
    Check(db_->DisableFileDeletions(), "keep files while they are opened");
    if (how == 0) {
      Checkpoint* checkpoint = nullptr;
      Check(Checkpoint::Create(db_, &checkpoint), "prepare a checkpoint");
      Check(checkpoint->CreateCheckpoint(place), "create a checkpoint");
      delete checkpoint;
      Check(DB::OpenForReadOnly(options, place, families, &handles, opened), "open a checkpoint");
    } else if (how == 1) {
      Check(DB::OpenForReadOnly(options, live, families, &handles, opened), "open without writing");
    } else {
      Check(DB::OpenAsSecondary(options, live, place, families, &handles, opened), "open a secondary");
      Write();
      Check((opened.pointer != nullptr ? opened.pointer : opened.owner.get())->TryCatchUpWithPrimary(), "catch up");
    }
    DB* const db = opened.Release();
    const std::vector<ColumnFamilyHandle*> own(handles.begin() + 1, handles.end());
    for (int scan = 0; scan < 100; scan++) ScanOnce(random_, db, own, model_, nullptr);
    for (ColumnFamilyHandle* handle : handles) delete handle;
    delete db;
    Check(db_->EnableFileDeletions(), "delete files");
    std::filesystem::remove_all(place);
  }

  // Threads scan a snapshot, while tables are written and removed.
  void ScanFromThreads() {
    Hold();
    const Held& held = held_.back();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; thread++) {
      threads.emplace_back([this, &held, seed = random_.engine()] {
        Random random;
        random.engine.seed(seed);
        for (int scan = 0; scan < 300; scan++) ScanOnce(random, db_, handles_, held.model, &held);
      });
    }
    for (int write = 0; write < 300; write++) Write();
    for (ColumnFamilyHandle* handle : handles_) Check(db_->Flush(FlushOptions(), handle), "flush");
    Compact();
    for (std::thread& thread : threads) thread.join();
  }

  const std::filesystem::path directory_;
  Random random_;
  std::vector<std::vector<FilterPtr>> filters_;
  DB* db_ = nullptr;
  std::vector<ColumnFamilyHandle*> handles_;
  Model model_;
  std::vector<Key> singles_[kFamilyCount];
  std::vector<Held> held_;
  uint64_t values_ = 0, time_ = 1;
};

// --- Refusals and lifetimes -----------------------------------------------------------------------------------------

struct Numbers : Comparator {
  int Compare(const Slice& a, const Slice& b) const override { return BytewiseComparator()->Compare(a, b); }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
  const char* Name() const override { return "model.Numbers"; }
};

static void OtherOrdersAreRefused() {
  const sstf_options range = FilterOptions("ordered-range", 0, 0, 0);
  FilterPtr filter;
  for (const char* name : {"", "a#b", "a:b", "a\nb"}) {
    Expect(TableFilter::Create(range, name, &filter).IsInvalidArgument(), "refuse a name");
  }
  Check(TableFilter::Create(range, "orders", &filter), "create a filter");
  const Numbers numbers;
  ColumnFamilyOptions options;
  for (const Comparator* comparator : {ReverseBytewiseComparator(), static_cast<const Comparator*>(&numbers)}) {
    options.comparator = comparator;
    Expect(filter->AddTo(&options).IsInvalidArgument(), "refuse a comparator");
  }
  Check(Comparator::CreateFromString({}, "leveldb.ReverseBytewiseComparator.u64ts", &options.comparator), "compare");
  Expect(filter->AddTo(&options).IsInvalidArgument(), "refuse a comparator of times");
  options.comparator = BytewiseComparator();
  Check(filter->AddTo(&options), "add a filter");
  Expect(filter->AddTo(&options).IsInvalidArgument(), "refuse a filter of the same name");
}

// An iterator keeps its filter and its bounds alive, also in a database that knows no filter.
static void IteratorsKeepTheirFilter(const std::string& directory) {
  FilterPtr filter;
  Check(TableFilter::Create(FilterOptions("ordered-range", 0, 0, 0), "lives", &filter), "create a filter");
  const auto open = [&](bool has_filter) {
    Options options;
    options.create_if_missing = true;
    if (has_filter) Check(filter->AddTo(&options), "add a filter");
    Opened opened;
    Check(DB::Open(options, directory, opened), "open");
    return std::unique_ptr<DB>(opened.Release());
  };
  auto db = open(true);
  for (const char* key : {"a", "c", "e", "g"}) {
    Check(db->Put(WriteOptions(), key, "v"), "put");
    Check(db->Flush(FlushOptions()), "flush");
  }
  db.reset();
  db = open(false);
  IteratorPtr it(db->NewIterator(filter->RangeOptions(std::string("c"), std::string("f"))));
  const std::weak_ptr<TableFilter> weak = filter;
  filter.reset();
  Expect(!weak.expired(), "keep the filter");
  Check(it->Refresh(), "refresh");
  int rows = 0;
  for (it->SeekToLast(); it->Valid(); it->Prev()) rows++;
  Expect(rows == 2 && weak.lock()->stats().skipped > 0, "scan two rows");
  it.reset();
  Expect(weak.expired(), "destroy the filter");
}

int main(int count, char** arguments) {
  const uint64_t scans = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100000;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  const std::string directory =
      std::filesystem::temp_directory_path() / ("sstfilter-lives-" + std::to_string(std::random_device()()));
  OtherOrdersAreRefused();
  IteratorsKeepTheirFilter(directory);
  std::filesystem::remove_all(directory);
  TableFilter::Stats stats;
  const uint64_t databases = std::max<uint64_t>(1, scans / 50000);  // which stay small
  for (uint64_t i = 1; i <= databases; i++) {
    Test test(seed * 1000 + i);
    test.Run(scans / databases * i);
    test.AddTo(&stats);
  }
  std::printf("%llu scans, %llu rows, %llu wrong scans; %llu that are wrong without filters, too\n",
              (unsigned long long)tally.scans, (unsigned long long)tally.rows, (unsigned long long)tally.wrong,
              (unsigned long long)tally.own);
  std::printf("tables: %llu probed, %llu skipped, %llu unusable\n", (unsigned long long)stats.probed,
              (unsigned long long)stats.skipped, (unsigned long long)stats.unusable);
  return tally.wrong == 0 && tally.own * 100 <= tally.scans && stats.skipped > 0 && stats.unusable > 0 ? 0 : 1;
}
