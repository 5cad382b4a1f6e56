// CheckpointReader: reads any range of any state of any tensor of one checkpoint, whichever ranks wrote it.
//
//   CheckpointReader reader("runs/x/checkpoints/step-00000500");
//   reader.read(/*tensor=*/0, /*state=*/0, /*begin=*/128, values);     // 128 elements on, as fp32
//   reader.verify();                                                   // every byte of every file
//   reader.expect(0, 0, 128, 4096);                                    // before: then nothing else is read ahead
//
// Each byte is compared with its sum before it is handed out. Holds 2 to 8 blocks of 4 MiB of one file: reading on
// where the last read ended costs each block once, and finds it read ahead. Of a checkpoint whose tensors are scattered over
// its files (zero/plan/cut.h) it keeps as many blocks as `memory_bytes` have, 2 to 64, so that each is read once. Local; not thread-safe. Throws IoError:
// error_number() 0 where it is damaged.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zero/checkpoint/block_file.h"
#include "zero/checkpoint/kept_blocks.h"
#include "zero/checkpoint/manifest.h"
#include "zero/checkpoint/rank_layout.h"

namespace zero {

class CheckpointReader {
 public:
  // `memory_bytes`: of the blocks that are held, as BlocksInFlight::blocks_in() counts them.
  explicit CheckpointReader(const std::filesystem::path& folder, const FileCalls& calls = FileCalls::kernel(),
                            std::int64_t memory_bytes = std::int64_t{1} << 30);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& path() const { return path_; }
  int find(std::string_view name) const;  // the tensor's number; -1: none of that name

  // A tensor has elements of a state, or its optimizer kept none of it.
  bool has(int tensor, int state) const {
    return !pieces_[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(state)].empty();
  }
  void read(int tensor, int state, std::int64_t begin, std::span<float> out);
  // Elements that will be read, in the order in which they will be. Without any, whatever follows is read ahead.
  void expect(int tensor, int state, std::int64_t begin, std::int64_t numel);
  // The blocks of a file that expect() has named, ascending.
  std::vector<std::int64_t> expected_blocks(std::size_t file) const;
  std::vector<Extra> read_extras(int rank);
  void verify();

 private:
  struct Piece {
    std::int64_t begin, numel, offset;
    std::size_t file;
  };
  std::vector<Piece>::const_iterator piece_of(int tensor, int state, std::int64_t element) const;
  DType dtype(int tensor, int state) const;
  std::int64_t element_bytes(int tensor, int state) const;
  void hold(std::size_t file, std::int64_t block);
  void read_bytes(std::size_t file, std::int64_t offset, std::span<std::byte> out);

  std::filesystem::path path_;
  std::unique_ptr<const SourceFolder> folder_;  // of one checkpoint, whatever takes its name meanwhile
  Manifest manifest_;
  std::vector<BlockFileReader> files_;
  std::vector<std::vector<std::vector<Piece>>> pieces_;  // by tensor and state, rising
  std::size_t expected_file_ = 0;                        // that was named last
  int expected_run_ = 1;                                 // rises whenever another file is
  std::optional<KeptBlocks> kept_;                       // of a checkpoint of scattered units
  std::size_t open_file_ = 0;
  std::size_t held_file_ = 0;
  std::int64_t held_block_ = -1;
  std::span<const std::byte> held_;
};

// The manifest of a checkpoint; IoError where there is none, or a damaged one.
Manifest read_manifest(const std::filesystem::path& folder, const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
