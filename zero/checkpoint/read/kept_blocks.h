// KeptBlocks: copies of blocks of a checkpoint's files, for reads that alternate between files.
//
//   KeptBlocks kept(most);
//   if (const auto* bytes = kept.find(file, block)) ...              // valid until the next keep()
//   else bytes = kept.keep(file, block, reader.read_block(block));   // replaces the least recently used block
//
// Local.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zero {

class KeptBlocks {
 public:
  explicit KeptBlocks(std::size_t most) : most_(most) {}

  const std::vector<std::byte>* find(std::size_t file, std::int64_t block) {
    const auto found =
        std::ranges::find_if(blocks_, [&](const Block& kept) { return kept.file == file && kept.number == block; });
    if (found == blocks_.end()) return nullptr;
    found->used = ++num_uses_;
    return &found->bytes;
  }

  const std::vector<std::byte>* keep(std::size_t file, std::int64_t block, std::span<const std::byte> bytes) {
    if (blocks_.size() < most_) blocks_.emplace_back();
    Block& place = *std::ranges::min_element(blocks_, {}, &Block::used);
    place.file = file;
    place.number = block;
    place.used = ++num_uses_;
    place.bytes.assign(bytes.begin(), bytes.end());
    return &place.bytes;
  }

 private:
  struct Block {
    std::size_t file = 0;
    std::int64_t number = -1;
    std::int64_t used = 0;  // number of its last use; 0: never
    std::vector<std::byte> bytes;
  };
  std::size_t most_;
  std::int64_t num_uses_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace zero
