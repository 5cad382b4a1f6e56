#include <optional>

#include <caffe2/core/common.h>
#include <fmt/format.h>

#include <c10/util/Exception.h>
#include <torch/version.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/torch/seam/torch_device.h"

#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/train/folder/computing_place.h"

namespace zero::cli {
namespace {

// Runs a verb. libtorch's errors carry a stack of addresses after their message. Users get only the message, unless the
// log level is debug.
template <auto verb, typename Request>
int without_backtrace(const Request& request) {
  try {
    return verb(request);
  } catch (const c10::Error& error) {
    throw Error(log_enabled(LogLevel::debug) ? error.what() : error.what_without_backtrace());
  }
}

// Returns the version of libtorch; "" if libtorch does not report it.
std::string loaded_torch() {
  const auto& options = caffe2::GetBuildOptions();
  const auto version = options.find("TORCH_VERSION");
  return version == options.end() ? "" : version->second;
}

RecordedPlace compare_place(const std::string& recorded) {
  const std::optional<ComputingPlace> then = place_of_text(recorded);
  if (!then) return {};
  const ComputingPlace here = computing_place(then->threads);
  RecordedPlace place{.threads = then->threads, .why_other_bits = why_other_bits(*then, here), .note = ""};
  if (then->processor != here.processor)
    place.note = fmt::format("the run computed on {}, and this machine has {}", then->processor, here.processor);
  return place;
}

}  // namespace
}  // namespace zero::cli

extern "C" const zero::cli::TorchVerbs* zero_torch_verbs() {
  using namespace zero::cli;
  static const TorchVerbs verbs{.torch_version = TORCH_VERSION,
                                .loaded_torch = loaded_torch,
                                .why_no_cuda = zero::try_torch_cuda,
                                .train = without_backtrace<train_verb, TrainRequest>,
                                .plan = without_backtrace<plan_verb, PlanRequest>,
                                .generate = without_backtrace<generate_verb, GenerateRequest>,
                                .bench_step = without_backtrace<bench_step_verb, BenchStepRequest>,
                                .bench_muon = without_backtrace<bench_muon_verb, BenchMuonRequest>,
                                .compare_place = compare_place,
                                .samples_of_pass = samples_of_pass};
  return &verbs;
}
