// to_text(), to_json(): the result of `zero verify` for people, on one screen, and for programs.
//
//   std::cout << to_text(plan, audit, {.seconds = 1.4});
//
// Values only; Local.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "app/cli/verify/audit.h"
#include "app/cli/verify/audit_plan.h"

namespace zero::cli {

// How the steps were executed.
struct Execution {
  double seconds = 0;
  std::string folder;  // that stays; empty: it was removed
};

std::string to_text(const AuditPlan& plan, const Audit& audit, const Execution& execution);
nlohmann::ordered_json to_json(const AuditPlan& plan, const Audit& audit, const Execution& execution);

}  // namespace zero::cli
