// process_report(): trains a small GPT with `zero train` over a transport, to compare processes with threads.
//
//   if (const std::string why = missing("mpi"); !why.empty()) GTEST_SKIP() << why;
//   const Json report = process_report(4, "mpi", "--zero.group 2");      // no object if the run failed
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/comm/transport/open_transport.h"

#include "tests/cli/command.h"
#include "tests/support/mpirun.h"

namespace zero {

using Json = nlohmann::json;

// Returns why this machine cannot use the transport, or "".
inline std::string missing(std::string_view transport) {
  const auto statuses = transport_statuses();
  if (transport != "in_process" &&
      std::ranges::none_of(statuses, [&](const auto& status) { return status.name == transport && status.available; }))
    return fmt::format("the plug-in {} is not there", transport);
  return transport == "mpi" && std::string(ZERO_MPIRUN).empty() ? "no mpirun on this machine" : "";
}

// The configuration: 5 steps, into the folder "run".
inline std::string small_gpt() {
  return fmt::format(R"([model]
layers = 2
width = 48
heads = 2
context = 32
[data]
path = "{}/examples/shakespeare/input.txt"
validation = 0
[train]
steps = 5
batch = 1
clip = 1.0
[optimizer]
lr = 1e-2
[schedule]
warmup = 0
[run]
dir = "run"
threads = 1
)",
                     built::kSourceFolder);
}

// `keys` are flags of the command line.
inline Json process_report(int ranks, const std::string& transport, const std::string& keys) {
  const Folder folder;
  folder.write("c.toml", small_gpt());
  const bool by_mpi = transport == "mpi";
  const Ran ran = folder.zero(
      fmt::format("train c.toml {} --comm.transport {} {}", by_mpi ? "" : fmt::format("-n {}", ranks), transport, keys),
      (by_mpi ? mpirun_ranks(ranks) : "") + " timeout 200");
  EXPECT_EQ(ran.status, 0) << keys << '\n' << ran.errors << ran.output;
  return Json::parse(folder.read("run/report.json"), nullptr, /*allow_exceptions=*/false);
}

}  // namespace zero
