#include "zero/serve/pulled_weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "zero/base/error/check.h"
#include "zero/memory/account/host_memory.h"

namespace zero {
namespace {

constexpr std::int64_t kAtOnce = 1024;  // elements of a block that stays in cache

}  // namespace

PulledWeights::PulledWeights(int workers, std::int64_t bytes_each, Ledger& ledger)
    : bytes_each_(static_cast<std::size_t>(bytes_each)),
      memory_(allocate_host(static_cast<std::size_t>(workers) * bytes_each_), ledger, Tier::kDevice,
              MemoryTag::kStaging) {}

void PulledWeights::keep(int worker, std::span<const std::byte> version) {
  ZERO_CHECK(version.size() == bytes_each_, "a version of {} bytes, not {}", version.size(), bytes_each_);
  std::memcpy(memory_.data() + static_cast<std::size_t>(worker) * bytes_each_, version.data(), bytes_each_);
}

std::span<const std::byte> PulledWeights::of(int worker) const {
  return memory_.bytes().subspan(static_cast<std::size_t>(worker) * bytes_each_, bytes_each_);
}

void compensate(std::byte* gradient, DType gradient_dtype, const std::byte* now, const std::byte* then,
                DType weight_dtype, std::int64_t numel, float lambda) {
  std::array<float, kAtOnce> g, w, before;
  const auto read = [](const std::byte* from, DType dtype, std::int64_t begin, std::int64_t count, auto& to) {
    convert_elements(from + begin * static_cast<std::int64_t>(size_of(dtype)), dtype,
                     reinterpret_cast<std::byte*>(to.data()), DType::kFloat32, count);
  };
  for (std::int64_t begin = 0; begin < numel; begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, numel - begin);
    read(gradient, gradient_dtype, begin, count, g);
    read(now, weight_dtype, begin, count, w);
    read(then, weight_dtype, begin, count, before);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) g[i] += lambda * g[i] * g[i] * (w[i] - before[i]);
    convert_elements(reinterpret_cast<const std::byte*>(g.data()), DType::kFloat32,
                     gradient + begin * static_cast<std::int64_t>(size_of(gradient_dtype)), gradient_dtype, count);
  }
}

}  // namespace zero
