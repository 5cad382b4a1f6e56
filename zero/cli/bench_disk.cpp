// `zero bench disk`: what the disk under a folder does with large sequential requests past the page cache.
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/cli/bench.h"
#include "zero/cli/flags.h"
#include "zero/cli/measurement.h"
#include "zero/memory/host_memory.h"

namespace zero::cli {
namespace {

constexpr std::size_t kPiece = 8 << 20;

// A file without a name: gone whatever happens.
struct ScratchFile {
  FileDescriptor file;
  bool direct = true;
};

ScratchFile make_scratch(const std::string& folder) {
  std::string path = (std::filesystem::path(folder) / ".zero-bench-XXXXXX").string();
  ScratchFile out{FileDescriptor(mkostemp(path.data(), O_CLOEXEC))};
  if (out.file.get() < 0) throw ConfigError("--dir", folder, std::strerror(errno), "name a folder you may write to");
  unlink(path.c_str());
  out.direct = fcntl(out.file.get(), F_SETFL, O_DIRECT) == 0;
  return out;
}

enum class Direction { kWrite, kRead };

void transfer(const ScratchFile& scratch, Direction direction, const Allocation& piece, std::int64_t bytes) {
  for (std::int64_t at = 0; at < bytes; at += static_cast<std::int64_t>(kPiece)) {
    const ssize_t done = direction == Direction::kWrite ? pwrite(scratch.file.get(), piece.data(), kPiece, at)
                                                        : pread(scratch.file.get(), piece.data(), kPiece, at);
    const char* operation = direction == Direction::kWrite ? "write" : "read";
    if (done < 0) throw IoError("scratch file", operation, errno);
    if (done != static_cast<ssize_t>(kPiece))
      throw IoError("scratch file", operation, 0, fmt::format("{} of {} bytes", done, kPiece));
  }
  if (direction == Direction::kWrite && fdatasync(scratch.file.get()) != 0)
    throw IoError("scratch file", "sync", errno);
}

}  // namespace

int run_bench_disk(Arguments arguments) {
  CLI::App app("Measures sequential writes (synced) and reads of 8 MiB with O_DIRECT.", "zero bench disk");
  std::string folder = ".";
  std::int64_t mib = 512;
  int rounds = 3;
  bool json = false;
  app.add_option("--dir", folder, "folder on the disk to measure")->capture_default_str();
  app.add_option("--mib", mib, "MiB to write and read, rounded up to 8")
      ->capture_default_str()
      ->check(CLI::Range(8, 1 << 20));
  app.add_option("--rounds", rounds, "times each is measured")->capture_default_str()->check(CLI::Range(1, 1000));
  app.add_flag("--json", json, "as one JSON object");
  if (!parse_flags(app, arguments)) return 0;

  const std::int64_t piece_mib = kPiece >> 20;
  const std::int64_t bytes = ((mib + piece_mib - 1) / piece_mib * piece_mib) << 20;
  const ScratchFile scratch = make_scratch(folder);
  const Allocation piece = allocate_host(kPiece);
  Measurement writes, reads;
  for (int round = 0; round < rounds; ++round) {
    writes.time([&] { transfer(scratch, Direction::kWrite, piece, bytes); });
    reads.time([&] { transfer(scratch, Direction::kRead, piece, bytes); });
  }
  const auto rate = [&](double seconds) { return static_cast<double>(bytes) / 1e6 / seconds; };
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"bench", "disk"},
                                              {"dir", folder},
                                              {"bytes", bytes},
                                              {"direct", scratch.direct},
                                              {"rounds", rounds},
                                              {"write_mb_s_best", rate(writes.best())},
                                              {"write_mb_s_median", rate(writes.median())},
                                              {"read_mb_s_best", rate(reads.best())},
                                              {"read_mb_s_median", rate(reads.median())}}
                           .dump(2));
    return 0;
  }
  fmt::print("{} MiB in pieces of {} MiB, {}, {} rounds, in {}\n", bytes >> 20, piece_mib,
             scratch.direct ? "O_DIRECT" : "buffered (O_DIRECT refused: this measures memory)", rounds, folder);
  fmt::print("  {:<8}{:>12}{:>14}\n", "", "best", "median");
  fmt::print("  {:<8}{:>7.0f} MB/s{:>9.0f} MB/s\n", "write", rate(writes.best()), rate(writes.median()));
  fmt::print("  {:<8}{:>7.0f} MB/s{:>9.0f} MB/s\n", "read", rate(reads.best()), rate(reads.median()));
  return 0;
}

}  // namespace zero::cli
