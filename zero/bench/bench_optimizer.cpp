// `zero bench optimizer`: a rule with n states reads 2 + n arrays and writes 1 + n (AdamW 4 and 3); one that needs sums
// (LAMB) reads them once more before; states in 8 bits are arrays of a quarter of the bytes; Adafactor reads the gradient of
// a matrix for rows and columns before all that. An average of the weights (--ema) is one more state. With --dtype bf16 or fp16
// the gradient is an array of half the bytes, and the parameter is written in that type, too, beside its fp32 master: as a
// run has them. The probe does the same with next to no arithmetic; how near the rule comes to it says how near it is to the
// memory's limit.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/parallel.h"
#include "zero/bench/bench.h"
#include "zero/bench/device_update.h"
#include "zero/bench/measurement.h"
#include "zero/command/flags.h"
#include "zero/device/open_device.h"
#include "zero/memory/host_memory.h"
#include "zero/optim/averaged_rule.h"
#include "zero/optim/kernel_target.h"
#include "zero/optim/rule_registry.h"
#include "zero/optim/update_grain.h"

namespace zero::cli {
namespace {

Allocation allocate_array(std::int64_t numel, std::size_t element_bytes) {
  return allocate_host(static_cast<std::size_t>(numel) * element_bytes);
}

struct Arrays {
  std::int64_t numel;
  DType dtype;  // of the gradient, and of the parameter that a model computes with
  Allocation parameter, gradient;
  Allocation low_precision;  // none in fp32
  std::vector<Allocation> states;

  Arrays(std::int64_t count, DType type, std::size_t num_states)
      : numel(count), dtype(type), parameter(allocate_array(count, 4)), gradient(allocate_array(count, size_of(type))) {
    if (dtype != DType::kFloat32) low_precision = allocate_array(count, size_of(type));
    for (std::size_t i = 0; i < num_states; ++i) states.push_back(allocate_array(count, 4));
  }
  float* state(std::size_t i, std::int64_t offset) const;
  std::byte* gradient_at(std::int64_t offset) const {
    return gradient.data() + offset * static_cast<std::int64_t>(size_of(dtype));
  }
};

float* floats(const Allocation& allocation, std::int64_t offset) {
  return reinterpret_cast<float*>(allocation.data()) + offset;
}

float* Arrays::state(std::size_t i, std::int64_t offset) const {
  return i < states.size() ? floats(states[i], offset) : nullptr;
}

// Bits of 16, moved to where those of a float stand: of no type, for a probe that converts nothing.
float widened(float value) {
  return value;
}
float widened(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Neither overflow nor denormals however often it is repeated: the values tend to the gradient's. Blocks of a fixed
// length are what a compiler turns into vector instructions at any level of optimisation; `numel` is a multiple of
// them. Arrays that the rule has not are not touched.
template <typename Gradient, int kStates>
void probe_elements(float* __restrict parameter, const Gradient* __restrict gradient, Gradient* __restrict low,
                    float* __restrict first, float* __restrict second, float* __restrict third, std::int64_t numel) {
  constexpr int kBlock = 16;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float g = widened(gradient[at + i]);
      if constexpr (kStates >= 1) first[at + i] = 0.5f * (first[at + i] + g);
      if constexpr (kStates >= 2) second[at + i] = 0.5f * (second[at + i] + g);
      if constexpr (kStates >= 3) third[at + i] = 0.5f * (third[at + i] + g);
      const float next = 0.5f * (parameter[at + i] + g);
      parameter[at + i] = next;
      if constexpr (sizeof(Gradient) == 2)
        low[at + i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(next) >> 16);
    }
  }
}

// The same of a span's arrays.
template <typename Gradient, int kStates>
void probe(const UpdateSpan& span) {
  probe_elements<Gradient, kStates>(span.parameter, reinterpret_cast<const Gradient*>(span.gradient),
                                    reinterpret_cast<Gradient*>(span.low_precision), span.states[0], span.states[1],
                                    span.states[2], span.numel);
}

// The reads of a pass for sums: of the first `kArrays` of a gradient, whose elements have `kGradientBytes`, a parameter and its
// states. A line at a time in registers, because elements one by one would take longer than the memory does; and lines that are
// asked for ahead, because one array that is read as it comes leaves half of a memory's speed unused.
template <int kGradientBytes, int kArrays>
void read_probe(std::array<const std::byte*, 4> arrays, std::int64_t numel) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  constexpr std::int64_t kLine = 16, kAhead = 512;
  Words first{}, second{}, third{}, fourth{};  // in an array they would go through memory
  const auto words_at = [](const std::byte* bytes) {
    Words words;
    std::memcpy(&words, bytes, sizeof(words));
    return words;
  };
  for (std::int64_t at = 0; at < numel; at += kLine) {
    const std::int64_t ahead = std::min(at + kAhead, numel - 1);
    for (int array = 0; array < kArrays; ++array) {
      const int width = array == 0 ? kGradientBytes : 4;
      const std::byte* const line = arrays[static_cast<std::size_t>(array)] + at * width;
      __builtin_prefetch(arrays[static_cast<std::size_t>(array)] + ahead * width);
      first ^= words_at(line);
      second ^= words_at(line + 16);
      if (width == 2) continue;
      third ^= words_at(line + 32);
      fourth ^= words_at(line + 48);
    }
  }
  const Words seen = first ^ second ^ third ^ fourth;
  static std::atomic<std::uint64_t> sink;
  sink.store(seen[0] ^ seen[1], std::memory_order_relaxed);
}

// Of a rule with two states in 8 bits: codes are read and written.
template <typename Gradient>
void probe_codes(float* __restrict parameter, const Gradient* __restrict gradient, Gradient* __restrict low,
                 std::uint8_t* __restrict first, std::uint8_t* __restrict second, std::int64_t numel) {
  constexpr int kBlock = 64;
  for (std::int64_t at = 0; at < numel; at += kBlock) {
    for (int i = 0; i < kBlock; ++i) {
      const float next = 0.5f * (parameter[at + i] + widened(gradient[at + i]));
      parameter[at + i] = next;
      if constexpr (sizeof(Gradient) == 2)
        low[at + i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(next) >> 16);
    }
    for (int i = 0; i < kBlock; ++i) first[at + i] = static_cast<std::uint8_t>(first[at + i] ^ 1U);
    for (int i = 0; i < kBlock; ++i) second[at + i] = static_cast<std::uint8_t>(second[at + i] ^ 1U);
  }
}

// And their scales, too.
template <typename Gradient>
void probe_coded(const UpdateSpan& span) {
  probe_codes(span.parameter, reinterpret_cast<const Gradient*>(span.gradient),
              reinterpret_cast<Gradient*>(span.low_precision), span.coded[0].codes, span.coded[1].codes, span.numel);
  for (const CodedState& state : {span.coded[0], span.coded[1]})
    for (std::int64_t block = 0; block < span.numel / kCodeBlock; ++block) state.scales[block] += 1e-6f;
}

// The probes for a type of gradient.
struct Probes {
  std::array<void (*)(const UpdateSpan&), 4> update;  // by number of states in fp32
  void (*coded)(const UpdateSpan&);
  std::array<void (*)(std::array<const std::byte*, 4>, std::int64_t), 4> read;  // by number of arrays, less one
};
template <typename Gradient>
constexpr Probes probes_of() {
  constexpr int kBytes = sizeof(Gradient);
  return {{probe<Gradient, 0>, probe<Gradient, 1>, probe<Gradient, 2>, probe<Gradient, 3>},
          probe_coded<Gradient>,
          {read_probe<kBytes, 1>, read_probe<kBytes, 2>, read_probe<kBytes, 3>, read_probe<kBytes, 4>}};
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
  UpdateSpan span{.parameter = floats(arrays.parameter, 0),
                  .gradient = arrays.gradient.data(),
                  .gradient_dtype = arrays.dtype,
                  .numel = arrays.numel};
  if (arrays.dtype != DType::kFloat32) {
    span.low_precision = arrays.low_precision.data();
    span.low_precision_dtype = arrays.dtype;
  }
  if (rule.factors() != nullptr) return span;  // states of rows and columns alone
  const std::vector<StateSpec> states = states_of_elements(rule.states());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Allocation& memory = arrays.states[i];
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
float some_gradient(std::int64_t i) {
  return 0.01f + 1e-6f * static_cast<float>(i * 2654435761 >> 7 & 0xfff);
}

const std::map<std::string, DType>& measured_types() {
  static const std::map<std::string, DType> types{
      {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
  return types;
}

// What is asked for, of one rule.
std::unique_ptr<UpdateRule> measured_rule(const std::string& name, double ema) {
  auto rule = make_update_rule(measured_rules().at(name));
  if (ema == 0) return rule;
  const bool plain = rule->factors() == nullptr && std::ranges::none_of(rule->states(), &StateSpec::coded);
  if (!plain)
    throw ConfigError("--ema", fmt::format("{}", ema),
                      fmt::format("{} has other states than fp32 of each element", name),
                      "measure the average with another rule, for example adamw");
  return with_average(std::move(rule), ema);
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
  std::string dtype = "fp32";
  double ema = 0;
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
  app.add_option("--dtype", dtype, "type of gradients and of the model's parameters; not fp32: beside an fp32 master")
      ->capture_default_str()
      ->check(CLI::IsMember(measured_types()));
  app.add_option("--ema", ema, "decay of an average of the weights, for example 0.999; 0: none")->capture_default_str();
  app.add_option("--device", device, "cpu, or a GPU: cuda or cuda:1")->capture_default_str();
  app.add_flag("--json", json, "print one JSON object");
  if (!parse_flags(app, arguments)) return 0;
  if (device != "cpu" && (dtype != "fp32" || ema != 0))
    throw ConfigError("--device", device, "there updates are measured in fp32, without an average",
                      "leave out --dtype and --ema, or use cpu");
  if (device != "cpu") return measure_on(device, {.name = name, .mib = mib, .rounds = rounds, .json = json});

  const std::int64_t bytes = mib << 20;
  const auto rule = measured_rule(name, ema);
  const FactorRule* factors = rule->factors();
  const std::size_t num_states = factors != nullptr ? 0 : rule->states().size();
  const DType type = measured_types().at(dtype);
  require_memory(static_cast<std::int64_t>(2 + num_states) * bytes + (64 << 20), "use fewer with --mib");
  Arrays arrays(bytes / 4, type, num_states);
  ThreadTeam team(threads);
  const bool by_element = needs_of(*rule) == RuleNeeds::kElements;
  const auto in_parallel = [&](const auto& work) {
    team.for_range(0, arrays.numel, update_grain(arrays.numel, threads, by_element),
                   [&](std::int64_t begin, std::int64_t end) { work(begin, end - begin); });
  };
  in_parallel([&](std::int64_t at, std::int64_t numel) {
    for (std::int64_t i = at; i < at + numel; ++i) {
      const float value = some_gradient(i);
      convert_elements(reinterpret_cast<const std::byte*>(&value), DType::kFloat32, arrays.gradient_at(i), type, 1);
    }
    std::fill_n(floats(arrays.parameter, at), numel, 1.0f);
    for (std::size_t i = 0; i < num_states; ++i) std::fill_n(arrays.state(i, at), numel, 1.0f);
    if (type != DType::kFloat32)
      std::fill_n(arrays.low_precision.data() + at * 2, numel * 2, std::byte{0});  // so that its pages are there
  });
  Matrix matrix(factors != nullptr ? arrays.numel / columns : 0, factors != nullptr ? columns : 0);
  if (factors != nullptr) arrays.numel = matrix.shape.rows * columns;
  const int num_sums = rule->num_sums();
  const UpdateSpan all = span_of(arrays, *rule);
  const bool coded = all.coded[0].codes != nullptr;
  const Probes probe_of = type == DType::kFloat32 ? probes_of<float>() : probes_of<std::uint16_t>();
  // The parameter and states are read and written, the gradient is read, and the parameter's copy in a shorter type is
  // written; the reads but that of the average once more for sums; and the gradient for rows and columns. In arrays of fp32.
  const double gradient = static_cast<double>(size_of(type)) / 4, low = type == DType::kFloat32 ? 0 : gradient;
  const double states = factors != nullptr ? 0 : spec_of(*rule).element_bytes() / sizeof(float);
  const std::size_t summed_states = num_states - (ema > 0 ? 1 : 0);
  const double touched = gradient + low + 2 + 2 * states +
                         (num_sums > 0 ? gradient + 1 + static_cast<double>(summed_states) : 0) +
                         (factors != nullptr ? gradient : 0);
  const auto read_arrays = [&](std::size_t num_arrays) {
    in_parallel([&](std::int64_t at, std::int64_t numel) {
      const auto bytes_of = [](const float* values) { return reinterpret_cast<const std::byte*>(values); };
      probe_of.read.at(num_arrays - 1)({arrays.gradient_at(at), bytes_of(floats(arrays.parameter, at)),
                                        bytes_of(arrays.state(0, at)), bytes_of(arrays.state(1, at))},
                                       numel);
    });
  };
  Measurement probes, updates;
  for (int round = 0; round < rounds; ++round) {
    probes.time([&] {
      if (factors != nullptr) read_arrays(1);
      if (num_sums > 0) read_arrays(2 + summed_states);
      in_parallel([&](std::int64_t at, std::int64_t numel) {
        (coded ? probe_of.coded : probe_of.update.at(num_states))(all.part(at, numel));
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
                                              {"dtype", dtype},
                                              {"ema", ema},
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
  const std::size_t num_halves = type == DType::kFloat32 ? 0 : 2;  // gradient, and the parameter's copy
  fmt::print("{}{}, kernel {}, {} of {} MiB{}{}, {}, {}\n", name, ema > 0 ? " with an average" : "", kernel_target(),
             format_count(static_cast<std::int64_t>((num_halves > 0 ? 1 : 2) + (coded ? 0 : num_states)), "array"), mib,
             num_halves > 0 ? " and 2 in " + dtype : "", coded ? " and 2 of a quarter of it" : "",
             format_count(threads, "thread"), format_count(rounds, "round"));
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
