// scans [SCANS] [KEYS_PER_TABLE]: what filters of ranges save scans of short ranges over 20 overlapping tables.
//
// Keys are a user and a time; a scan covers 1,000 units of time of one user, a quarter of them from a key on. The same
// scans run without filters of ours and with them, beside RocksDB's own Ribbon filter of prefixes in both of its modes.
// All rows are compared with a map. The last column is the time in relation to scans without our filter in that mode.
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/perf_context.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "sstfilter_rocksdb.h"

using rocksdb::ReadOptions;
using Map = std::map<std::string, std::string>;

static constexpr uint64_t kTables = 20, kUsers = 20000, kTimes = uint64_t{1} << 26, kUnits = 1000;

static void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

static std::string Key(uint64_t user, uint64_t time) {
  std::string key;
  for (const uint64_t number : {user, time}) {
    for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  }
  return key;
}

// The database that DB::Open opens: a pointer, or a unique_ptr in newer versions of RocksDB.
struct Opened {
  rocksdb::DB* pointer = nullptr;
  std::unique_ptr<rocksdb::DB> owner;
  operator rocksdb::DB**() { return &pointer; }
  operator std::unique_ptr<rocksdb::DB>*() { return &owner; }
  rocksdb::DB* Release() { return pointer != nullptr ? pointer : owner.release(); }
};

struct Scan {
  std::string lower, upper;
};

static Scan RandomScan(std::mt19937_64& random, const Map& rows) {
  uint64_t user = random() % kUsers, time = random() % kTimes;
  const auto row = rows.lower_bound(Key(user, time));
  if (random() % 4 == 0 && row != rows.end()) {
    user = time = 0;
    for (int byte = 0; byte < 8; byte++) user = user << 8 | static_cast<unsigned char>(row->first[byte]);
    for (int byte = 8; byte < 16; byte++) time = time << 8 | static_cast<unsigned char>(row->first[byte]);
  }
  return {Key(user, time), Key(user, time + kUnits)};
}

// Returns what a writer has left after it filled the tables of level 0.
static Map Fill(rocksdb::DB* db, uint64_t keys_per_table) {
  Map rows;
  std::mt19937_64 random(7);
  for (uint64_t table = 0; table < kTables; table++) {
    for (uint64_t i = 0; i < keys_per_table; i++) {
      const std::string key = Key(random() % kUsers, random() % kTimes);
      const auto old = rows.lower_bound(key);
      if (i % 50 == 49 && old != rows.end()) {
        Check(db->Delete({}, old->first));
        rows.erase(old);
        continue;
      }
      const std::string value = std::to_string(random()) + std::string(80, 'v');
      Check(db->Put({}, key, value));
      rows[key] = value;
    }
    Check(db->Flush({}));
  }
  return rows;
}

static double FilterBitsPerKey(rocksdb::DB* db) {
  rocksdb::TablePropertiesCollection tables;
  Check(db->GetPropertiesOfAllTables(&tables));
  uint64_t bytes = 0, keys = 0;
  for (const auto& table : tables) {
    bytes += table.second->user_collected_properties.at("sstfilter.user-times").size();
    keys += table.second->num_entries;
  }
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(keys);
}

struct Result {
  double blocks, microseconds;
  uint64_t wrong;
};

// Scans all ranges. `filter` can be null.
static Result Run(rocksdb::DB* db, const std::vector<Scan>& scans, const Map& rows, const ReadOptions& base,
                  sstfilter::TableFilter* filter) {
  Result result = {};
  std::vector<std::pair<std::string, std::string>> found;
  rocksdb::SetPerfLevel(rocksdb::kEnableCount);
  rocksdb::get_perf_context()->Reset();
  for (const Scan& scan : scans) {
    found.clear();
    const auto start = std::chrono::steady_clock::now();
    {
      const rocksdb::Slice upper(scan.upper);
      ReadOptions options = base;
      if (filter != nullptr) options = filter->RangeOptions(scan.lower, scan.upper, base);
      if (filter == nullptr) options.iterate_upper_bound = &upper;
      const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(options));
      for (it->Seek(scan.lower); it->Valid(); it->Next()) {
        found.emplace_back(it->key().ToString(), it->value().ToString());
      }
      Check(it->status());
    }
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
    result.microseconds += time.count() / static_cast<double>(scans.size());
    const auto first = rows.lower_bound(scan.lower), end = rows.lower_bound(scan.upper);
    const bool is_right = std::equal(found.begin(), found.end(), first, end, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second == b.second;
    });
    result.wrong += !is_right;
  }
  const auto* counts = rocksdb::get_perf_context();
  result.blocks = static_cast<double>(counts->block_read_count) / static_cast<double>(scans.size());
  return result;
}

int main(int count, char** arguments) {
  const uint64_t scan_count = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 20000;
  const uint64_t keys_per_table = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 100000;
  const std::string directory =
      std::filesystem::temp_directory_path() / ("sstfilter-scans-" + std::to_string(std::random_device()()));
  rocksdb::Options options;
  options.create_if_missing = true;
  options.disable_auto_compactions = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = size_t{1} << 30;
  options.level0_slowdown_writes_trigger = options.level0_stop_writes_trigger = 1000;
  options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(8));
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
  table.block_cache = rocksdb::NewLRUCache(8 << 20);  // a small part of the tables
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));

  sstf_options filter_options = SSTF_OPTIONS_INIT;
  filter_options.kind = "hashed-range";
  filter_options.prefix_bytes = filter_options.integer_bytes = 8;
  filter_options.longest_range = kUnits;
  std::shared_ptr<sstfilter::TableFilter> filter;
  Check(sstfilter::TableFilter::Create(filter_options, "user-times", &filter));
  Check(filter->AddTo(&options));
  Opened opened;
  Check(rocksdb::DB::Open(options, directory, opened));
  rocksdb::DB* const db = opened.Release();
  const Map rows = Fill(db, keys_per_table);
  const double bits = FilterBitsPerKey(db);
  std::printf("%llu tables of %llu keys, filters of %.1f bits per key\n", (unsigned long long)kTables,
              (unsigned long long)keys_per_table, bits);

  std::mt19937_64 random(99);
  std::vector<Scan> scans(scan_count);
  for (Scan& scan : scans) scan = RandomScan(random, rows);
  uint64_t wrong = 0;
  bool is_saving = bits <= 19.5 || keys_per_table < 100000;
  std::printf("%-44s %14s %12s %6s %6s\n", "", "blocks read", "us per scan", "wrong", "time");
  for (const char* mode : {"total_order_seek", "auto_prefix_mode", "prefix_same_as_start"}) {
    ReadOptions base;
    base.total_order_seek = mode[0] == 't';
    base.auto_prefix_mode = mode[0] == 'a';
    base.prefix_same_as_start = mode[0] == 'p';
    const Result without = Run(db, scans, rows, base, nullptr), with = Run(db, scans, rows, base, filter.get());
    const auto print = [&](const char* label, const Result& result) {
      std::printf("%-22s %-21s %14.2f %12.1f %6llu %6.2f\n", mode, label, result.blocks, result.microseconds,
                  (unsigned long long)result.wrong, result.microseconds / without.microseconds);
      wrong += result.wrong;
    };
    print("without", without);
    print("with the filter", with);
    is_saving = is_saving && with.blocks <= 2.0;
  }
  delete db;
  std::filesystem::remove_all(directory);
  if (!is_saving) std::printf("expected at most 19.5 bits per key, and 2 blocks read per scan\n");
  return wrong == 0 && is_saving ? 0 : 1;
}
