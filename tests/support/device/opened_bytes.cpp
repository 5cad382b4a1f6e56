#include "tests/support/device/opened_bytes.h"

#include <algorithm>
#include <utility>

namespace zero {
namespace {

constexpr std::byte kUnnamed{0xFF};

}  // namespace

OpenedBytes::OpenedBytes(std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const Part& part : parts_) {
    if (part.bytes.empty()) continue;
    add_edge(part, pages_of(part.bytes.first(1)));
    add_edge(part, pages_of(part.bytes.last(1)));
  }
  for (Edge& edge : edges_)
    for (std::size_t i = 0; i < edge.page.size(); ++i)
      if (!edge.named[i]) edge.own[i] = kUnnamed;
  // Writable pages last, because a page may have bytes of both kinds.
  for (const Part& part : parts_)
    if (!part.writes) set_seal(part.bytes, Seal::kReadable);
  for (const Part& part : parts_)
    if (part.writes) set_seal(part.bytes, Seal::kWritable);
}

void OpenedBytes::add_edge(const Part& part, std::span<const std::byte> page) {
  const auto same = [&](const Edge& edge) { return edge.page.data() == page.data(); };
  if (std::ranges::any_of(edges_, same)) return;
  std::byte* const own = part.memory->own(page.data());
  Edge edge{page, own, std::vector<std::byte>(own, own + page.size()), std::vector<bool>(page.size())};
  for (const Part& other : parts_) {
    const std::byte* const begin = std::max(other.bytes.data(), page.data());
    const std::byte* const end = std::min(other.bytes.data() + other.bytes.size(), page.data() + page.size());
    if (begin < end)
      std::fill(edge.named.begin() + (begin - page.data()), edge.named.begin() + (end - page.data()), true);
  }
  edges_.push_back(std::move(edge));
}

const std::byte* OpenedBytes::close() {
  for (const Part& part : parts_) set_seal(part.bytes, Seal::kClosed);
  const std::byte* written = nullptr;
  for (const Edge& edge : edges_) {
    for (std::size_t i = 0; i < edge.page.size(); ++i) {
      if (edge.named[i]) continue;
      if (edge.own[i] != kUnnamed && written == nullptr) written = edge.page.data() + i;
      edge.own[i] = edge.before[i];
    }
  }
  parts_.clear();
  edges_.clear();
  return written;
}

}  // namespace zero
