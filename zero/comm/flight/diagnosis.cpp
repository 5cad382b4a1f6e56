#include "zero/comm/flight/diagnosis.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/check.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

constexpr int kMostShown = 64;

std::string seconds(std::int64_t nanoseconds) {
  return fmt::format("{:.3f} s", 1e-9 * static_cast<double>(std::max<std::int64_t>(nanoseconds, 0)));
}

std::string format_rank_list(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks.front());
  const std::size_t shown = std::min<std::size_t>(ranks.size(), 16);
  return fmt::format("ranks {}{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < ranks.size() ? fmt::format(" and {} more", ranks.size() - shown) : "");
}

std::string_view is_or_are(const std::vector<int>& ranks) {
  return ranks.size() == 1 ? "is" : "are";
}

// A rank's progress in the world, or in one group.
struct Standing {
  const FlightEntry* last = nullptr;  // newest collective
  const FlightEntry* open = nullptr;  // oldest collective that has not ended, or has failed
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;  // number up to which all have ended

  void add(const FlightEntry& entry) {
    last = &entry;
    if (open == nullptr && (entry.ended_ns == 0 || entry.failed)) open = &entry;
    begun = entry.collective;
    ended = open != nullptr ? open->collective - 1 : begun;
  }
};

// A rank's progress in the world and in all its groups.
struct Progress {
  const FlightRecord* record;
  const FlightEntry* last = nullptr;  // newest of all collectives
  const FlightEntry* open = nullptr;
  std::map<std::string_view, Standing> in;  // by group; "" is the world, which has every rank
  std::uint64_t begun = 0;                  // sum over the world and all groups
  bool whole = true;                        // true: no entry has been overwritten
  int receives = 0;                         // that have not ended
  // The message for which it waits: one that failed, else its only receive that has not ended; null: none, or any.
  const FlightEntry* awaited = nullptr;

  explicit Progress(const FlightRecord& of) : record(&of) {
    in[""];
    for (const std::string& group : of.groups) in[group];
    for (const FlightEntry& entry : of.entries) {
      if (entry.collective == 0) continue;
      last = &entry;
      if (open == nullptr && (entry.ended_ns == 0 || entry.failed)) open = &entry;
      in[of.group_of(entry)].add(entry);
    }
    for (const auto& [group, standing] : in) begun += standing.begun;
    awaited = find_awaited();
    whole = of.entries.empty() || of.entries.front().number == 1;
  }
  int rank() const { return record->identity.rank; }
  bool waits_outside(std::string_view group) const {
    return awaited != nullptr ||
           std::ranges::any_of(in, [&](const auto& of) { return of.first != group && of.second.open != nullptr; });
  }

 private:
  // A send that has not ended is no wait. A rank that receives from many ranks at once waits for any of them.
  const FlightEntry* find_awaited() {
    const FlightEntry* newest = nullptr;
    for (const FlightEntry& entry : record->entries) {
      if (entry.collective != 0 || !is_message(entry.call.operation)) continue;
      if (entry.failed) return &entry;
      if (entry.ended_ns != 0 || entry.call.operation != FlightOperation::kReceive) continue;
      newest = &entry;
      ++receives;
    }
    return receives == 1 ? newest : nullptr;
  }
};

std::string of_group(std::string_view group) {
  return group.empty() ? "" : fmt::format(" of group {}", group);
}

// The rules of a diagnosis, over the records of one run.
class Comparison {
 public:
  Comparison(std::vector<Progress> ranks, std::vector<int> missing, std::int64_t now, FlightDiagnosis& out)
      : ranks_(std::move(ranks)), missing_(std::move(missing)), now_(now), out_(out) {}

  void run() {
    find_disagreement() || find_own_error() || find_awaited() || find_missing() || find_behind() || find_blamed() ||
        find_unfinished() || find_unclear();
    if (out_.trouble == FlightTrouble::kNone) {
      const Progress& first = ranks_.front();
      out_.summary = fmt::format("nothing is wrong: {}{}", all_begun(first.in.at("").begun),
                                 first.in.size() > 1 ? ", also within each group" : "");
    }
    std::ranges::sort(out_.culprits);
  }

  std::string did(const Progress& rank) const {
    const std::string text = did_in_collectives(rank);
    if (rank.awaited == nullptr) return text;
    return fmt::format("{}; {}: {}", text, describe(*rank.awaited, *rank.record),
                       rank.awaited->failed ? "failed" : "begun, and not ended");
  }

 private:
  std::string did_in_collectives(const Progress& rank) const {
    if (rank.last == nullptr) return "it has begun no collective";
    const FlightEntry& entry = rank.open != nullptr ? *rank.open : *rank.last;
    const std::string what = describe(entry, *rank.record);
    std::string text;
    if (entry.failed) {
      text = fmt::format("{}: failed after {}", what, seconds(entry.ended_ns - entry.began_ns));
    } else if (entry.ended_ns == 0) {
      text = fmt::format("{}: begun {} before the last record, and not ended", what, seconds(now_ - entry.began_ns));
    } else if (const std::int64_t waited = rank.record->cause.waited_ns; waited > 0 && is_witness(rank)) {
      text = fmt::format("{}: ended {} before the last record; then it waited for other ranks, {} until its error",
                         what, seconds(now_ - entry.ended_ns), seconds(waited));
    } else {
      text = fmt::format("{}: ended {} before the last record; computing, or in no collective, since then", what,
                         seconds(now_ - entry.ended_ns));
    }
    if (&entry != rank.last)
      text +=
          fmt::format("; has begun up to #{}{}", rank.last->collective, of_group(rank.record->group_of(*rank.last)));
    return text;
  }

  std::string all_begun(std::uint64_t count) const {
    const std::string collectives = format_count(static_cast<std::int64_t>(count), "collective");
    if (out_.world == 1) return fmt::format("the only rank has begun {}", collectives);
    return fmt::format("all {} ranks have begun the same {}", out_.world, collectives);
  }

  bool settle(FlightTrouble trouble, std::vector<int> culprits, std::uint64_t collective, std::string summary) {
    out_.trouble = trouble;
    out_.culprits = std::move(culprits);
    out_.collective = collective;
    out_.summary = std::move(summary);
    return true;
  }

  // Returns true if the rank waited for others at least half as long as the rank that waited longest. Its error is
  // then another rank's fault, whatever rank the transport names: it names the first rank that did not answer.
  bool is_witness(const Progress& rank) const {
    std::int64_t longest = 0;
    for (const Progress& other : ranks_) longest = std::max(longest, other.record->cause.waited_ns);
    return rank.record->cause.waited_ns > 0 && rank.record->cause.waited_ns >= longest / 2;
  }
  bool is_witness(int rank) const {
    return std::ranges::any_of(ranks_,
                               [&](const Progress& other) { return other.rank() == rank && is_witness(other); });
  }
  // Removes the witnesses, unless all are witnesses.
  void drop_witnesses(std::vector<int>& ranks) const {
    if (std::ranges::all_of(ranks, [this](int rank) { return is_witness(rank); })) return;
    std::erase_if(ranks, [this](int rank) { return is_witness(rank); });
  }

  const Progress* find(int rank) const {
    const auto found = std::ranges::find_if(ranks_, [rank](const Progress& other) { return other.rank() == rank; });
    return found == ranks_.end() ? nullptr : &*found;
  }
  const Progress& of(int rank) const { return *find(rank); }
  bool is_missing(int rank) const { return std::ranges::binary_search(missing_, rank); }

  std::set<std::string_view> groups() const {
    std::set<std::string_view> groups;
    for (const Progress& rank : ranks_)
      for (const auto& [group, standing] : rank.in) groups.insert(group);
    return groups;
  }

  bool find_disagreement() {
    return std::ranges::any_of(groups(), [this](std::string_view group) { return find_disagreement(group); });
  }

  // Finds the first number at which two ranks made different calls.
  bool find_disagreement(std::string_view group) {
    std::vector<std::tuple<std::uint64_t, int, const FlightEntry*>> all;
    for (const Progress& rank : ranks_) {
      for (const FlightEntry& entry : rank.record->entries)
        if (entry.collective != 0 && rank.record->group_of(entry) == group)
          all.emplace_back(entry.collective, rank.rank(), &entry);
    }
    std::ranges::sort(all);
    for (auto begin = all.begin(); begin != all.end();) {
      const std::uint64_t number = std::get<0>(*begin);
      const auto end = std::find_if(begin, all.end(), [&](const auto& other) { return std::get<0>(other) != number; });
      const bool agree = std::all_of(
          begin, end, [&](const auto& other) { return std::get<2>(other)->call == std::get<2>(*begin)->call; });
      if (!agree) return settle_disagreement(number, group, begin, end);
      begin = end;
    }
    return false;
  }

  template <class Iterator>
  bool settle_disagreement(std::uint64_t number, std::string_view group, Iterator begin, Iterator end) {
    std::map<std::string, std::vector<int>> opinions;
    for (auto other = begin; other != end; ++other)
      opinions[describe(*std::get<2>(*other))].push_back(std::get<1>(*other));
    std::size_t largest = 0;
    for (const auto& [what, ranks] : opinions) largest = std::max(largest, ranks.size());
    const bool majority = 2 * largest > static_cast<std::size_t>(end - begin);
    std::vector<int> culprits;
    std::string text;
    for (const auto& [what, ranks] : opinions) {
      if (!majority || ranks.size() < largest) culprits.insert(culprits.end(), ranks.begin(), ranks.end());
      text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", format_rank_list(ranks),
                          ranks.size() == 1 ? "does" : "do", what);
    }
    std::ranges::sort(culprits);
    const std::string who = majority
                                ? fmt::format("; only {} {} at fault", format_rank_list(culprits), is_or_are(culprits))
                                : "; the records do not say which rank is wrong";
    return settle(FlightTrouble::kDisagreement, culprits, number,
                  fmt::format("ranks disagree at collective #{}{}: {}{}", number, of_group(group), text, who));
  }

  bool find_own_error() {
    std::vector<const Progress*> own;
    for (const Progress& rank : ranks_)
      if (rank.record->cause.blamed == rank.rank() && !is_witness(rank)) own.push_back(&rank);
    if (own.empty()) return false;
    std::ranges::sort(own, {}, [](const Progress* rank) { return rank->record->written_ns; });
    std::vector<int> culprits;
    for (const Progress* rank : own) culprits.push_back(rank->rank());
    std::ranges::sort(culprits);
    return settle(FlightTrouble::kOwnError, culprits, own.front()->begun,
                  fmt::format("{} {} at fault, by {} own record: {}", format_rank_list(culprits), is_or_are(culprits),
                              culprits.size() == 1 ? "its" : "their", did(*own.front())));
  }

  // Returns the ranks that most errors name, without witnesses; only ranks of `among`, unless that is empty.
  std::vector<int> most_blamed(const std::vector<int>& among) const {
    std::map<int, int> votes;
    for (const Progress& rank : ranks_) {
      const int blamed = rank.record->cause.blamed;
      if (blamed >= 0 && !is_witness(blamed) && (among.empty() || std::ranges::find(among, blamed) != among.end()))
        ++votes[blamed];
    }
    int most = 0;
    for (const auto& [rank, count] : votes) most = std::max(most, count);
    std::vector<int> named;
    for (const auto& [rank, count] : votes)
      if (count == most) named.push_back(rank);
    return named;
  }

  std::uint64_t front() const {
    return std::ranges::max(ranks_, {}, [](const Progress& rank) { return rank.begun; }).begun;
  }

  // Follows each rank that waits for a message to a rank that waits for none. That rank is at fault, and not the one
  // that the errors name. Says nothing if it waits in a collective: find_behind() does.
  bool find_awaited() {
    if (!any_trouble()) return false;
    std::set<int> ends;
    const Progress* witness = nullptr;  // the last that waits
    for (const Progress& rank : ranks_) {
      if (rank.awaited == nullptr) continue;
      const Progress* last = &rank;
      const Progress* next = &rank;
      std::set<int> seen;
      while (next != nullptr && next->awaited != nullptr && seen.insert(next->rank()).second) {
        last = next;
        next = find(next->awaited->call.peer);
      }
      const int end = last->awaited->call.peer;
      const bool waits = next != nullptr && (next->awaited != nullptr || next->receives > 0 || next->open != nullptr);
      if (waits || (next == nullptr && !is_missing(end))) continue;
      ends.insert(end);
      witness = last;
    }
    if (ends.size() != 1) return false;
    const int culprit = *ends.begin();
    const std::string waits =
        fmt::format("rank {} waits for it in {}", witness->rank(), describe(*witness->awaited, *witness->record));
    if (is_missing(culprit))
      return settle(FlightTrouble::kMissing, {culprit}, front(),
                    fmt::format("rank {} has no record; {}", culprit, waits));
    return settle(FlightTrouble::kBehind, {culprit}, front(),
                  fmt::format("rank {} is behind: {}; {}", culprit, waits, did(of(culprit))));
  }

  bool find_missing() {
    if (missing_.empty()) return false;
    std::vector<int> blamed = most_blamed({});
    if (!blamed.empty() && std::ranges::none_of(blamed, [this](int rank) { return is_missing(rank); })) return false;
    const bool named = !blamed.empty();
    std::erase_if(blamed, [this](int rank) { return !is_missing(rank); });
    const std::vector<int> culprits = named ? blamed : missing_;
    const Progress& first = *std::ranges::max_element(ranks_, {}, [](const Progress& rank) { return rank.begun; });
    return settle(FlightTrouble::kMissing, culprits, front(),
                  fmt::format("{} {} no record{}; {} came to {}", format_rank_list(culprits),
                              culprits.size() == 1 ? "has" : "have", named ? ", and the other ranks name it" : "",
                              format_rank_list({first.rank()}), did(first)));
  }

  // Ranks of one group with the least progress, if not all have the same.
  struct Behind {
    std::string_view group;
    std::vector<int> ranks;
    std::uint64_t least = 0, front = 0;
  };
  std::vector<Behind> find_least(std::uint64_t Standing::*progress) const {
    std::vector<Behind> found;
    for (const std::string_view group : groups()) {
      std::map<std::uint64_t, std::vector<int>> by_progress;
      for (const Progress& rank : ranks_) {
        const auto standing = rank.in.find(group);
        if (standing == rank.in.end() || (standing->second.last == nullptr && !rank.whole)) continue;
        by_progress[standing->second.*progress].push_back(rank.rank());
      }
      if (by_progress.size() < 2) continue;
      found.push_back({group, by_progress.begin()->second, by_progress.begin()->first, by_progress.rbegin()->first});
    }
    return without_chains(found);
  }
  // A rank that waits in another group is behind because of others, unless all are.
  std::vector<Behind> without_chains(const std::vector<Behind>& all) const {
    std::vector<Behind> free = all;
    for (Behind& behind : free) {
      std::erase_if(behind.ranks, [&](int rank) { return of(rank).waits_outside(behind.group); });
    }
    std::erase_if(free, [](const Behind& behind) { return behind.ranks.empty(); });
    return free.empty() ? all : free;
  }

  // Finds ranks that have begun fewer collectives than others.
  bool find_behind() {
    if (!missing_.empty()) return false;
    std::vector<Behind> all = find_least(&Standing::begun);
    if (all.empty()) return false;
    std::vector<int> named;
    const auto is_named = [&](Behind& behind) {
      drop_witnesses(behind.ranks);
      named = most_blamed(behind.ranks);
      return !named.empty();
    };
    const auto blamed = std::ranges::find_if(all, is_named);
    Behind& behind = blamed != all.end() ? *blamed : all.front();
    if (blamed != all.end()) {
      behind.ranks = named;
    } else {
      keep_least_ended(behind);
    }
    return settle(
        FlightTrouble::kBehind, behind.ranks, behind.front,
        fmt::format("{} {} behind{}: others have begun #{}, {} #{} only: {}", format_rank_list(behind.ranks),
                    is_or_are(behind.ranks), behind.group.empty() ? "" : fmt::format(" in group {}", behind.group),
                    behind.front, behind.ranks.size() == 1 ? "it has begun" : "they have begun", behind.least,
                    did(of(behind.ranks.front()))));
  }

  void keep_least_ended(Behind& behind) const {
    const auto ended = [&](int rank) { return of(rank).in.at(behind.group).ended; };
    std::uint64_t least = ended(behind.ranks.front());
    for (const int rank : behind.ranks) least = std::min(least, ended(rank));
    std::erase_if(behind.ranks, [&](int rank) { return ended(rank) > least; });
  }

  bool find_blamed() {
    const std::vector<int> named = most_blamed({});
    if (named.empty()) return false;
    const int rank = named.front();
    const std::string what = is_missing(rank) ? "it has no record" : did(of(rank));
    return settle(FlightTrouble::kBlamed, named, front(),
                  fmt::format("the errors of the others name {}: {}", format_rank_list(named), what));
  }

  bool any_trouble() const {
    return std::ranges::any_of(ranks_, [](const Progress& rank) {
      return !rank.record->cause.reason.empty() || (rank.open != nullptr && rank.open->failed);
    });
  }

  // Finds ranks that have not ended collectives that others have ended, although all have begun the same.
  bool find_unfinished() {
    if (!any_trouble()) return false;
    std::vector<Behind> all = find_least(&Standing::ended);
    if (all.empty()) return false;
    Behind& behind = all.front();
    drop_witnesses(behind.ranks);
    return settle(
        FlightTrouble::kBehind, behind.ranks, behind.least + 1,
        fmt::format("{} {} behind: others have ended #{}{}: {}", format_rank_list(behind.ranks),
                    is_or_are(behind.ranks), behind.least + 1, of_group(behind.group), did(of(behind.ranks.front()))));
  }

  bool find_unclear() {
    if (!any_trouble()) return false;
    return settle(
        FlightTrouble::kUnclear, {}, front(),
        fmt::format("an error was met, and {}: the reasons below say more than the order", all_begun(front())));
  }

  std::vector<Progress> ranks_;
  std::vector<int> missing_;
  std::int64_t now_;
  FlightDiagnosis& out_;
};

// All ranks of a run are present before one of them can fail, so an older record is of another run.
bool of_one_run(const FlightRecord& a, const FlightRecord& newest) {
  if (&a == &newest) return true;
  return a.identity.run == newest.identity.run && a.identity.restart == newest.identity.restart &&
         a.identity.world == newest.identity.world && a.written_ns >= newest.started_ns;
}

}  // namespace

std::string_view name_of(FlightTrouble trouble) {
  switch (trouble) {
    case FlightTrouble::kNone:
      return "none";
    case FlightTrouble::kDisagreement:
      return "disagreement";
    case FlightTrouble::kOwnError:
      return "own error";
    case FlightTrouble::kMissing:
      return "no record";
    case FlightTrouble::kBehind:
      return "behind";
    case FlightTrouble::kBlamed:
      return "blamed";
    case FlightTrouble::kUnclear:
      return "unclear";
  }
  return "unclear";
}

FlightDiagnosis diagnose(const std::vector<FlightRecord>& records) {
  ZERO_CHECK(!records.empty(), "no records to compare");
  const FlightRecord& newest = *std::ranges::max_element(records, {}, &FlightRecord::written_ns);
  FlightDiagnosis out;
  out.run = newest.identity.run;
  out.world = newest.identity.world;
  std::vector<Progress> ranks;
  std::map<int, const FlightRecord*> by_rank;
  for (const FlightRecord& record : records) {
    if (of_one_run(record, newest)) {
      by_rank.emplace(record.identity.rank, &record);
    } else {
      out.stale.push_back(record.identity.rank);
    }
  }
  std::vector<int> missing;
  for (int rank = 0; rank < out.world; ++rank) {
    if (const auto found = by_rank.find(rank); found != by_rank.end()) {
      ranks.emplace_back(*found->second);
    } else {
      missing.push_back(rank);
    }
  }
  out.num_missing = static_cast<int>(missing.size());
  std::ranges::sort(out.stale);
  Comparison comparison(ranks, missing, newest.written_ns, out);
  comparison.run();
  for (const Progress& rank : ranks) {
    out.ranks.push_back({.rank = rank.rank(),
                         .has_record = true,
                         .begun = rank.begun,
                         .step = rank.record->step,
                         .did = comparison.did(rank),
                         .reason = rank.record->cause.reason});
  }
  for (const int rank : missing) {
    if (std::ssize(out.ranks) - std::ssize(ranks) == kMostShown) break;
    out.ranks.push_back({.rank = rank, .did = "no record"});
  }
  std::ranges::sort(out.ranks, {}, &FlightStanding::rank);
  return out;
}

}  // namespace zero
