// RecordedBlocks: the memory that a RecordedDevice has allocated, by address. Local.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "tests/support/device/sealed_memory.h"

namespace zero {

class RecordedBlocks {
 public:
  struct Block {
    std::size_t number;  // number from 1, in order of allocation
    std::span<std::byte> bytes;
    std::unique_ptr<SealedMemory> device;  // null: `pinned` is its memory
    Allocation pinned;
  };

  // Allocates a block. Throws ConfigError ("memory") if the system has too little memory.
  std::span<std::byte> add(std::size_t bytes, bool pinned);
  void remove(const std::byte* data);
  std::size_t size() const { return blocks_.size(); }

  // Returns the block that contains all these bytes; nullptr if there is none.
  const Block* find(std::span<const std::byte> bytes) const;
  // Returns the address at which the device itself accesses the bytes.
  std::byte* own(std::span<const std::byte> bytes) const;
  // Describes bytes: "bytes 0 to 512 of device block 3".
  std::string text(std::span<const std::byte> bytes) const;

 private:
  std::map<const std::byte*, Block> blocks_;
  std::size_t num_added_ = 0;
};

}  // namespace zero
