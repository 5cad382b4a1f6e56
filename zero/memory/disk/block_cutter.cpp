#include "zero/memory/disk/block_cutter.h"

#include <utility>

#include "zero/base/process/pages.h"

namespace zero {
namespace {

constexpr std::size_t kPageBytes = 4096;  // also the alignment that a disk needs

}  // namespace

BlockCutter::BlockCutter(Allocator allocate) : allocate_(std::move(allocate)), rest_(std::make_shared<Rest>()) {}

Allocation BlockCutter::operator()(std::size_t bytes) {
  if (bytes == 0 || bytes >= kHugePageBytes) return allocate_(bytes);
  std::shared_ptr<Allocation> page = rest_->page.lock();
  if (page == nullptr || kHugePageBytes - rest_->begin < bytes) {
    page = std::make_shared<Allocation>(allocate_(kHugePageBytes));
    *rest_ = {page, 0};
  }
  std::byte* const begin = page->data() + rest_->begin;
  rest_->begin += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  return {begin, bytes, [page = std::move(page)](std::byte*, std::size_t) {}};
}

}  // namespace zero
