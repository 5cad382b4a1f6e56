// `zero bench optimizer`: an optimizer's update against a probe with the same reads and writes and next to no
// arithmetic. A rule that is as fast as its probe is at the memory's limit. Reads and writes of a pass:
// - a rule with n states reads 2 + n arrays and writes 1 + n arrays (AdamW: 4 and 3);
// - an average of the weights (--ema) is an additional state;
// - a rule that needs sums (LAMB) first reads the arrays once more;
// - a state in 8 bits is an array of a quarter of the bytes;
// - Adafactor first reads a matrix's gradient for the sums of rows and columns;
// - muon_direct reads gradient and momentum, and writes momentum and directions;
// - muon_step is an update along completed directions;
// - with --dtype bf16 or fp16, the gradient has half the bytes, and the parameter is also written in that type, beside
//   its fp32 master (as in a run).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/process/parallel.h"
#include "zero/base/text/bytes.h"
#include "zero/device/open_device.h"
#include "zero/memory/account/host_memory.h"
#include "zero/optim/elementwise/averaged_rule.h"
#include "zero/optim/lanes/kernel_target.h"
#include "zero/optim/rule/update_span.h"
#include "zero/optim/rule_registry.h"

#include "app/cli/bench/bench.h"
#include "app/cli/bench/measurement.h"
#include "app/cli/bench/parts/device_update.h"
#include "app/cli/bench/parts/update_probe.h"
#include "app/cli/command/flags.h"

namespace zero::cli {
namespace {

struct Measured {
  OptimizerOptions options;
  UpdatePass pass = UpdatePass::kUpdate;
};

// Returns each rule of the registry, and the variants of sgd. A rule of matrices spends its time in products (`zero
// bench muon`), so only the pass before and the pass after the products are measured.
std::map<std::string, Measured> measured_rules() {
  std::map<std::string, Measured> rules{{"momentum", Measured{SgdOptions{.momentum = 0.9}}},
                                        {"nesterov", Measured{SgdOptions{.momentum = 0.9, .nesterov = true}}}};
  for (const OptimizerOptions& options : default_options()) {
    const std::string name(name_of(options));
    if (row_of(options)->needs != RuleNeeds::kMatrices) {
      rules.emplace(name, Measured{options});
    } else {
      rules.emplace(name + "_direct", Measured{options, UpdatePass::kDirection});
      rules.emplace(name + "_step", Measured{options, UpdatePass::kStep});
    }
  }
  return rules;
}

// Makes the rule that the options name, with an average of the weights if `ema` is not 0.
std::unique_ptr<UpdateRule> measured_rule(const std::string& name, const Measured& measured, double ema) {
  auto rule = make_update_rule(measured.options);
  if (ema == 0) return rule;
  if (measured.pass == UpdatePass::kDirection)
    throw ConfigError("--ema", fmt::format("{}", ema), fmt::format("{} changes no weights", name),
                      fmt::format("leave out --ema, or measure {}_step", rule->name()));
  return with_average(std::move(rule), ema);
}

// The memory that a pass touches beside the fp32 parameter, as in a run.
struct Touched {
  DType gradient;                                // muon_step: completed directions
  std::optional<DType> copy;                     // type of the rounded parameter; nullopt: not written
  std::vector<std::optional<StateSpec>> states;  // in the rule's order; nullopt: not touched by the pass

  Touched(const UpdateRule& rule, UpdatePass pass, DType dtype)
      : gradient(pass == UpdatePass::kStep ? DType::kFloat32 : dtype) {
    if (dtype != DType::kFloat32 && pass != UpdatePass::kDirection) copy = dtype;
    for (const StateSpec& state : states_of_elements(rule.states())) {
      const bool touched = pass == UpdatePass::kDirection ? state.of == StateOf::kMatrices
                           : pass == UpdatePass::kStep    ? state.of == StateOf::kAll  // the average
                                                          : state.kept_by(/*matrices=*/rule.factors() != nullptr);
      states.push_back(touched ? std::optional(state) : std::nullopt);
    }
  }

  std::int64_t num_states(bool coded) const {
    return std::ranges::count_if(states, [&](const auto& state) { return state && state->coded() == coded; });
  }
  // Bytes of one element. state_bytes() includes the element's share of the scales.
  double gradient_bytes() const { return static_cast<double>(size_of(gradient)); }
  double copy_bytes() const { return copy ? static_cast<double>(size_of(*copy)) : 0; }
  double state_bytes() const {
    return static_cast<double>(4 * num_states(/*coded=*/false)) +
           static_cast<double>(num_states(/*coded=*/true)) * (1 + 4.0 / kCodeBlock);
  }
};

// Allocates this memory, the gradient first, and returns a span over it.
UpdateSpan allocate(const Touched& touched, std::int64_t numel, std::vector<Allocation>& memory) {
  const auto add = [&](std::size_t element_bytes, std::int64_t count) {
    return memory.emplace_back(allocate_host(static_cast<std::size_t>(count) * element_bytes)).data();
  };
  UpdateSpan span{
      .gradient = add(size_of(touched.gradient), numel), .gradient_dtype = touched.gradient, .numel = numel};
  span.parameter = reinterpret_cast<float*>(add(4, numel));
  if (touched.copy) {
    span.low_precision = add(size_of(*touched.copy), numel);
    span.low_precision_dtype = *touched.copy;
  }
  for (std::size_t i = 0; i < touched.states.size(); ++i) {
    const auto& state = touched.states[i];
    if (!state) continue;
    if (state->coded()) {
      span.coded[i] = {reinterpret_cast<std::uint8_t*>(add(1, numel)),
                       reinterpret_cast<float*>(add(4, numel / kCodeBlock))};
    } else {
      span.states[i] = reinterpret_cast<float*>(add(4, numel));
    }
  }
  return span;
}

// Returns one of a few thousand values of the same magnitude. Their sums are rounded, as sums of gradients are.
float some_gradient(std::int64_t i) {
  return 0.01f + 1e-6f * static_cast<float>(i * 2654435761 >> 7 & 0xfff);
}

// Writes first values, which also maps the pages.
void fill(const UpdateSpan& span, std::byte* gradient) {
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    auto* const elements = reinterpret_cast<G*>(gradient);
    for (std::int64_t i = span.first; i < span.first + span.numel; ++i) elements[i] = rounded_to<G>(some_gradient(i));
  });
  std::fill_n(span.parameter, span.numel, 1.0f);
  span.write_low_precision();
  for (float* const state : span.states)
    if (state != nullptr) std::fill_n(state, span.numel, 1.0f);
  for (const CodedState& state : span.coded) {
    if (state.codes == nullptr) continue;
    std::fill_n(state.codes, span.numel, std::uint8_t{1});
    std::fill_n(state.scales, span.numel / kCodeBlock, 1.0f);
  }
}

// Sums of a factored matrix's rows and columns, and the states that are computed from these sums.
struct Matrix {
  std::vector<float> row_var, col_var;
  std::vector<ExactSum> row_sums, column_sums;
  std::mutex lock;

  explicit Matrix(const MatrixShape& of)
      : row_var(static_cast<std::size_t>(of.rows)),
        col_var(static_cast<std::size_t>(of.columns)),
        row_sums(row_var.size()),
        column_sums(col_var.size()) {}
  Factors update(const FactorRule& rule, const UpdateScalars& scalars) {
    std::vector<double> sums;
    for (std::vector<ExactSum>* of : {&row_sums, &column_sums}) {
      for (ExactSum& sum : *of) {
        sums.push_back(sum.value());
        sum = {};
      }
    }
    return rule.update_factors(row_var, col_var, sums, scalars);
  }
};

struct OptimizerBench {
  std::string name = "adamw";
  std::int64_t mib = 1024;
  int threads = 1;
  int rounds = 5;
  std::int64_t columns = 1024;
  bool json = false;
  std::string device = "cpu";
  std::string dtype = "fp32";
  double ema = 0;
};

// Measures `zero bench optimizer --device cuda`, against a copy on the device that touches as many bytes.
int measure_on_device(const OptimizerBench& options) {
  const std::unique_ptr<Device> device = open_device(options.device);
  const Measured measured = measured_rules().at(options.name);
  DeviceUpdate update(*device, measured.options, measured.pass, (options.mib << 20) / 4);
  update.run();
  update.copy();
  Measurement copies, updates;
  for (int round = 0; round < options.rounds; ++round) {
    copies.time([&] { update.copy(); });
    updates.time([&] { update.run(); });
  }
  const auto rate = [&](double seconds) { return static_cast<double>(update.touched_bytes()) / 1e9 / seconds; };
  const double ratio_best = copies.best() / updates.best(), ratio_median = copies.median() / updates.median();
  const bool restless = copies.spread() > kRestless;
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"bench", "optimizer"},
                                              {"name", options.name},
                                              {"device", device->name()},
                                              {"array_bytes", options.mib << 20},
                                              {"touched_bytes", update.touched_bytes()},
                                              {"rounds", options.rounds},
                                              {"copy_best_s", copies.best()},
                                              {"copy_median_s", copies.median()},
                                              {"update_best_s", updates.best()},
                                              {"update_median_s", updates.median()},
                                              {"ratio_best", ratio_best},
                                              {"ratio_median", ratio_median},
                                              {"restless", restless}}
                           .dump(2));
    return 0;
  }
  fmt::print("{} on {}, arrays of {} MiB, {}\n", options.name, device->name(), options.mib,
             format_count(options.rounds, "round"));
  fmt::print("  {:<8}{:>14}{:>14}\n", "", "best", "median");
  fmt::print("  {:<8}{:>9.2f} GB/s{:>9.2f} GB/s\n", "copy", rate(copies.best()), rate(copies.median()));
  fmt::print("  {:<8}{:>9.2f} GB/s{:>9.2f} GB/s\n", options.name, rate(updates.best()), rate(updates.median()));
  fmt::print("  {:<8}{:>14.3f}{:>14.3f}   (1: as fast as a copy that touches as many bytes)\n", "ratio", ratio_best,
             ratio_median);
  if (restless)
    fmt::print("  note: the copies differ by {:.0f} %: something else is running, measure again\n",
               100 * copies.spread());
  return 0;
}

const std::map<std::string, DType>& measured_types() {
  static const std::map<std::string, DType> types{
      {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
  return types;
}

// A rule's update over arrays in main memory, and a probe with the same reads and writes.
class HostUpdate {
 public:
  // Throws ConfigError if the rule does not have this pass, or if memory is short.
  explicit HostUpdate(const OptimizerBench& options)
      : measured_(measured_rules().at(options.name)),
        rule_(measured_rule(options.name, measured_, options.ema)),
        factors_(rule_->factors()),
        directs_(measured_.pass == UpdatePass::kDirection),
        touched_(*rule_, measured_.pass, measured_types().at(options.dtype)),
        numel_((options.mib << 20) / 4),
        num_sums_(rule_->num_sums()),
        summed_states_(touched_.num_states(/*coded=*/false) - (options.ema > 0 ? 1 : 0)),
        team_(options.threads) {
    const double element_bytes = 4 + touched_.gradient_bytes() + touched_.copy_bytes() + touched_.state_bytes();
    require_memory(std::llround(element_bytes * static_cast<double>(numel_)) + (64 << 20), "use fewer with --mib");
    if (factors_ != nullptr || measured_.pass != UpdatePass::kUpdate) {
      shape_ = {numel_ / options.columns, options.columns};
      numel_ = shape_.rows * shape_.columns;
    }
    if (factors_ != nullptr) matrix_.emplace(shape_);
    all_ = allocate(touched_, numel_, memory_);
    grain_ = update_grain(numel_, options.threads, needs_of(*rule_) == RuleNeeds::kElements);
    in_parallel([this](const UpdateSpan& part) { fill(part, memory_.front().data()); });
  }

  void probe() {
    if (factors_ != nullptr) read_arrays(1);
    if (num_sums_ > 0) read_arrays(2 + summed_states_);
    in_parallel([this](const UpdateSpan& part) { directs_ ? probe_direction(part) : probe_update(part); });
  }

  void update(int step) {
    UpdateScalars scalars{.step = step, .lr = 1e-3, .gradient_scale = 1, .weight_decay = 0.01};
    scalars.numel = numel_;
    scalars.matrix = shape_;
    if (factors_ != nullptr) {
      in_parallel([&](const UpdateSpan& part) {
        factors_->add_squares(part, scalars, matrix_->row_sums, matrix_->column_sums, matrix_->lock);
      });
      scalars.factors = matrix_->update(*factors_, scalars);
    }
    if (num_sums_ > 0) {
      in_parallel([&](const UpdateSpan& part) {
        std::vector<ExactSum> sums(static_cast<std::size_t>(num_sums_));
        rule_->add_sums(part, scalars, sums);
      });
    }
    const std::vector<double> sums(static_cast<std::size_t>(num_sums_), 1.0);
    scalars.sums = sums;
    in_parallel([&](const UpdateSpan& part) {
      directs_ ? rule_->matrices()->direct(part, scalars) : rule_->update(part, scalars);
    });
  }

  const Touched& touched() const { return touched_; }
  // Returns the bytes that update() reads and writes. For each element:
  // - the gradient is read;
  // - states are read and written;
  // - the parameter is read and written, but a direction is only written;
  // - the parameter's copy in a shorter type is written;
  // - sums read their arrays once more, and sums of rows and columns read the gradient once more.
  double touched_bytes() const {
    const double gradient = touched_.gradient_bytes();
    const double of_element = gradient + touched_.copy_bytes() + (directs_ ? 4 : 8) + 2 * touched_.state_bytes() +
                              (num_sums_ > 0 ? gradient + 4 + 4 * static_cast<double>(summed_states_) : 0) +
                              (factors_ != nullptr ? gradient : 0);
    return of_element * static_cast<double>(numel_);
  }

 private:
  template <typename Body>
  void in_parallel(const Body& body) {
    team_.for_range(0, numel_, grain_,
                    [&](std::int64_t begin, std::int64_t end) { body(all_.part(begin, end - begin)); });
  }
  void read_arrays(std::int64_t num_arrays) {
    in_parallel([&](const UpdateSpan& part) { probe_reads(part, static_cast<std::size_t>(num_arrays)); });
  }

  Measured measured_;
  std::unique_ptr<UpdateRule> rule_;
  const FactorRule* factors_;
  bool directs_;
  Touched touched_;
  std::int64_t numel_;
  int num_sums_;
  std::int64_t summed_states_;  // sums read all fp32 states except the average
  MatrixShape shape_{};
  std::optional<Matrix> matrix_;
  std::vector<Allocation> memory_;
  UpdateSpan all_;
  std::int64_t grain_ = 1;
  ThreadTeam team_;
};

struct ProbedUpdates {
  Measurement probes, updates;
  double ratio_best() const { return probes.best() / updates.best(); }
  double ratio_median() const { return probes.median() / updates.median(); }
  bool restless() const { return probes.spread() > kRestless; }
};

void print_json(const OptimizerBench& options, const ProbedUpdates& m) {
  fmt::print("{}\n", nlohmann::ordered_json{{"bench", "optimizer"},
                                            {"name", options.name},
                                            {"dtype", options.dtype},
                                            {"ema", options.ema},
                                            {"kernel", kernel_target()},
                                            {"array_bytes", options.mib << 20},
                                            {"threads", options.threads},
                                            {"rounds", options.rounds},
                                            {"probe_best_s", m.probes.best()},
                                            {"probe_median_s", m.probes.median()},
                                            {"update_best_s", m.updates.best()},
                                            {"update_median_s", m.updates.median()},
                                            {"ratio_best", m.ratio_best()},
                                            {"ratio_median", m.ratio_median()},
                                            {"probe_spread", m.probes.spread()},
                                            {"restless", m.restless()}}
                         .dump(2));
}

void print_table(const OptimizerBench& options, const HostUpdate& update, const ProbedUpdates& m) {
  const Touched& touched = update.touched();
  const bool short_gradient = touched.gradient_bytes() < 4;
  const std::int64_t num_halves = (short_gradient ? 1 : 0) + (touched.copy ? 1 : 0);
  const std::int64_t num_quarters = touched.num_states(/*coded=*/true);
  const std::int64_t num_whole = (short_gradient ? 1 : 2) + touched.num_states(/*coded=*/false);
  fmt::print("{}{}, kernel {}, {} of {} MiB{}{}, {}, {}\n", options.name, options.ema > 0 ? " with an average" : "",
             kernel_target(), format_count(num_whole, "array"), options.mib,
             num_halves > 0 ? fmt::format(" and {} in {}", num_halves, options.dtype) : "",
             num_quarters > 0 ? fmt::format(" and {} of a quarter of it", num_quarters) : "",
             format_count(options.threads, "thread"), format_count(options.rounds, "round"));
  const auto rate = [&](double seconds) { return update.touched_bytes() / 1e9 / seconds; };
  const std::size_t width = std::max<std::size_t>(8, options.name.size());
  fmt::print("  {:<{}}{:>14}{:>14}\n", "", width, "best", "median");
  fmt::print("  {:<{}}{:>9.2f} GB/s{:>9.2f} GB/s\n", "probe", width, rate(m.probes.best()), rate(m.probes.median()));
  fmt::print("  {:<{}}{:>9.2f} GB/s{:>9.2f} GB/s\n", options.name, width, rate(m.updates.best()),
             rate(m.updates.median()));
  fmt::print("  {:<{}}{:>14.3f}{:>14.3f}   (1 is the limit of memory)\n", "ratio", width, m.ratio_best(),
             m.ratio_median());
  if (m.restless())
    fmt::print("  note: the probes differ by {:.0f} %: something else is running, measure again\n",
               100 * m.probes.spread());
}

int measure_on_host(const OptimizerBench& options) {
  HostUpdate update(options);
  ProbedUpdates measured;
  for (int round = 0; round < options.rounds; ++round) {
    measured.probes.time([&] { update.probe(); });
    measured.updates.time([&] { update.update(round + 2); });
  }
  options.json ? print_json(options, measured) : print_table(options, update, measured);
  return 0;
}

// Returns nullopt if the user asked for help.
std::optional<OptimizerBench> parse_optimizer_bench(Arguments arguments) {
  OptimizerBench options;
  CLI::App app("Measures an optimizer's update against a probe with the same reads and writes.",
               "zero bench optimizer");
  std::vector<std::string> names;
  for (const auto& [rule_name, of] : measured_rules()) names.push_back(rule_name);
  app.add_option("--name", options.name, "update rule; for muon the pass before or after its matrix products")
      ->capture_default_str()
      ->check(CLI::IsMember(names));
  app.add_option("--mib", options.mib, "MiB of each array")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", options.threads, "number of threads")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "measurements of each part")
      ->capture_default_str()
      ->check(CLI::Range(5, 1000));
  app.add_option("--columns", options.columns, "columns of the matrix, a multiple of 16; only for adafactor")
      ->capture_default_str()
      ->check(CLI::Range(16, 1 << 16))
      ->check([](const std::string& text) {
        return std::stoll(text) % kSumBlock == 0 ? "" : "a multiple of 16 is wanted, not " + text;
      });
  app.add_option("--dtype", options.dtype, "type of gradients and parameters; bf16 and fp16 also have an fp32 master")
      ->capture_default_str()
      ->check(CLI::IsMember(measured_types()));
  app.add_option("--ema", options.ema, "decay of an average of the weights, for example 0.999; 0: none")
      ->capture_default_str();
  app.add_option("--device", options.device, "device: cpu, cuda or cuda:1")->capture_default_str();
  app.add_flag("--json", options.json, "print one JSON object");
  if (!parse_flags(app, arguments)) return std::nullopt;
  if (options.device != "cpu" && (options.dtype != "fp32" || options.ema != 0))
    throw ConfigError("--device", options.device, "there updates are measured in fp32, without an average",
                      "leave out --dtype and --ema, or use cpu");
  return options;
}

}  // namespace

int run_bench_optimizer(Arguments arguments) {
  const std::optional<OptimizerBench> options = parse_optimizer_bench(arguments);
  if (!options) return 0;
  return options->device == "cpu" ? measure_on_host(*options) : measure_on_device(*options);
}

}  // namespace zero::cli
