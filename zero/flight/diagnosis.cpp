#include "zero/flight/diagnosis.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/check.h"

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

// How far a rank has come.
struct Progress {
  const FlightRecord* record;
  const FlightEntry* last = nullptr;  // collective
  const FlightEntry* open = nullptr;  // the oldest collective that has not ended, or has failed
  std::uint64_t begun = 0;
  std::uint64_t ended = 0;  // up to here without a gap

  explicit Progress(const FlightRecord& of) : record(&of) {
    for (const FlightEntry& entry : of.entries) {
      if (entry.collective == 0) continue;
      last = &entry;
      if (open == nullptr && (entry.ended_ns == 0 || entry.failed)) open = &entry;
    }
    begun = last != nullptr ? last->collective : 0;
    ended = open != nullptr ? open->collective - 1 : begun;
  }
  int rank() const { return record->identity.rank; }
};

// The parts of a diagnosis, over the records of one run.
class Comparison {
 public:
  Comparison(std::vector<Progress> ranks, std::vector<int> missing, std::int64_t now, FlightDiagnosis& out)
      : ranks_(std::move(ranks)), missing_(std::move(missing)), now_(now), out_(out) {}

  void run() {
    find_disagreement() || find_own_error() || find_missing() || find_behind() || find_blamed() || find_unfinished() ||
        find_unclear();
    if (out_.trouble == FlightTrouble::kNone) {
      const std::uint64_t begun = ranks_.front().begun;
      out_.summary =
          fmt::format("nothing is wrong: all {} ranks have begun the same {} collectives", out_.world, begun);
    }
    std::ranges::sort(out_.culprits);
  }

  std::string did(const Progress& rank) const {
    if (rank.last == nullptr) return "it has begun no collective";
    const FlightEntry& entry = rank.open != nullptr ? *rank.open : *rank.last;
    const std::string what = describe(entry);
    std::string text;
    if (entry.failed) {
      text = fmt::format("{}: failed after {}", what, seconds(entry.ended_ns - entry.began_ns));
    } else if (entry.ended_ns == 0) {
      text = fmt::format("{}: begun {} before the last record, and not ended", what, seconds(now_ - entry.began_ns));
    } else if (const std::int64_t waited = rank.record->cause.waited_ns; waited > 0 && is_witness(rank)) {
      text = fmt::format("{}: ended {} before the last record; then it waited for others, {} when its error came", what,
                         seconds(now_ - entry.ended_ns), seconds(waited));
    } else {
      text = fmt::format("{}: ended {} before the last record; computing, or in no collective, since then", what,
                         seconds(now_ - entry.ended_ns));
    }
    if (&entry != rank.last) text += fmt::format("; has begun up to #{}", rank.begun);
    return text;
  }

 private:
  bool settle(FlightTrouble trouble, std::vector<int> culprits, std::uint64_t collective, std::string summary) {
    out_.trouble = trouble;
    out_.culprits = std::move(culprits);
    out_.collective = collective;
    out_.summary = std::move(summary);
    return true;
  }

  // Waited for others at least half as long as the one that waited longest: what it met is the fault of another,
  // whatever the transport says, which names the first of those that did not answer.
  bool is_witness(const Progress& rank) const {
    std::int64_t longest = 0;
    for (const Progress& other : ranks_) longest = std::max(longest, other.record->cause.waited_ns);
    return rank.record->cause.waited_ns > 0 && rank.record->cause.waited_ns >= longest / 2;
  }
  bool is_witness(int rank) const {
    return std::ranges::any_of(ranks_,
                               [&](const Progress& other) { return other.rank() == rank && is_witness(other); });
  }
  // Without the witnesses among them, unless all are.
  void drop_witnesses(std::vector<int>& ranks) const {
    if (std::ranges::all_of(ranks, [this](int rank) { return is_witness(rank); })) return;
    std::erase_if(ranks, [this](int rank) { return is_witness(rank); });
  }

  const Progress& of(int rank) const {
    return *std::ranges::find_if(ranks_, [rank](const Progress& progress) { return progress.rank() == rank; });
  }
  bool is_missing(int rank) const { return std::ranges::binary_search(missing_, rank); }

  // The first number at which two ranks mean different things.
  bool find_disagreement() {
    std::vector<std::tuple<std::uint64_t, int, const FlightEntry*>> all;
    for (const Progress& rank : ranks_) {
      for (const FlightEntry& entry : rank.record->entries)
        if (entry.collective != 0) all.emplace_back(entry.collective, rank.rank(), &entry);
    }
    std::ranges::sort(all);
    for (auto begin = all.begin(); begin != all.end();) {
      const std::uint64_t number = std::get<0>(*begin);
      const auto end = std::find_if(begin, all.end(), [&](const auto& other) { return std::get<0>(other) != number; });
      const bool agree = std::all_of(
          begin, end, [&](const auto& other) { return std::get<2>(other)->call == std::get<2>(*begin)->call; });
      if (!agree) return settle_disagreement(number, begin, end);
      begin = end;
    }
    return false;
  }

  template <class Iterator>
  bool settle_disagreement(std::uint64_t number, Iterator begin, Iterator end) {
    std::map<std::string, std::vector<int>> groups;
    for (auto other = begin; other != end; ++other)
      groups[describe(*std::get<2>(*other))].push_back(std::get<1>(*other));
    std::size_t largest = 0;
    for (const auto& [what, ranks] : groups) largest = std::max(largest, ranks.size());
    const bool majority = 2 * largest > static_cast<std::size_t>(end - begin);
    std::vector<int> culprits;
    std::string text;
    for (const auto& [what, ranks] : groups) {
      if (!majority || ranks.size() < largest) culprits.insert(culprits.end(), ranks.begin(), ranks.end());
      text += fmt::format("{}{} {} {}", text.empty() ? "" : ", ", format_rank_list(ranks),
                          ranks.size() == 1 ? "does" : "do", what);
    }
    std::ranges::sort(culprits);
    const std::string who = majority
                                ? fmt::format("; {} {} alone with it", format_rank_list(culprits), is_or_are(culprits))
                                : "; the records do not say which rank is wrong";
    return settle(FlightTrouble::kDisagreement, culprits, number,
                  fmt::format("ranks disagree at collective #{}: {}{}", number, text, who));
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
                  fmt::format("{} {} at fault, as {} own record says: {}", format_rank_list(culprits),
                              is_or_are(culprits), culprits.size() == 1 ? "its" : "their", did(*own.front())));
  }

  // The ranks that most errors name, without witnesses; of `among` alone, unless that is empty.
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
                              culprits.size() == 1 ? "has" : "have", named ? ", and the others name it" : "",
                              format_rank_list({first.rank()}), did(first)));
  }

  // Ranks that have begun fewer collectives than others.
  bool find_behind() {
    std::uint64_t least = front();
    for (const Progress& rank : ranks_) least = std::min(least, rank.begun);
    if (least == front() || !missing_.empty()) return false;
    std::vector<int> behind;
    for (const Progress& rank : ranks_)
      if (rank.begun == least) behind.push_back(rank.rank());
    drop_witnesses(behind);
    if (const std::vector<int> named = most_blamed(behind); !named.empty()) {
      behind = named;
    } else {
      keep_least_ended(behind);
    }
    return settle(
        FlightTrouble::kBehind, behind, front(),
        fmt::format("{} {} behind: others have begun #{}, {} #{} only: {}", format_rank_list(behind), is_or_are(behind),
                    front(), behind.size() == 1 ? "it has begun" : "they have begun", least, did(of(behind.front()))));
  }

  void keep_least_ended(std::vector<int>& ranks) const {
    std::uint64_t least = of(ranks.front()).ended;
    for (const int rank : ranks) least = std::min(least, of(rank).ended);
    std::erase_if(ranks, [&](int rank) { return of(rank).ended > least; });
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

  // All have begun the same, but some have not come out of what others have ended.
  bool find_unfinished() {
    if (!any_trouble()) return false;
    std::vector<int> behind;
    for (const Progress& rank : ranks_) behind.push_back(rank.rank());
    keep_least_ended(behind);
    if (behind.size() == ranks_.size()) return false;
    drop_witnesses(behind);
    return settle(FlightTrouble::kBehind, behind, of(behind.front()).ended + 1,
                  fmt::format("{} {} behind: others have ended #{}: {}", format_rank_list(behind), is_or_are(behind),
                              of(behind.front()).ended + 1, did(of(behind.front()))));
  }

  bool find_unclear() {
    if (!any_trouble()) return false;
    return settle(
        FlightTrouble::kUnclear, {}, front(),
        fmt::format("an error was met, and all {} ranks have begun the same {} collectives: the reasons below "
                    "say more than the order",
                    out_.world, front()));
  }

  std::vector<Progress> ranks_;
  std::vector<int> missing_;
  std::int64_t now_;
  FlightDiagnosis& out_;
};

// All ranks of a run are there before one can fail: a record from before that is of another run.
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
