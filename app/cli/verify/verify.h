// run_verify(): `zero verify RUN --steps A..B` executes steps of a run again, and compares them with the run's records.
//
//   const std::vector<std::string> arguments{"runs/x", "--steps", "500..1000", "--zero.stage", "1"};
//   return run_verify(arguments);
//
// 0: no difference. 1: a difference, which is printed with its step. Otherwise as other verbs (verb.h). It writes
// nothing into RUN: it trains in a folder beside RUN, and removes that folder. Local: it starts the ranks itself.
//
// The parts: the run's records (run_records.h), the steps to execute (audit_plan.h), the differences (audit.h), and the
// output (audit_text.h).
#pragma once

#include "app/cli/command/verb.h"

namespace zero::cli {

int run_verify(Arguments arguments);

}  // namespace zero::cli
