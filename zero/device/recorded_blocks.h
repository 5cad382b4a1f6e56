// RecordedBlocks: the memory that a RecordedDevice has handed out, by address. Local.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "zero/device/sealed_memory.h"

namespace zero {

class RecordedBlocks {
 public:
  struct Block {
    std::size_t number;  // from 1, as allocated
    std::span<std::byte> bytes;
    std::unique_ptr<SealedMemory> device;  // null: `pinned` is its memory
    Allocation pinned;
  };

  // Throws ConfigError ("memory") where the system has too little.
  std::span<std::byte> add(std::size_t bytes, bool pinned);
  void remove(const std::byte* data);
  std::size_t size() const { return blocks_.size(); }

  // The block with all of these bytes; nullptr where there is none.
  const Block* find(std::span<const std::byte> bytes) const;
  // Where the device itself reads and writes the byte.
  std::byte* own(std::span<const std::byte> bytes) const;
  // "bytes 0 to 512 of device block 3"
  std::string text(std::span<const std::byte> bytes) const;

 private:
  std::map<const std::byte*, Block> blocks_;
  std::size_t num_added_ = 0;
};

}  // namespace zero
