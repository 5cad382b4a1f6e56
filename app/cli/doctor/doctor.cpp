#include "app/cli/doctor/doctor.h"

// `zero doctor`: prints one line for each check, followed by the remedy. Returns 1 if a check failed. With --flight, it
// examines the records of a failed run instead of the machine.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/command/flags.h"
#include "app/cli/doctor/finding.h"

namespace zero::cli {
namespace {

std::string_view name_of(Health health) {
  switch (health) {
    case Health::kOk:
      return "OK";
    case Health::kWarn:
      return "WARN";
    case Health::kFail:
      return "FAIL";
  }
  return "FAIL";
}

void print_table(std::span<const Finding> findings) {
  for (const auto& finding : findings) {
    fmt::print("{:<5} {:<20} {}\n", name_of(finding.health), finding.subject, finding.found);
    if (!finding.remedy.empty()) fmt::print("{:<27}-> {}\n", "", finding.remedy);
  }
}

void print_json(std::span<const Finding> findings) {
  auto lines = nlohmann::json::array();
  for (const auto& finding : findings) {
    lines.push_back({{"check", finding.subject},
                     {"status", name_of(finding.health)},
                     {"found", finding.found},
                     {"remedy", finding.remedy}});
  }
  fmt::print("{}\n", nlohmann::json{{"version", ZERO_VERSION}, {"checks", lines}}.dump(
                         2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

int run_doctor(Arguments arguments) {
  CLI::App app("Checks this machine for zero.cpp, or names the rank that made a run fail.", "zero doctor");
  bool json = false;
  std::string flight;
  app.add_flag("--json", json, "print one JSON object");
  app.add_option("--flight", flight,
                 "folder of flight records (rank-NNNNN.json) of a failed run, to compare its ranks");
  app.footer("Exit status: 0, or 1 if a line says FAIL. With --flight: 0, or 2 if records are missing or damaged.");
  if (!parse_flags(app, arguments)) return 0;
  if (app.count("--flight") > 0) return report_flight(flight, json);
  std::vector<Finding> findings = check_machine();
  for (auto& finding : check_storage()) findings.push_back(std::move(finding));
  for (auto& finding : check_software()) findings.push_back(std::move(finding));
  bool failed = false;
  for (const auto& finding : findings) failed = failed || finding.health == Health::kFail;
  json ? print_json(findings) : print_table(findings);
  return failed ? 1 : 0;
}

}  // namespace zero::cli
