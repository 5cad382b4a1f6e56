#include "app/launch/ranks/line_merger.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace zero {

std::string rank_prefix(std::span<const int> ranks) {
  std::string list;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    list += end - i == 1 ? fmt::format(" {}", ranks[i]) : fmt::format(" {}-{}", ranks[i], ranks[end - 1]);
    i = end;
  }
  return fmt::format("[rank{}{}] ", ranks.size() > 1 ? "s" : "", list);
}

void LineMerger::add(int rank, std::string line, Time now) {
  // Newest first: the rank may join an entry after its own last line. To join an earlier entry would change the order
  // of its lines.
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    const auto place = std::lower_bound(entry->ranks.begin(), entry->ranks.end(), rank);
    if (place != entry->ranks.end() && *place == rank) break;
    if (entry->line == line) {
      entry->ranks.insert(place, rank);
      return;
    }
  }
  held_bytes_ += line.size();
  entries_.push_back({std::move(line), {rank}, now + patience_});
}

std::string LineMerger::pop() {
  const Entry entry = std::move(entries_.front());
  entries_.pop_front();
  held_bytes_ -= entry.line.size();
  return rank_prefix(entry.ranks) + entry.line;
}

std::vector<std::string> LineMerger::take(Time now) {
  std::vector<std::string> lines;
  while (!entries_.empty() &&
         (entries_.front().due <= now || static_cast<int>(entries_.front().ranks.size()) == num_ranks_)) {
    lines.push_back(pop());
  }
  return lines;
}

std::vector<std::string> LineMerger::take_all() {
  std::vector<std::string> lines;
  while (!entries_.empty()) lines.push_back(pop());
  return lines;
}

std::optional<LineMerger::Time> LineMerger::due() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().due;
}

void LineSplitter::feed(std::string_view bytes, std::vector<std::string>& lines) {
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    partial_ += bytes.substr(0, newline);
    bytes.remove_prefix(newline == std::string_view::npos ? bytes.size() : newline + 1);
    if (newline != std::string_view::npos || partial_.size() >= kLongestLine) {
      lines.push_back(std::move(partial_));
      partial_.clear();
    }
  }
}

std::optional<std::string> LineSplitter::rest() {
  if (partial_.empty()) return std::nullopt;
  return std::exchange(partial_, {});
}

}  // namespace zero
