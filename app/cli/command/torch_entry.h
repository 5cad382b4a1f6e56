// TorchVerbs: the verbs of libzero_app.so, which the command calls without linking libtorch.
//
//   const TorchVerbs& verbs = open_torch_verbs();          // torch_library.h
//   return verbs.train({.loaded = loaded, .overwrite = true});
//
// Only libzero_app.so links libtorch. The command parses and checks everything first, so a bad key is reported in
// milliseconds. `launch` and `inspect` never load a gigabyte of libtorch. open_torch_verbs() opens libzero_app.so
// (RTLD_NOW | RTLD_GLOBAL), and looks up `zero_torch_verbs`. The verbs are in app/cli/torch_verbs/, one file each, and
// their table in table.cpp. They take values, not an argument list. Each returns the exit status, and throws
// ConfigError, CommError or IoError, which main maps to 2, 3 and 4. Invariant: command and library are of one build
// (build.h), because `abi` is compared before any other member is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/comm/rendezvous/detect_ranks.h"
#include "zero/plan/cluster/cluster.h"

#include "app/cli/command/build.h"
#include "app/config/options/config.h"

namespace zero::cli {

// `zero train`. If a launcher started this process, the environment describes the ranks.
struct TrainRequest {
  LoadedConfig loaded;                           // checked; fit_to_world() follows when the world is known
  bool overwrite = false;                        // replaces a run in the run folder
  std::string replay;                            // run folder whose order of events is repeated; empty: no replay
  RankFlags ranks;                               // --rank, --world-size and related flags
  std::optional<std::int64_t> in_process_ranks;  // `-n N` with comm.transport in_process: number of ranks, as threads
  std::vector<std::int64_t> saves;               // `zero verify`: saves after these steps only, ends after the last
};

// `zero plan`: the memory and the traffic of each rank of `world`.
struct PlanRequest {
  LoadedConfig loaded;
  std::int64_t world = 1;
  bool schedule = false;
  bool json = false;
  std::string profile;               // run folder with measured compute times of the same model; empty: estimated
  std::int64_t machines = 1;         // number of machines, with equally many ranks
  bool trains = false;               // plan of a coming run: refused if the run would be refused
  bool overwrites = false;           // the coming run replaces the run in its folder
  std::optional<Cluster> cluster{};  // has `world` ranks and `machines` machines; empty: machines like this one
};

// `zero generate`.
struct GenerateRequest {
  std::string run;    // a run folder
  bool best = false;  // of its checkpoints the best one
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // 0: all tokens
  std::uint64_t seed = 1337;
};

// `zero bench step`: measures the parts of a training step.
struct BenchStepRequest {
  LoadedConfig loaded;
  std::int64_t steps = 10;
  bool json = false;
};

// `zero bench muon`: measures Newton-Schulz iterations of a matrix by zero.cpp and by libtorch.
struct BenchMuonRequest {
  std::string device = "cpu";  // "cpu" or a GPU
  std::int64_t rows = 1024, columns = 4096;
  int threads = 1;
  std::int64_t rounds = 5;
  bool json = false;
};

// The place of a rank, as a checkpoint records it (app/train/folder/computing_place.h), beside this process.
struct RecordedPlace {
  int threads = 0;             // recorded threads of a rank; 0: the text is no place
  std::string why_other_bits;  // why a rank computes other bits here; empty: the same bits
  std::string note;            // another processor, for people; empty: the same one
};

struct TorchVerbs {
  const char* abi = build_name();  // the first member, in all versions
  const char* torch_version = "";  // of the libtorch that it was built for: "2.11.0"
  // Returns the version of the loaded libtorch.
  std::string (*loaded_torch)() = nullptr;
  // Returns why libtorch can use no GPU, or "". For doctor. Opens libtorch's code for GPUs.
  std::string (*why_no_cuda)() = nullptr;
  int (*train)(const TrainRequest&) = nullptr;
  int (*plan)(const PlanRequest&) = nullptr;
  int (*generate)(const GenerateRequest&) = nullptr;
  int (*bench_step)(const BenchStepRequest&) = nullptr;
  int (*bench_muon)(const BenchMuonRequest&) = nullptr;
  RecordedPlace (*compare_place)(const std::string& recorded) = nullptr;
  // Returns the samples of one pass over the training data; nullopt if the data is not on this machine. For sweep.
  std::optional<std::int64_t> (*samples_of_pass)(const Config& config) = nullptr;
};

}  // namespace zero::cli

// Defined in libzero_app.so.
extern "C" const zero::cli::TorchVerbs* zero_torch_verbs();
