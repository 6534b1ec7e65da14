// Measures sst_policy.h against LevelDB's built-in Bloom filter, and checks that no key is lost: in a store as it is,
// with flipped bits on disk, between programs with and without the policy, with threads, after a crash and a repair.
//
//   bench FOLDER [short]        FOLDER must not exist; short: fewer keys, and checks of the two targets
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/table.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "sst_policy.h"

namespace {

using leveldb::DB;
using leveldb::Options;
using leveldb::ReadOptions;
using leveldb::Slice;
using leveldb::Status;

std::string root;
constexpr double kRate = 1.0 / 128;
int failures = 0;
// The short form has fewer.
uint64_t small_keys = 60000, bits_at_end = 512;

void Check(const char* what, bool is_right, const std::string& figures) {
  std::printf("%-58s %s  %s\n", what, is_right ? "ok    " : "FAILED", figures.c_str());
  std::fflush(stdout);
  failures += !is_right;
}

void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(2);
}

// Even numbers are present, odd ones are absent and lie between them.
std::string Key(uint64_t number) {
  char key[24];
  std::snprintf(key, sizeof key, "%016llu", static_cast<unsigned long long>(number));
  return key;
}

std::string Value(uint64_t number) {
  std::string value(100, ' ');
  for (char& byte : value) {
    number = number * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(number >> 56);
  }
  return value;
}

// Counts reads of tables.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}
  Status NewRandomAccessFile(const std::string& name, leveldb::RandomAccessFile** file) override {
    const Status status = target()->NewRandomAccessFile(name, file);
    if (status.ok()) *file = new File(*file, &reads);
    return status;
  }
  std::atomic<uint64_t> reads{0};

 private:
  struct File : leveldb::RandomAccessFile {
    File(leveldb::RandomAccessFile* base, std::atomic<uint64_t>* reads) : base(base), reads(reads) {}
    Status Read(uint64_t offset, size_t bytes, Slice* result, char* scratch) const override {
      ++*reads;
      return base->Read(offset, bytes, result, scratch);
    }
    const std::unique_ptr<leveldb::RandomAccessFile> base;
    std::atomic<uint64_t>* const reads;
  };
};

CountingEnv counting;

// LevelDB with a policy, or without one.
struct Setup {
  explicit Setup(sst::TableFilters* ours) : Setup() {
    options.filter_policy = ours;
    options.env = ours;
  }
  explicit Setup(int built_in_bits) : Setup() {
    built_in.reset(leveldb::NewBloomFilterPolicy(built_in_bits));
    options.filter_policy = built_in.get();
  }
  Setup() : cache(leveldb::NewLRUCache(0)) {
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    options.block_cache = cache.get();
    options.env = &counting;
  }

  std::unique_ptr<DB> Open(const std::string& name) const {
    DB* db = nullptr;
    Must(DB::Open(options, root + "/" + name, &db));
    return std::unique_ptr<DB>(db);
  }

  const std::unique_ptr<leveldb::Cache> cache;
  std::unique_ptr<const leveldb::FilterPolicy> built_in;
  Options options;
};

void Fill(const Setup& setup, const std::string& name, uint64_t keys, uint64_t first = 0) {
  std::vector<uint64_t> order(keys);
  for (uint64_t i = 0; i < keys; i++) order[i] = first + 2 * i;
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  const auto db = setup.Open(name);
  for (uint64_t number : order) Must(db->Put({}, Key(number), Value(number)));
  db->CompactRange(nullptr, nullptr);
}

struct Answers {
  uint64_t lost = 0, wrong = 0;
  void operator+=(const Answers& more) { lost += more.lost, wrong += more.wrong; }
  bool AllRight() const { return lost + wrong == 0; }
  std::string Text() const { return std::to_string(lost) + " lost, " + std::to_string(wrong) + " wrong"; }
};

// Reads the present keys from `first` to `last`.
Answers ReadPresent(DB* db, uint64_t first, uint64_t last) {
  Answers answers;
  std::string value;
  for (uint64_t number = first; number <= last; number += 2) {
    if (!db->Get({}, Key(number), &value).ok()) {
      answers.lost++;
    } else if (value != Value(number)) {
      answers.wrong++;
    }
  }
  return answers;
}

// A table's file, its keys, and its filter block with LevelDB's trailer.
struct TableFile {
  std::string name;
  uint64_t first, last, offset, bytes;
};

uint64_t Varint(const char** from) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(*(*from)++);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
}

// Reads the tables of a store; `bytes` is 0 if a table has no filter block.
std::vector<TableFile> Tables(const std::string& name) {
  leveldb::Env* env = leveldb::Env::Default();
  std::vector<std::string> children;
  Must(env->GetChildren(root + "/" + name, &children));
  std::vector<TableFile> tables;
  for (const std::string& child : children) {
    if (child.size() < 4 || child.substr(child.size() - 4) != ".ldb") continue;
    TableFile table{root + "/" + name + "/" + child, 0, 0, 0, 0};
    std::ifstream stream(table.name, std::ios::binary);
    const std::string file((std::istreambuf_iterator<char>(stream)), {});
    // The footer begins with the handle of the metaindex block. Its first entry is that of the filter block.
    const char* from = file.data() + file.size() - 48;
    const char* meta = file.data() + Varint(&from);
    const uint64_t meta_bytes = Varint(&from);
    if (meta_bytes > 8) {
      Varint(&meta);
      const uint64_t key_bytes = Varint(&meta);
      Varint(&meta);
      meta += key_bytes;
      table.offset = Varint(&meta);
      table.bytes = Varint(&meta) + 5;
    }
    leveldb::RandomAccessFile* random_file;
    leveldb::Table* reader;
    Must(env->NewRandomAccessFile(table.name, &random_file));
    Must(leveldb::Table::Open({}, random_file, file.size(), &reader));
    leveldb::Iterator* iterator = reader->NewIterator({});
    iterator->SeekToFirst();
    table.first = std::stoull(iterator->key().ToString().substr(0, 16));
    iterator->SeekToLast();
    table.last = std::stoull(iterator->key().ToString().substr(0, 16));
    delete iterator;
    delete reader;
    delete random_file;
    tables.push_back(table);
  }
  return tables;
}

double BitsPerKey(const std::vector<TableFile>& tables, uint64_t keys) {
  uint64_t bytes = 0;
  for (const TableFile& table : tables) bytes += table.bytes;
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(keys);
}

struct Figures {
  double bits = 0, blocks = 0;
};

Figures Measure(const Setup& setup, const std::string& name, uint64_t keys, const sst::TableFilters* ours) {
  Fill(setup, name, keys);
  Figures figures;
  const auto tables = Tables(name);
  figures.bits = BitsPerKey(tables, keys);
  const auto db = setup.Open(name);
  const Answers answers = ReadPresent(db.get(), 0, 2 * keys - 2);
  // All tables are open now. Without a block cache, what is read is one data block at a time.
  counting.reads = 0;
  uint64_t ghosts = 0;
  std::string value;
  const std::clock_t before = std::clock();
  for (uint64_t number = 1; number < 2 * keys; number += 2) ghosts += db->Get({}, Key(number), &value).ok();
  figures.blocks = static_cast<double>(counting.reads) / static_cast<double>(keys);
  const double ns = 1e9 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / static_cast<double>(keys);
  std::printf("%-14s %8.2f %18.4f %10.0f %10llu %7llu %9llu %8zu\n", name.c_str(), figures.bits, figures.blocks, ns,
              static_cast<unsigned long long>(answers.lost), static_cast<unsigned long long>(answers.wrong + ghosts),
              static_cast<unsigned long long>(ours ? ours->misfits() : 0), tables.size());
  std::fflush(stdout);
  failures += !answers.AllRight() || ghosts > 0 || (ours != nullptr && ours->misfits() > 0);
  return figures;
}

// Flips one bit of the file, opens the store, reads all keys of the table, and flips the bit back.
Answers ReadWithFlip(const Setup& setup, const std::string& name, const TableFile& table, uint64_t bit) {
  const auto flip = [&] {
    std::fstream file(table.name, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(table.offset + bit / 8);
    file.seekg(at);
    const int byte = file.get();
    file.seekp(at);
    file.put(static_cast<char>(byte ^ 1 << bit % 8));
  };
  flip();
  const Answers answers = ReadPresent(setup.Open(name).get(), table.first, table.last);
  flip();
  return answers;
}

// Flips bits one after another: `flips` anywhere in filter blocks, or each bit of the last bytes of the smallest one.
// Without a setup, each flip gets a new policy, which has not seen the intact block.
Answers ReadWithFlips(const Setup* setup, const std::string& name, bool is_anywhere, uint64_t flips) {
  const auto tables = Tables(name);
  const TableFile& smallest = *std::min_element(
      tables.begin(), tables.end(), [](const TableFile& a, const TableFile& b) { return a.bytes < b.bytes; });
  std::mt19937_64 random(2);
  Answers all;
  uint64_t losing = 0, refused = 0;
  for (uint64_t i = 0; i < flips; i++) {
    const TableFile& table = is_anywhere ? tables[random() % tables.size()] : smallest;
    const uint64_t bit = is_anywhere ? random() % (8 * table.bytes) : 8 * table.bytes - 1 - i;
    sst::TableFilters policy(&counting, kRate);
    const Setup fresh(&policy);
    const Answers answers = ReadWithFlip(setup == nullptr ? fresh : *setup, name, table, bit);
    losing += !answers.AllRight();
    refused += policy.unusable() > 0;
    all += answers;
  }
  std::printf("%-14s %-10s %10s %11llu %10llu %10llu", name.c_str(), is_anywhere ? "anywhere" : "at the end",
              setup == nullptr ? "new" : "the same", static_cast<unsigned long long>(flips),
              static_cast<unsigned long long>(losing), static_cast<unsigned long long>(all.lost + all.wrong));
  std::printf(setup == nullptr ? " %14llu\n" : "\n", static_cast<unsigned long long>(refused));
  std::fflush(stdout);
  return all;
}

void CheckOtherPrograms(const Setup& ours, const sst::TableFilters& policy) {
  const Setup plain, built_in(10);
  Fill(ours, "shared", small_keys);
  Answers answers = ReadPresent(plain.Open("shared").get(), 0, 2 * small_keys - 2);
  answers += ReadPresent(built_in.Open("shared").get(), 0, 2 * small_keys - 2);
  Check("ours, read without a policy and with the built-in one", answers.AllRight(), answers.Text());

  const uint64_t unusable = policy.unusable();
  Fill(built_in, "foreign", small_keys);
  answers = ReadPresent(ours.Open("foreign").get(), 0, 2 * small_keys - 2);
  Check("built-in, read with ours", answers.AllRight() && policy.unusable() == unusable, answers.Text());
}

// The filter block's checksum, which LevelDB compares only with this option: if it were wrong, tables had no filter.
void CheckParanoid(const std::string& name, uint64_t keys) {
  sst::TableFilters policy(&counting, kRate);
  Setup ours(&policy);
  ours.options.paranoid_checks = true;
  const auto db = ours.Open(name);
  const Answers answers = ReadPresent(db.get(), 0, 2 * keys - 2);
  counting.reads = 0;
  std::string value;
  for (uint64_t number = 1; number < 2 * keys; number += 2) db->Get({}, Key(number), &value);
  const double blocks = static_cast<double>(counting.reads) / static_cast<double>(keys);
  Check("paranoid_checks", answers.AllRight() && blocks <= 0.010,
        answers.Text() + ", " + std::to_string(blocks) + " blocks read per absent Get");
}

void CheckSizes(Setup* ours, const sst::TableFilters& policy) {
  const uint64_t misfits = policy.misfits();
  Answers answers;
  int stores = 0;
  for (const size_t block_size : {1024u, 4096u, 65536u}) {
    for (uint64_t keys = 1; keys < small_keys / 15; keys += 1 + keys / 3, stores++) {
      const std::string name = "size-" + std::to_string(block_size) + "-" + std::to_string(keys);
      ours->options.block_size = block_size;
      Fill(*ours, name, keys);
      answers += ReadPresent(ours->Open(name).get(), 0, 2 * keys - 2);
    }
  }
  ours->options.block_size = 4096;
  const uint64_t more = policy.misfits() - misfits;
  Check("tables of few keys, three block sizes", answers.AllRight() && more == 0,
        answers.Text() + ", " + std::to_string(more) + " misfits in " + std::to_string(stores) + " stores");
}

// Snappy, and values that compress well: less data for each key, so fewer offsets of LevelDB.
void CheckCompressed(Setup* ours, const sst::TableFilters& policy) {
  const uint64_t misfits = policy.misfits();
  ours->options.compression = leveldb::kSnappyCompression;
  uint64_t lost = 0;
  {
    const auto db = ours->Open("snappy");
    for (uint64_t i = 0; i < small_keys; i++) Must(db->Put({}, Key(i * 7919 % small_keys), std::string(100, 'v')));
    db->CompactRange(nullptr, nullptr);
    std::string value;
    for (uint64_t i = 0; i < small_keys; i++) {
      lost += !db->Get({}, Key(i), &value).ok() || value != std::string(100, 'v');
    }
  }
  ours->options.compression = leveldb::kNoCompression;
  const uint64_t more = policy.misfits() - misfits;
  char text[99];
  std::snprintf(text, sizeof text, "%llu lost, %llu misfits, %.2f bits per key", static_cast<unsigned long long>(lost),
                static_cast<unsigned long long>(more), BitsPerKey(Tables("snappy"), small_keys));
  Check("Snappy", lost + more == 0, text);
}

// LevelDB frees the filter block of a closed table, and may read another one of the same length to its address.
void CheckReusedAddress(const Setup& ours, const sst::TableFilters& policy) {
  std::string buffer;
  uint64_t lost = 0, reused = 0;
  for (uint64_t store = 0; store < 5; store++) {
    const std::string name = "reused-" + std::to_string(store);
    Fill(ours, name, 3000, 6000 * store);
    const TableFile table = Tables(name)[0];
    std::ifstream stream(table.name, std::ios::binary);
    std::string block(table.bytes - 5, ' ');
    stream.seekg(static_cast<std::streamoff>(table.offset)).read(&block[0], static_cast<std::streamsize>(block.size()));
    uint32_t begin, end;
    std::memcpy(&begin, &block[block.size() - 9], sizeof begin);
    std::memcpy(&end, &block[block.size() - 5], sizeof end);
    const std::string filter = block.substr(begin, end - begin);
    if (buffer.empty()) buffer = filter;
    if (buffer.size() != filter.size()) continue;
    std::copy(filter.begin(), filter.end(), buffer.begin());
    reused++;
    for (uint64_t i = table.first; i <= table.last; i += 2) lost += !policy.KeyMayMatch(Key(i), buffer);
  }
  Check("blocks of several tables at one address", lost == 0 && reused > 1,
        std::to_string(lost) + " lost, " + std::to_string(reused) + " tables");
}

// A policy that reserves too few bytes.
struct TightPolicy : sst::TableFilters {
  using TableFilters::TableFilters;
  void CreateFilter(const Slice* keys, int n, std::string* dst) const override {
    sst::last_file_bytes = 1 << 30;
    TableFilters::CreateFilter(keys, n, dst);
  }
};

void CheckMisfits() {
  TightPolicy policy(&counting, kRate);
  const Setup tight(&policy);
  Fill(tight, "misfits", small_keys);
  Answers answers = ReadPresent(tight.Open("misfits").get(), 0, 2 * small_keys - 2);
  answers += ReadWithFlips(&tight, "misfits", false, bits_at_end);
  Check("tables whose filter does not fit, also with flipped bits",
        answers.AllRight() && policy.misfits() > 0 && policy.tables() == 0,
        answers.Text() + ", " + std::to_string(policy.misfits()) + " misfits");
}

void CheckThreads(Setup* ours, const sst::TableFilters& policy) {
  const uint64_t before = policy.tables(), misfits = policy.misfits();
  Fill(*ours, "threads", small_keys);
  ours->options.write_buffer_size = 64 << 10;
  const auto db = ours->Open("threads");
  std::atomic<bool> is_done{false};
  std::vector<Answers> answers(4);
  std::vector<std::thread> readers;
  for (size_t reader = 0; reader < answers.size(); reader++) {
    readers.emplace_back([&, reader] {
      std::mt19937_64 random(reader);
      while (!is_done) {
        const uint64_t number = 2 * (random() % small_keys);
        answers[reader] += ReadPresent(db.get(), number, number);
      }
    });
  }
  for (uint64_t i = 0; i < small_keys; i++) {
    const uint64_t number = i * 7919 % small_keys * 2;
    Must(db->Put({}, Key(number), Value(number)));
  }
  db->CompactRange(nullptr, nullptr);
  is_done = true;
  for (std::thread& reader : readers) reader.join();
  ours->options.write_buffer_size = Options().write_buffer_size;
  for (size_t reader = 1; reader < answers.size(); reader++) answers[0] += answers[reader];
  Check("four readers during writes and compactions", answers[0].AllRight() && policy.misfits() == misfits,
        answers[0].Text() + ", " + std::to_string(policy.tables() - before) + " tables");
}

void CheckRepair(const Setup& ours, const sst::TableFilters& policy) {
  const uint64_t misfits = policy.misfits();
  Fill(ours, "repair", small_keys);
  {
    const auto db = ours.Open("repair");  // RepairDB makes a table of what is in the log
    for (uint64_t i = small_keys; i < small_keys + 1000; i++) Must(db->Put({}, Key(2 * i), Value(2 * i)));
  }
  Must(ours.options.env->RemoveFile(root + "/repair/CURRENT"));
  Must(leveldb::RepairDB(root + "/repair", ours.options));
  const Answers answers = ReadPresent(ours.Open("repair").get(), 0, 2 * (small_keys + 999));
  Check("RepairDB without CURRENT", answers.AllRight() && policy.misfits() == misfits, answers.Text());
}

// Kills a writer at a random time, again and again. Each one first reads what the former ones had written. To be called
// before any other use of LevelDB, because its background thread does not survive a fork.
void CheckCrashes(int rounds) {
  struct Shared {
    std::atomic<uint64_t> written, lost;
  };
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* shared = new (memory) Shared{};
  std::mt19937_64 random(3);
  const auto write = [&](bool only_reads) {
    sst::TableFilters policy(&counting, kRate);
    Setup ours(&policy);
    ours.options.write_buffer_size = 64 << 10;
    const auto db = ours.Open("crashes");
    const uint64_t before = shared->written;
    if (before > 0) {
      const Answers answers = ReadPresent(db.get(), 0, 2 * before - 2);
      shared->lost += answers.lost + answers.wrong;
    }
    if (only_reads) return;
    for (uint64_t i = before;; i++) {
      Must(db->Put({}, Key(2 * i), Value(2 * i)));
      shared->written = i + 1;
    }
  };
  for (int round = 0; round < rounds; round++) {
    const pid_t child = fork();
    if (child == 0) write(false);
    usleep(static_cast<useconds_t>(100000 + random() % 200000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  write(true);
  Check("a writer that is killed", shared->lost == 0 && shared->written > 0,
        std::to_string(shared->lost) + " lost of " + std::to_string(shared->written) + ", " + std::to_string(rounds) +
            " times");
}

int Run(bool is_short) {
  const uint64_t keys = is_short ? 60000 : 500000;
  if (is_short) small_keys = 20000, bits_at_end = 8 * 14;
  const uint64_t flips = is_short ? 40 : 300;
  CheckCrashes(is_short ? 5 : 20);

  sst::TableFilters policy(&counting, kRate);
  Setup ours(&policy), built_in(10), none;
  std::printf("\n%llu keys %%016d, even numbers, values of 100 bytes, random order, compacted, reopened, no cache\n",
              static_cast<unsigned long long>(keys));
  std::printf("filter         bits/key  blocks/absent Get     CPU ns  keys lost   wrong   misfits   tables\n");
  if (!is_short) Measure(none, "none", keys, nullptr);
  Measure(built_in, "built-in-10", keys, nullptr);
  const Figures figures = Measure(ours, "ours", keys, &policy);
  std::printf("\n");
  Check("at most 8.3 filter bits per key in the file", figures.bits <= 8.3, std::to_string(figures.bits));
  Check("at most 0.010 data blocks read per absent Get", figures.blocks <= 0.010, std::to_string(figures.blocks));

  std::printf("\nbits of filter blocks flipped on disk, one after another, default options\n");
  std::printf("filter         bit        policy            flips  that lost  keys lost  block refused\n");
  ReadWithFlips(&built_in, "built-in-10", true, flips);
  Answers damaged = ReadWithFlips(nullptr, "ours", true, flips);
  damaged += ReadWithFlips(&ours, "ours", true, flips);
  damaged += ReadWithFlips(nullptr, "ours", false, bits_at_end);
  Check("no key lost by a flipped bit", damaged.AllRight(), damaged.Text());

  std::printf("\n");
  CheckParanoid("ours", keys);
  CheckReusedAddress(ours, policy);
  CheckMisfits();
  CheckOtherPrograms(ours, policy);
  CheckSizes(&ours, policy);
  CheckCompressed(&ours, policy);
  CheckThreads(&ours, policy);
  CheckRepair(ours, policy);
  return failures == 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "expected a folder\n");
    return 2;
  }
  root = arguments[1];
  Must(leveldb::Env::Default()->CreateDir(root));
  return Run(count > 2 && std::string(arguments[2]) == "short");
}
