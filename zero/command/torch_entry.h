// TorchVerbs: the verbs of libzero.so, which alone knows libtorch, as the torch-free command calls them.
//
// The command parses and checks everything first, so that a bad key is answered in milliseconds and `launch`, `inspect`
// and `doctor` never load a gigabyte of libtorch. For a verb that needs it, the command opens libzero.so (RTLD_NOW |
// RTLD_GLOBAL), looks up `zero_torch_verbs` and calls the verb with values, not with an argument list:
//
//   const TorchVerbs& verbs = open_torch_verbs();          // torch_library.h
//   return verbs.train({.loaded = loaded, .overwrite = true});
//
// The functions live in zero/cli/torch_verbs/, one file a verb, and one file with the table:
//
//   extern "C" const zero::cli::TorchVerbs* zero_torch_verbs() { return &kVerbs; }
//
// Each returns the exit status and throws ConfigError, CommError or IoError; main maps those to 2, 3 and 4. Command and
// library are of one build (build.h): `abi` is compared before anything else is touched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "zero/command/build.h"
#include "zero/config/config.h"
#include "zero/plan/cluster.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero::cli {

// `zero train`. When a launcher started this process, the ranks are in the environment.
struct TrainRequest {
  LoadedConfig loaded;                           // checked; fit_to_world() is still to come, when the world is known
  bool overwrite = false;                        // a run folder that holds a run is replaced
  std::string replay;                            // a run folder whose order of events is repeated; empty: none
  RankFlags ranks;                               // --rank, --world-size and what goes with them
  std::optional<std::int64_t> in_process_ranks;  // `-n N` with comm.transport in_process: number of ranks, as threads
};

// `zero plan`: what each rank of `world` would hold and send.
struct PlanRequest {
  LoadedConfig loaded;
  std::int64_t world = 1;
  bool schedule = false;
  bool json = false;
  std::string profile;               // a run folder: how long the same model computed there; empty: it is estimated
  std::int64_t machines = 1;         // over which the ranks are spread evenly
  bool trains = false;               // of a run that is to come: it is refused where the run would be
  bool overwrites = false;           // that run replaces the one in its folder
  std::optional<Cluster> cluster{};  // of as many ranks and machines; empty: machines are like this one
};

// `zero generate`.
struct GenerateRequest {
  std::string run;    // a run folder
  bool best = false;  // of its checkpoints the best one
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 1337;
};

// `zero bench step`: the parts of a training step, measured.
struct BenchStepRequest {
  LoadedConfig loaded;
  std::int64_t steps = 10;
  bool json = false;
};

// `zero bench muon`: Newton-Schulz iterations of a matrix of ours and of libtorch's, measured.
struct BenchMuonRequest {
  std::string device = "cpu";  // or a GPU
  std::int64_t rows = 1024, columns = 4096;
  int threads = 1;
  std::int64_t rounds = 5;
  bool json = false;
};

struct TorchVerbs {
  const char* abi = build_name();  // first, of whatever build
  const char* torch_version = "";  // that it was built for: "2.11.0"
  // Of the libtorch that it runs with.
  std::string (*loaded_torch)() = nullptr;
  // "" or why libtorch can use no GPU; for doctor. Opens libtorch's code for GPUs.
  std::string (*why_no_cuda)() = nullptr;
  int (*train)(const TrainRequest&) = nullptr;
  int (*plan)(const PlanRequest&) = nullptr;
  int (*generate)(const GenerateRequest&) = nullptr;
  int (*bench_step)(const BenchStepRequest&) = nullptr;
  int (*bench_muon)(const BenchMuonRequest&) = nullptr;
};

}  // namespace zero::cli

// Defined in libzero.so.
extern "C" const zero::cli::TorchVerbs* zero_torch_verbs();
