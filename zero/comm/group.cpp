#include "zero/comm/group.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::size_t kMostShownRanks = 8;

// Formats ranks: "ranks 0, 2", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 56 more".
std::string name_ranks(const std::vector<int>& ranks) {
  const std::size_t shown = std::min(ranks.size(), kMostShownRanks);
  const std::string more = shown < ranks.size() ? fmt::format(" and {} more", ranks.size() - shown) : "";
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s",
                     fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "), more);
}

// The text that a rank sends to the others when it opens a group, and its parsed form: "4 0,1 copy 0".
struct Announcement {
  std::uint64_t newest = 0;
  std::string group;  // "0,1 copy 0"; empty: none

  static std::string text(std::uint64_t newest, const std::vector<int>& ranks, const std::string& name) {
    return ranks.empty() ? fmt::format("{} ", newest) : fmt::format("{} {} {}", newest, fmt::join(ranks, ","), name);
  }
  explicit Announcement(const std::string& text) {
    const std::size_t space = text.find(' ');
    std::from_chars(text.data(), text.data() + std::min(space, text.size()), newest);
    if (space != std::string::npos) group = text.substr(space + 1);
  }
  std::vector<int> ranks() const {
    std::vector<int> ranks;
    const char* at = group.data();
    const char* const end = at + std::min(group.find(' '), group.size());
    for (int rank = 0; at < end; ++at) {
      at = std::from_chars(at, end, rank).ptr;
      ranks.push_back(rank);
    }
    return ranks;
  }
};

// All ranks see all announcements, so they throw the same error, about the first group that does not agree.
void require_agreement(const std::vector<Announcement>& said, const GroupOpener& opener) {
  const auto opens = [&](int rank) {
    const std::string& group = said[static_cast<std::size_t>(rank)].group;
    return fmt::format("rank {} opens {}", opener.world_rank(rank), group.empty() ? "none" : "'" + group + "'");
  };
  for (int rank = 0; rank < std::ssize(said); ++rank) {
    for (const int other : said[static_cast<std::size_t>(rank)].ranks()) {
      if (said[static_cast<std::size_t>(other)].group == said[static_cast<std::size_t>(rank)].group) continue;
      throw CommError(-1, "opening a group", fmt::format("ranks disagree: {}, {}", opens(rank), opens(other)));
    }
  }
}

}  // namespace

std::string GroupPlace::text() const {
  return fmt::format("{} ({})", name, name_ranks(ranks));
}

std::string GroupPlace::suffix() const {
  return " of group " + text();
}

std::unique_ptr<Communicator> open_alone(Communicator& parent, const std::string& name) {
  GroupOpener* const opener = parent.groups();
  ZERO_CHECK(opener != nullptr, "the transport {} has no groups", parent.transport());
  return opener->open(
      {.name = name, .ranks = {opener->world_rank(parent.rank())}, .number = opener->newest_group() + 1});
}

std::unique_ptr<Communicator> open_group(Communicator& parent, const std::vector<int>& ranks, const std::string& name) {
  GroupOpener* const opener = parent.groups();
  ZERO_CHECK(opener != nullptr, "the transport {} has no groups", parent.transport());
  const auto own = std::ranges::lower_bound(ranks, parent.rank());
  ZERO_CHECK(ranks.empty() || (own != ranks.end() && *own == parent.rank()),
             "rank {} opens group {} of {}, without itself", parent.rank(), name, name_ranks(ranks));
  ZERO_CHECK(std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end() &&
                 (ranks.empty() || (ranks.front() >= 0 && ranks.back() < parent.world())),
             "group {} of {}: ranks ascend from 0 to {}", name, name_ranks(ranks), parent.world() - 1);

  std::vector<Announcement> said;
  for (const std::string& text : all_gather_text(parent, Announcement::text(opener->newest_group(), ranks, name)))
    said.emplace_back(text);
  require_agreement(said, *opener);
  if (ranks.empty()) return nullptr;
  GroupPlace place{.name = name, .place = static_cast<int>(own - ranks.begin())};
  for (const int rank : ranks) {
    place.ranks.push_back(opener->world_rank(rank));
    place.number = std::max(place.number, said[static_cast<std::size_t>(rank)].newest + 1);
  }
  return opener->open(place);
}

}  // namespace zero
