#include "zero/base/process/process_memory.h"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace zero {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// 64 MiB of touched pages that no other process shares. The end of the scope frees them.
class Touched {
 public:
  static constexpr std::int64_t kBytes = 64 * kMiB;
  explicit Touched(int kind) : data_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0)) {
    std::memset(data_, 1, kBytes);
  }
  ~Touched() { munmap(data_, kBytes); }
  Touched(const Touched&) = delete;
  Touched& operator=(const Touched&) = delete;

 private:
  void* data_;
};

// The kernel counts pages per thread and adds them now and then, so the sum is off by up to a few hundred kB.
constexpr std::int64_t kSlack = 4 * kMiB;

TEST(ProcessMemory, TouchedPagesAreResident) {
  const auto before = resident_bytes();
  std::int64_t during = 0;
  {
    const Touched pages(MAP_PRIVATE);
    during = resident_bytes();
  }
  EXPECT_GE(during, before + Touched::kBytes - kSlack);
  EXPECT_LE(resident_bytes(), during - Touched::kBytes + kSlack);
}

TEST(ProcessMemory, ThePeakStays) {
  const auto before = resident_bytes();
  { const Touched pages(MAP_PRIVATE); }
  EXPECT_GE(peak_resident_bytes(), before + Touched::kBytes - kSlack);
  EXPECT_GE(peak_resident_bytes() + kSlack, resident_bytes());
}

TEST(ProcessMemory, OwnedPagesCountAsProportional) {
  const auto before = proportional_bytes();
  const Touched pages(MAP_SHARED);  // a shared mapping, which nobody else maps yet
  EXPECT_GE(proportional_bytes(), before + Touched::kBytes - kSlack);
}

TEST(ProcessMemory, ProportionalIsAtMostResident) {
  EXPECT_GT(proportional_bytes(), 0);
  EXPECT_LE(proportional_bytes(), resident_bytes() + kSlack);
}

}  // namespace
}  // namespace zero
