#include "app/data/data_mark.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "zero/base/text/bytes.h"

namespace zero {
namespace {

constexpr std::int64_t kSamples = 16;  // samples of a split, at equal distances from the first to the last

std::uint64_t sum_of(const Array& array, std::uint64_t before) {
  return std::visit(
      [&](const auto& values) {
        const auto bytes = std::as_bytes(std::span(values));
        return XXH3_64bits_withSeed(bytes.data(), bytes.size(), before);
      },
      array.values);
}

std::uint64_t sum_of(const Dataset& split, std::uint64_t sum) {
  if (split.pass_size() == 0) return sum;
  const std::int64_t last = split.pass_size() - 1;
  for (std::int64_t k = 0; k < kSamples; ++k) {
    Batch batch;
    split.fill(std::array{split.pass_sample(last / (kSamples - 1) * k + last % (kSamples - 1) * k / (kSamples - 1))},
               batch);
    sum = sum_of(batch.target, sum_of(batch.input, sum));
  }
  return sum;
}

// The parts of a mark, in order.
std::array<std::string_view, 3> parts_of(std::string_view mark) {
  std::array<std::string_view, 3> parts;
  for (std::string_view& part : parts) {
    part = mark.substr(0, mark.find("; "));
    mark.remove_prefix(std::min(mark.size(), part.size() + 2));
  }
  return parts;
}

}  // namespace

std::string data_mark(const Corpus& corpus) {
  const SampleShape shape = corpus.train->shape();
  const bool are_tokens = shape.context > 0 && shape.vocab == 0;
  std::uint64_t sum = sum_of(*corpus.train, 0);
  if (corpus.validation) sum = sum_of(*corpus.validation, sum);
  return fmt::format("{}, {} held out; context {}; xxh3 {:016x}",
                     format_count(corpus.train->size(), are_tokens ? "token" : "row"),
                     format_count(corpus.validation ? corpus.validation->size() : 0), shape.context, sum);
}

std::string changed_data(std::string_view before, std::string_view now) {
  if (before.empty() || now.empty()) return "";
  const auto [size, context, sum] = parts_of(before);
  const auto [size_now, context_now, sum_now] = parts_of(now);
  if (size != size_now) return fmt::format("{} then, {} now", size, size_now);
  return context == context_now && sum != sum_now ? fmt::format("as much as then, {}, with other contents", size) : "";
}

}  // namespace zero
