// `zero bench optimizer`: a rule with n states reads 2 + n arrays and writes 1 + n (AdamW 4 and 3); one that needs sums
// (LAMB) reads them once more before; states in 8 bits are arrays of a quarter of the bytes; Adafactor reads the gradient of
// a matrix for rows and columns before all that. The probe does the same with next to no arithmetic; how near the rule
// comes to it says how near it is to the memory's limit.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/base/parallel.h"
#include "zero/bench/bench.h"
#include "zero/bench/device_update.h"
#include "zero/bench/measurement.h"
#include "zero/command/flags.h"
#include "zero/device/open_device.h"
#include "zero/memory/host_memory.h"
#include "zero/optim/kernel_target.h"
#include "zero/optim/rule_registry.h"
#include "zero/optim/update_grain.h"

namespace zero::cli {
namespace {

struct Arrays {
  Allocation parameter, gradient, first, second;
  std::int64_t numel;

  explicit Arrays(std::int64_t bytes)
      : parameter(allocate_host(static_cast<std::size_t>(bytes))),
        gradient(allocate_host(static_cast<std::size_t>(bytes))),
        first(allocate_host(static_cast<std::size_t>(bytes))),
        second(allocate_host(static_cast<std::size_t>(bytes))),
        numel(bytes / 4) {}
};

float* floats(const Allocation& allocation, std::int64_t offset) {
  return reinterpret_cast<float*>(allocation.data()) + offset;
}

// Neither overflow nor denormals however often it is repeated: the values tend to the gradient's. Blocks of a fixed
// length are what a compiler turns into vector instructions at any level of optimisation; `numel` is a multiple of
// them. Arrays that the rule has not are not touched.
template <int kMoments>
void probe(float* __restrict parameter, const float* __restrict gradient, float* __restrict first,
           float* __restrict second, std::int64_t numel) {
  constexpr int kBlock = 16;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float g = gradient[at + i];
      if constexpr (kMoments >= 1) first[at + i] = 0.5f * (first[at + i] + g);
      if constexpr (kMoments >= 2) second[at + i] = 0.5f * (second[at + i] + g);
      parameter[at + i] = 0.5f * (parameter[at + i] + g);
    }
  }
}

// The reads of a pass for sums: of the first `kArrays` of a gradient, a parameter and its states. A line at a time in
// registers, because elements one by one would take longer than the memory does; and lines that are asked for ahead, because
// one array that is read as it comes leaves half of a memory's speed unused.
template <int kArrays>
void read_probe(std::array<const float*, 4> arrays, std::int64_t numel) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::int64_t kLine = 16, kAhead = 512;
  Words first{}, second{}, third{}, fourth{};  // in an array they would go through memory
  const auto words_at = [](const float* values) {
    Words words;
    std::memcpy(&words, values, sizeof(words));
    return words;
  };
  for (std::int64_t at = 0; at < numel; at += kLine) {
    const std::int64_t ahead = std::min(at + kAhead, numel - 1);
    for (int array = 0; array < kArrays; ++array) {
      const float* const values = arrays[static_cast<std::size_t>(array)];
      __builtin_prefetch(values + ahead);
      first ^= words_at(values + at);
      second ^= words_at(values + at + 4);
      third ^= words_at(values + at + 8);
      fourth ^= words_at(values + at + 12);
    }
  }
  const Words seen = first ^ second ^ third ^ fourth;
  static std::atomic<std::uint64_t> sink;
  sink.store(seen[0] ^ seen[1], std::memory_order_relaxed);
}

constexpr std::array kProbes{probe<0>, probe<1>, probe<2>};
constexpr std::array kReadProbes{read_probe<1>, read_probe<2>, read_probe<3>, read_probe<4>};

// Of a rule with two states in 8 bits: codes are read and written.
void probe_codes(float* __restrict parameter, const float* __restrict gradient, std::uint8_t* __restrict first,
                 std::uint8_t* __restrict second, std::int64_t numel) {
  constexpr int kBlock = 64;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) parameter[at + i] = 0.5f * (parameter[at + i] + gradient[at + i]);
    for (int i = 0; i < kBlock; ++i) first[at + i] = static_cast<std::uint8_t>(first[at + i] ^ 1U);
    for (int i = 0; i < kBlock; ++i) second[at + i] = static_cast<std::uint8_t>(second[at + i] ^ 1U);
  }
}

// And their scales, too.
void probe_coded(const UpdateSpan& span) {
  probe_codes(span.parameter, reinterpret_cast<const float*>(span.gradient), span.coded[0].codes, span.coded[1].codes,
              span.numel);
  for (const CodedState& state : {span.coded[0], span.coded[1]})
    for (std::int64_t block = 0; block < span.numel / kCodeBlock; ++block) state.scales[block] += 1e-6f;
}

// Each rule of the registry but those of matrices, whose time goes into products (`zero bench muon`); and the forms of sgd.
std::map<std::string, OptimizerOptions> measured_rules() {
  std::map<std::string, OptimizerOptions> rules{{"momentum", SgdOptions{.momentum = 0.9}},
                                                {"nesterov", SgdOptions{.momentum = 0.9, .nesterov = true}}};
  for (const OptimizerOptions& options : default_options())
    if (row_of(options)->needs != RuleNeeds::kMatrices) rules.emplace(name_of(options), options);
  return rules;
}

// A rule's states in the memory of `arrays`: codes, and behind them their scales.
UpdateSpan span_of(const Arrays& arrays, const UpdateRule& rule) {
  UpdateSpan span{.parameter = floats(arrays.parameter, 0), .gradient = arrays.gradient.data(), .numel = arrays.numel};
  if (rule.factors() != nullptr) return span;  // states of rows and columns alone
  const std::vector<StateSpec> states = states_of_elements(rule.states());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Allocation& memory = i == 0 ? arrays.first : arrays.second;
    if (states[i].coded()) {
      span.coded[i] = {reinterpret_cast<std::uint8_t*>(memory.data()),
                       reinterpret_cast<float*>(memory.data() + arrays.numel)};
    } else {
      span.states[i] = floats(memory, 0);
    }
  }
  return span;
}

// Sums of a factored matrix's rows and columns, and the states that are made of them.
struct Matrix {
  MatrixShape shape;
  std::vector<float> row_var, col_var;
  std::vector<ExactSum> row_sums, column_sums;
  std::mutex lock;

  Matrix(std::int64_t rows, std::int64_t columns)
      : shape{rows, columns},
        row_var(static_cast<std::size_t>(rows)),
        col_var(static_cast<std::size_t>(columns)),
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

struct OnDevice {
  std::string name;
  std::int64_t mib = 0;
  int rounds = 0;
  bool json = false;
};

// `zero bench optimizer --device cuda`: beside a copy on the device that touches as many bytes.
int measure_on(std::string_view device_name, const OnDevice& options) {
  const std::unique_ptr<Device> device = open_device(device_name);
  DeviceUpdate update(*device, measured_rules().at(options.name), (options.mib << 20) / 4);
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

// A few thousand values, all of one magnitude: sums of them are rounded, as sums of gradients are.
float gradient_at(std::int64_t i) {
  return 0.01f + 1e-6f * static_cast<float>(i * 2654435761 >> 7 & 0xfff);
}

}  // namespace

int run_bench_optimizer(Arguments arguments) {
  CLI::App app("Measures an optimizer's update against a probe with the same reads and writes.",
               "zero bench optimizer");
  std::string name = "adamw";
  std::int64_t mib = 1024;
  int threads = 1;
  int rounds = 5;
  std::int64_t columns = 1024;
  bool json = false;
  std::string device = "cpu";
  std::vector<std::string> names;
  for (const auto& [rule_name, options] : measured_rules()) names.push_back(rule_name);
  app.add_option("--name", name, "the update rule")->capture_default_str()->check(CLI::IsMember(names));
  app.add_option("--mib", mib, "MiB of each array")->capture_default_str()->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", threads, "number of threads")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--rounds", rounds, "measurements of each part")->capture_default_str()->check(CLI::Range(5, 1000));
  app.add_option("--columns", columns, "columns of the matrix, a multiple of 16; only of adafactor")
      ->capture_default_str()
      ->check(CLI::Range(16, 1 << 16))
      ->check([](const std::string& text) {
        return std::stoll(text) % kSumBlock == 0 ? "" : "a multiple of 16 is wanted, not " + text;
      });
  app.add_option("--device", device, "cpu, or a GPU: cuda or cuda:1")->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  if (device != "cpu") return measure_on(device, {.name = name, .mib = mib, .rounds = rounds, .json = json});

  const std::int64_t bytes = mib << 20;
  require_memory(4 * bytes + (64 << 20), "use fewer with --mib");
  Arrays arrays(bytes);
  ThreadTeam team(threads);
  const auto rule = make_update_rule(measured_rules().at(name));
  const bool by_element = needs_of(*rule) == RuleNeeds::kElements;
  const auto in_parallel = [&](const auto& work) {
    team.for_range(0, arrays.numel, update_grain(arrays.numel, threads, by_element),
                   [&](std::int64_t begin, std::int64_t end) { work(begin, end - begin); });
  };
  in_parallel([&](std::int64_t at, std::int64_t numel) {
    for (std::int64_t i = at; i < at + numel; ++i) *floats(arrays.gradient, i) = gradient_at(i);
    for (const auto* array : {&arrays.parameter, &arrays.first, &arrays.second})
      std::fill_n(floats(*array, at), numel, 1.0f);
  });
  const FactorRule* factors = rule->factors();
  Matrix matrix(factors != nullptr ? arrays.numel / columns : 0, factors != nullptr ? columns : 0);
  if (factors != nullptr) arrays.numel = matrix.shape.rows * columns;
  const int moments = factors != nullptr ? 0 : static_cast<int>(rule->states().size());
  const int num_sums = rule->num_sums();
  const UpdateSpan all = span_of(arrays, *rule);
  const bool coded = all.coded[0].codes != nullptr;
  // 2 + n reads, 1 + n writes; and the reads once more for sums, and the gradient for rows and columns.
  const double states = factors != nullptr ? 0 : spec_of(*rule).element_bytes() / sizeof(float);
  const double touched = 3 + 2 * states + (num_sums > 0 ? 2 + states : 0) + (factors != nullptr ? 1 : 0);
  const auto read_arrays = [&](int num_arrays) {
    in_parallel([&](std::int64_t at, std::int64_t numel) {
      kReadProbes.at(static_cast<std::size_t>(num_arrays - 1))(
          {floats(arrays.gradient, at), floats(arrays.parameter, at), floats(arrays.first, at),
           floats(arrays.second, at)},
          numel);
    });
  };
  Measurement probes, updates;
  for (int round = 0; round < rounds; ++round) {
    probes.time([&] {
      if (factors != nullptr) read_arrays(1);
      if (num_sums > 0) read_arrays(2 + moments);
      in_parallel([&](std::int64_t at, std::int64_t numel) {
        if (coded) return probe_coded(all.part(at, numel));
        kProbes.at(static_cast<std::size_t>(moments))(floats(arrays.parameter, at), floats(arrays.gradient, at),
                                                      floats(arrays.first, at), floats(arrays.second, at), numel);
      });
    });
    updates.time([&] {
      UpdateScalars scalars{.step = round + 2, .lr = 1e-3, .gradient_scale = 1, .weight_decay = 0.01};
      scalars.numel = arrays.numel;
      scalars.matrix = matrix.shape;
      if (factors != nullptr) {
        in_parallel([&](std::int64_t at, std::int64_t numel) {
          factors->add_squares(all.part(at, numel), scalars, matrix.row_sums, matrix.column_sums, matrix.lock);
        });
        scalars.factors = matrix.update(*factors, scalars);
      }
      if (num_sums > 0) {
        in_parallel([&](std::int64_t at, std::int64_t numel) {
          std::vector<ExactSum> sums(static_cast<std::size_t>(num_sums));
          rule->add_sums(all.part(at, numel), scalars, sums);
        });
      }
      const std::vector<double> sums(static_cast<std::size_t>(num_sums), 1.0);
      scalars.sums = sums;
      in_parallel([&](std::int64_t at, std::int64_t numel) { rule->update(all.part(at, numel), scalars); });
    });
  }
  const auto rate = [&](double seconds) { return touched * static_cast<double>(bytes) / 1e9 / seconds; };
  const bool restless = probes.spread() > kRestless;
  const double ratio_best = probes.best() / updates.best();
  const double ratio_median = probes.median() / updates.median();
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"bench", "optimizer"},
                                              {"name", name},
                                              {"kernel", kernel_target()},
                                              {"array_bytes", bytes},
                                              {"threads", threads},
                                              {"rounds", rounds},
                                              {"probe_best_s", probes.best()},
                                              {"probe_median_s", probes.median()},
                                              {"update_best_s", updates.best()},
                                              {"update_median_s", updates.median()},
                                              {"ratio_best", ratio_best},
                                              {"ratio_median", ratio_median},
                                              {"probe_spread", probes.spread()},
                                              {"restless", restless}}
                           .dump(2));
    return 0;
  }
  fmt::print("{}, kernel {}, {} arrays of {} MiB{}, {}, {}\n", name, kernel_target(), coded ? 2 : 2 + moments, mib,
             coded ? " and 2 of a quarter of it" : "", format_count(threads, "thread"), format_count(rounds, "round"));
  fmt::print("  {:<8}{:>14}{:>14}\n", "", "best", "median");
  fmt::print("  {:<8}{:>9.2f} GB/s{:>9.2f} GB/s\n", "probe", rate(probes.best()), rate(probes.median()));
  fmt::print("  {:<8}{:>9.2f} GB/s{:>9.2f} GB/s\n", name, rate(updates.best()), rate(updates.median()));
  fmt::print("  {:<8}{:>14.3f}{:>14.3f}   (1 is the limit of memory)\n", "ratio", ratio_best, ratio_median);
  if (restless)
    fmt::print("  note: the probes differ by {:.0f} %: something else is running, measure again\n",
               100 * probes.spread());
  return 0;
}

}  // namespace zero::cli
