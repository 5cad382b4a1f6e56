// CheckpointReader: reads any range of any state of any tensor of a checkpoint, whichever ranks wrote it.
//
//   CheckpointReader reader("runs/x/checkpoints/step-00000500");
//   reader.read(/*tensor=*/0, /*state=*/0, /*begin=*/128, values);     // elements from 128 on, as fp32
//   reader.verify();                                                   // every byte of every file
//   reader.expect(0, 0, 128, 4096);                                    // before reads: only this is read ahead
//
// Each byte is compared with its sum before it is returned. The reader holds 2 to 8 blocks of 4 MiB of one file. A read
// that continues where the last one ended reads each block once, and finds it read ahead. If tensors are scattered over
// the files (zero/plan/units/cut.h), each block is still read once: the reader keeps 2 to 64 blocks, as `memory_bytes`
// allows. Local; not thread-safe. Throws IoError, with error_number() 0 if the checkpoint is damaged.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/image/rank_layout.h"
#include "zero/checkpoint/read/kept_blocks.h"
#include "zero/checkpoint/safetensors/block_file.h"

namespace zero {

class CheckpointReader {
 public:
  // `memory_bytes`: for the blocks in memory, as BlocksInFlight::blocks_in() counts them.
  explicit CheckpointReader(const std::filesystem::path& folder, const FileCalls& calls = FileCalls::kernel(),
                            std::int64_t memory_bytes = std::int64_t{1} << 30);

  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& path() const { return path_; }
  int find(std::string_view name) const;  // the tensor's number; -1: no tensor has that name

  // Returns true if the tensor has elements of the state; false if its optimizer kept none.
  bool has(int tensor, int state) const {
    return !pieces_[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(state)].empty();
  }
  void read(int tensor, int state, std::int64_t begin, std::span<float> out);
  // Announces elements that will be read, in the order of reading. Without any announcement, the next blocks of the
  // file are read ahead.
  void expect(int tensor, int state, std::int64_t begin, std::int64_t numel);
  // Returns the blocks of a file that expect() has announced, ascending.
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
  std::unique_ptr<const SourceFolder> folder_;  // stays that of one checkpoint, whatever takes its name meanwhile
  Manifest manifest_;
  std::vector<BlockFileReader> files_;
  std::vector<std::vector<std::vector<Piece>>> pieces_;  // by tensor and state, ascending
  std::size_t expected_file_ = 0;                        // the file that was announced last
  int expected_run_ = 1;            // stretch of the announcements; grows when they change to another file
  std::optional<KeptBlocks> kept_;  // set if units are scattered
  std::size_t open_file_ = 0;
  std::size_t held_file_ = 0;
  std::int64_t held_block_ = -1;
  std::span<const std::byte> held_;
};

// Returns the manifest of a checkpoint. Throws IoError if it is missing or damaged.
Manifest read_manifest(const std::filesystem::path& folder, const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
