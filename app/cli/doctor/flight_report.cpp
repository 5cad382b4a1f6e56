#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/error/exit_status.h"
#include "zero/comm/flight/diagnosis.h"
#include "zero/comm/flight/file.h"

#include "app/cli/doctor/doctor.h"
#include "app/config/options/value.h"

namespace zero::cli {
namespace {

constexpr std::string_view kRemedy =
    "name the folder that the ranks wrote on trouble: [run] dir/flight, or ZERO_FLIGHT_DIR";

// Makes one line that is safe to print. A reason can have several lines, and is text from outside.
std::string one_line(std::string_view text) {
  constexpr std::size_t kLongest = 400;
  std::string out;
  for (std::size_t begin = 0; begin < text.size() && out.size() < kLongest; begin += 100)
    out += shown(text.substr(begin, 100));
  return out + (text.size() > kLongest ? "..." : "");
}

void print_table(const FlightDiagnosis& found) {
  fmt::print("{}{}\n", found.trouble == FlightTrouble::kNone ? "" : "culprit: ", found.summary);
  if (!found.culprits.empty()) fmt::print("{:<9}rank {}\n", "", fmt::join(found.culprits, ", "));
  fmt::print("\n{:>6} {:>10} {:>10}  {}\n", "RANK", "STEP", "BEGUN", "LAST");
  for (const FlightStanding& rank : found.ranks)
    fmt::print("{:>6} {:>10} {:>10}  {}\n", rank.rank, rank.step ? fmt::format("{}", *rank.step) : "-",
               rank.has_record ? fmt::format("{}", rank.begun) : "-", rank.did);
  const auto reasons_begin = std::ranges::find_if(found.ranks, [](const auto& rank) { return !rank.reason.empty(); });
  if (reasons_begin != found.ranks.end()) fmt::print("\nwhy the ranks wrote:\n");
  for (auto rank = reasons_begin; rank != found.ranks.end(); ++rank) {
    if (!rank->reason.empty()) fmt::print("{:>6}  {}\n", rank->rank, one_line(rank->reason));
  }
  if (!found.stale.empty())
    fmt::print("\nnot looked at, of an earlier run or attempt: rank {}\n", fmt::join(found.stale, ", "));
}

void print_json(const FlightDiagnosis& found, const std::vector<std::string>& damaged) {
  auto ranks = nlohmann::ordered_json::array();
  for (const FlightStanding& rank : found.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"record", rank.has_record},
                     {"step", rank.step ? nlohmann::ordered_json(*rank.step) : nlohmann::ordered_json()},
                     {"begun", rank.begun},
                     {"last", rank.did},
                     {"reason", rank.reason}});
  }
  const nlohmann::ordered_json json{{"version", ZERO_VERSION},
                                    {"trouble", name_of(found.trouble)},
                                    {"culprits", found.culprits},
                                    {"collective", found.collective},
                                    {"summary", found.summary},
                                    {"run", found.run},
                                    {"world", found.world},
                                    {"without_record", found.num_missing},
                                    {"stale", found.stale},
                                    {"damaged", damaged},
                                    {"ranks", ranks}};
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

FlightFolder read_folder(const std::filesystem::path& folder) {
  try {
    return read_flight_folder(folder);
  } catch (const IoError& error) {
    throw ConfigError("--flight", shown(folder.native()), error.what(), kRemedy);
  }
}

}  // namespace

int report_flight(const std::filesystem::path& folder, bool json) {
  const FlightFolder found = read_folder(folder);
  if (found.records.empty()) {
    throw ConfigError("--flight", shown(folder.native()),
                      found.damaged.empty() ? "there is no rank-NNNNN.json" : one_line(found.damaged.front()), kRemedy);
  }
  const FlightDiagnosis diagnosis = diagnose(found.records);
  json ? print_json(diagnosis, found.damaged) : print_table(diagnosis);
  for (const std::string& damage : found.damaged)
    fmt::print(stderr, "zero doctor: not looked at: {}\n", one_line(damage));
  return found.damaged.empty() ? 0 : kBadInputStatus;
}

}  // namespace zero::cli
