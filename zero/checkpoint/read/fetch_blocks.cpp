#include "zero/checkpoint/read/fetch_blocks.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/base/text/bytes.h"
#include "zero/checkpoint/image/image_memory.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

// Moves between two meetings of all ranks. No rank waits longer for the others than these moves take.
constexpr std::size_t kMovesInARow = 64;

struct Block {
  std::int64_t file = 0, number = 0;
  auto operator<=>(const Block&) const = default;
};

struct Machine {
  std::set<std::int64_t> files;  // files that its launcher has
  std::set<Block> wanted;        // blocks of other files that its ranks need
};

struct BlockMove {
  Block block;
  int from = 0, to = 0;  // the first ranks of two launchers
};

std::string name_in(const std::string& folder, const SavedFile& file) {
  return fmt::format("{}/{}", folder, file.name);
}

std::int64_t bytes_of(const Manifest& manifest, const Block& block) {
  const std::int64_t size = manifest.files[static_cast<std::size_t>(block.file)].content.size_bytes;
  return std::min(kSumBlockBytes, size - block.number * kSumBlockBytes);
}

std::set<Block> wanted_of(const CheckpointReader& reader, std::int64_t file, int rank) {
  std::set<Block> wanted;
  const std::vector<SavedFile>& files = reader.manifest().files;
  for (const std::int64_t block : reader.expected_blocks(static_cast<std::size_t>(file))) wanted.insert({file, block});
  if (file != rank % std::ssize(files)) return wanted;
  for (const SavedExtra& extra : files[static_cast<std::size_t>(file)].extras) {
    const std::int64_t end = num_sum_blocks(extra.offset + extra.size_bytes);
    for (std::int64_t block = extra.offset / kSumBlockBytes; block < end; ++block) wanted.insert({file, block});
  }
  return wanted;
}

// Returns the number of files on this machine, these files, and then file and block of each block that is needed.
std::vector<std::int64_t> numbers_of(const CheckpointReader& reader, LauncherMemory& memory, const std::string& kept,
                                     int rank) {
  const std::vector<std::string> names = memory.list(kept + "/");
  const std::vector<SavedFile>& files = reader.manifest().files;
  std::vector<std::int64_t> here, wanted;
  for (std::int64_t file = 0; file < std::ssize(files); ++file) {
    if (std::ranges::binary_search(names, name_in(kept, files[static_cast<std::size_t>(file)]))) {
      here.push_back(file);
      continue;
    }
    for (const Block& block : wanted_of(reader, file, rank)) wanted.insert(wanted.end(), {block.file, block.number});
  }
  here.insert(here.begin(), std::ssize(here));
  here.insert(here.end(), wanted.begin(), wanted.end());
  return here;
}

std::vector<Machine> machines_of(const Launchers& launchers, const std::vector<std::vector<std::int64_t>>& of_ranks) {
  std::vector<Machine> machines(static_cast<std::size_t>(launchers.count()));
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const std::vector<std::int64_t>& numbers = of_ranks[rank];
    Machine& machine = machines[static_cast<std::size_t>(launchers.of(static_cast<int>(rank)))];
    const auto here = numbers.begin() + 1, wanted = here + numbers.front();
    machine.files.insert(here, wanted);
    for (auto at = wanted; at != numbers.end(); at += 2) machine.wanted.insert({at[0], at[1]});
  }
  return machines;
}

// Lists the moves in an order that is the same on all ranks, so sender and receiver are at the same move.
std::vector<BlockMove> moves_between(const std::vector<Machine>& machines, const Launchers& launchers,
                                     const Manifest& manifest, const std::string& path) {
  std::vector<BlockMove> moves;
  for (std::size_t to = 0; to < machines.size(); ++to) {
    for (const Block& block : machines[to].wanted) {
      const auto from =
          std::ranges::find_if(machines, [&](const Machine& machine) { return machine.files.contains(block.file); });
      if (from == machines.end())
        throw IoError(path, "load", 0,
                      fmt::format("no machine has {}", manifest.files[static_cast<std::size_t>(block.file)].name));
      moves.push_back({block, launchers.first_rank(static_cast<int>(from - machines.begin())),
                       launchers.first_rank(static_cast<int>(to))});
    }
  }
  return moves;
}

// Sends and receives blocks for the first rank of a launcher.
class Mover {
 public:
  Mover(Communicator& comm, LauncherMemory& memory, const FetchFolders& folders, const Manifest& manifest)
      : comm_(comm), memory_(memory), folders_(folders), manifest_(manifest) {}

  void make_files(const std::set<Block>& wanted) {
    for (const Block& block : wanted) {
      if (received_.contains(block.file)) continue;
      const SavedFile& file = manifest_.files[static_cast<std::size_t>(block.file)];
      const auto bytes = static_cast<std::size_t>(file.content.size_bytes);
      const auto made = received_.emplace(block.file, make_memory_file("zero.cpp fetched", bytes)).first;
      memory_.put(name_in(folders_.fetched, file), made->second.get());
    }
  }

  // Does its part even after a failure, because the peer waits. `failure` reports it afterwards.
  void move(const BlockMove& next, std::string& failure) {
    if (next.from != comm_.rank() && next.to != comm_.rank()) return;
    buffer_.resize(static_cast<std::size_t>(bytes_of(manifest_, next.block)));
    const CommTag tag{.control = true};
    if (next.from == comm_.rank()) {
      note(failure, [&] { read(next.block); });
      comm_.send(buffer_, next.to, tag).wait();
      comm_.drain();
    } else {
      comm_.receive(buffer_, next.from, tag).wait();
      note(failure, [&] { write(next.block); });
    }
  }

 private:
  static void note(std::string& failure, const std::function<void()>& body) {
    const std::string own = failure_of(body);
    if (failure.empty()) failure = own;
  }

  void read(const Block& block) {
    const SavedFile& file = manifest_.files[static_cast<std::size_t>(block.file)];
    if (!sent_.contains(block.file)) {
      std::optional<FileDescriptor> found = memory_.get(name_in(folders_.kept, file));
      if (!found) throw IoError(file.name, "read", ENOENT);
      sent_.emplace(block.file, std::move(*found));
    }
    if (::pread(sent_.at(block.file).get(), buffer_.data(), buffer_.size(), block.number * kSumBlockBytes) !=
        std::ssize(buffer_))
      throw IoError(file.name, fmt::format("read {} bytes", buffer_.size()), errno);
  }

  void write(const Block& block) const {
    if (::pwrite(received_.at(block.file).get(), buffer_.data(), buffer_.size(), block.number * kSumBlockBytes) !=
        std::ssize(buffer_))
      throw IoError(manifest_.files[static_cast<std::size_t>(block.file)].name,
                    fmt::format("write {} bytes", buffer_.size()), errno);
  }

  Communicator& comm_;
  LauncherMemory& memory_;
  const FetchFolders& folders_;
  const Manifest& manifest_;
  std::map<std::int64_t, FileDescriptor> sent_, received_;  // by file
  std::vector<std::byte> buffer_;
};

}  // namespace

Charge fetch_blocks(const EngineResources& engine, const Launchers& launchers, LauncherMemory& memory,
                    const FetchFolders& folders, const CheckpointReader& reader) {
  Communicator& comm = engine.comm;
  const Manifest& manifest = reader.manifest();
  const int rank = comm.rank();
  std::vector<std::int64_t> mine;
  require_same_failure(comm, folders.kept, [&] { mine = numbers_of(reader, memory, folders.kept, rank); });
  const std::vector<Machine> machines = machines_of(launchers, all_gather_numbers(comm, mine));
  const std::vector<BlockMove> moves = moves_between(machines, launchers, manifest, folders.kept);
  if (moves.empty()) return {};

  const Machine& machine = machines[static_cast<std::size_t>(launchers.of(rank))];
  std::int64_t bytes = 0;
  for (const Block& block : machine.wanted) bytes += bytes_of(manifest, block);
  const int sharing = engine.local_world;
  if (!memory_has_room(engine, (bytes + sharing - 1) / sharing))
    throw IoError(folders.kept, "load", 0,
                  "a machine has no memory for the blocks that its ranks read from other machines");

  Charge charge;
  Mover mover(comm, memory, folders, manifest);
  require_same_failure(comm, folders.kept, [&] {
    if (!launchers.is_first(rank)) return;
    charge = Charge(engine.ledger, Tier::kHost, MemoryTag::kStaging, bytes);
    mover.make_files(machine.wanted);
  });
  for (std::size_t at = 0; at < moves.size();) {
    const std::size_t end = std::min(at + kMovesInARow, moves.size());
    std::string failure;
    for (; at < end; ++at) mover.move(moves[at], failure);
    require_same_outcome(comm, folders.kept, failure);
  }
  return charge;
}

}  // namespace zero
