#include "zero/engine/options/same_options.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

constexpr std::size_t kMostNamed = 4;
constexpr std::string_view kParameters = "parameters";  // the line before the parameters' own

class Lines {
 public:
  template <typename T>
  void add(std::string_view key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
  }
  void add_type(std::string_view key, const std::optional<DType>& dtype) {
    add(key, dtype ? name_of(*dtype) : "that of the module");
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

void add_rule(Lines& lines, const OptimizerOptions& options) {
  lines.add("optimizer", name_of(options));
  lines.add("optimizer.lr", learning_rate(options));
  lines.add("optimizer.weight_decay", weight_decay(options));
  std::visit(
      [&](const auto& rule) {
        if constexpr (requires { rule.beta1, rule.beta2; }) {
          lines.add("optimizer.beta1", rule.beta1);
          lines.add("optimizer.beta2", rule.beta2);
        }
        if constexpr (requires { rule.beta2_decay; }) lines.add("optimizer.beta2_decay", rule.beta2_decay);
        if constexpr (requires { rule.eps; }) lines.add("optimizer.eps", rule.eps);
        if constexpr (requires { rule.eps1, rule.eps2; }) {
          lines.add("optimizer.eps1", rule.eps1);
          lines.add("optimizer.eps2", rule.eps2);
        }
        if constexpr (requires { rule.clip; }) lines.add("optimizer.clip", rule.clip);
        if constexpr (requires { rule.momentum; }) lines.add("optimizer.momentum", rule.momentum);
        if constexpr (requires { rule.steps; }) lines.add("optimizer.steps", rule.steps);
        if constexpr (requires { rule.least_ratio, rule.most_ratio; }) {
          lines.add("optimizer.least_ratio", rule.least_ratio);
          lines.add("optimizer.most_ratio", rule.most_ratio);
        }
        if constexpr (requires { rule.adamw, rule.scale; }) {
          lines.add("optimizer.muon_scale", static_cast<int>(rule.scale));
          lines.add("optimizer.adamw_lr", rule.adamw.lr);
          lines.add("optimizer.adamw_betas", fmt::format("[{}, {}]", rule.adamw.beta1, rule.adamw.beta2));
          lines.add("optimizer.adamw_eps", rule.adamw.eps);
        }
        if constexpr (requires { rule.nesterov; }) lines.add("optimizer.nesterov", rule.nesterov);
      },
      options);
}

void add_local(Lines& lines, const std::optional<LocalSteps>& local) {
  lines.add("local", local.has_value());
  if (!local) return;
  lines.add("local.steps", local->steps);
  lines.add("local.outer_lr", local->outer_lr);
  lines.add("local.outer_momentum", local->outer_momentum);
  lines.add("local.fragments", local->fragments);
  lines.add("local.overlap", local->overlap);
  lines.add("local.mix", local->mix);
}

void add_parameters(Lines& lines, const AttachOptions& options, const std::vector<ParamSpec>& specs) {
  lines.add(kParameters, specs.size());
  const MatrixChoice matrix = matrices_of(options);
  for (const ParamSpec& spec : specs) {
    const ParameterValues values = values_of(options, spec);
    lines.add(spec.name,
              fmt::format("[{}] {}, {}, weight decay {}, lr x {}{}{}", fmt::join(spec.shape, ", "), name_of(spec.dtype),
                          spec.trainable ? "trained" : "frozen", values.weight_decay, values.lr_scale,
                          spec.own_unit ? ", its own unit" : "", matrix(spec) ? ", a matrix" : ""));
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string value_in(const std::vector<std::string>& lines, std::string_view key) {
  const std::string begin = fmt::format("{} = ", key);
  const auto line = std::ranges::find_if(lines, [&](const std::string& one) { return one.starts_with(begin); });
  return line == lines.end() ? "(none)" : line->substr(begin.size());
}

// Describes the first different line, if both ranks have the same lines in another order.
std::string other_order(const std::vector<std::string>& theirs, const std::vector<std::string>& first) {
  const auto [left, right] = std::ranges::mismatch(theirs, first);
  if (left == theirs.end() || right == first.end()) return "the number of parameters";
  const auto key = [](const std::string& line) { return line.substr(0, line.find(" = ")); };
  // a parameter has the name of an option
  if (key(*left) == key(*right)) return fmt::format("{}, not {}", *left, *right);
  const auto begin = std::ranges::find_if(theirs, [](const auto& line) { return line.starts_with(kParameters); });
  return fmt::format("parameter {} (from 0) is {}, not {}", left - begin - 1, key(*left), key(*right));
}

// Returns text such as " a = 1, not 2; b = 3, not 4 and 5 more".
std::string differences(const std::string& theirs, const std::string& first) {
  const std::vector<std::string> left = lines_of(theirs), right = lines_of(first);
  std::vector<std::string> keys;
  for (const auto* lines : {&left, &right})
    for (const std::string& line : *lines) {
      const std::string key = line.substr(0, line.find(" = "));
      if (std::ranges::find(keys, key) == keys.end() && value_in(left, key) != value_in(right, key))
        keys.push_back(key);
      if (keys.size() > kMostNamed) break;
    }
  if (keys.empty()) return other_order(left, right);
  std::vector<std::string> texts;
  for (const std::string& key : std::span(keys).first(std::min(keys.size(), kMostNamed)))
    texts.push_back(fmt::format("{} = {}, not {}", key, value_in(left, key), value_in(right, key)));
  return fmt::format("{}{}", fmt::join(texts, "; "), keys.size() > kMostNamed ? "; and more" : "");
}

}  // namespace

std::string text_of_options(const AttachOptions& options, const std::vector<ParamSpec>& specs) {
  Lines lines;
  lines.add("stage", options.stage);
  lines.add("group", options.group);
  lines.add("secondary_group", options.secondary_group);
  lines.add("shards", name_of(options.shards));
  lines.add("shard_weights", fmt::format("[{}]", fmt::join(options.shard_weights, ", ")));
  add_local(lines, options.local);
  lines.add("wire.gather", name_of(options.wire.gather));
  lines.add("wire.reduce", name_of(options.wire.reduce));
  lines.add("wire.outer", name_of(options.wire.outer));
  lines.add("wire.outer_topk", options.wire.outer_topk);
  add_rule(lines, options.optimizer);
  lines.add("clip", options.clip);
  lines.add("reduce", static_cast<int>(options.reduce));
  lines.add("accumulate", options.accumulate);
  lines.add("leaves", options.leaves);
  lines.add("sums", static_cast<int>(options.sums));
  lines.add("delayed_update", options.delayed_update);
  lines.add("exact_steps", options.exact_steps);
  lines.add("average_micro_batches", options.average_micro_batches);
  lines.add("ema", options.ema);
  lines.add_type("dtype", options.dtype);
  lines.add_type("reduce_dtype", options.reduce_dtype);
  const std::optional<LossScaleOptions>& scale = options.loss_scale;
  lines.add("loss_scale", scale ? fmt::format("{} {}", scale->value, scale->dynamic ? "dynamic" : "fixed")
                                : std::string("none given"));
  if (scale && scale->dynamic)
    lines.add("loss_scale.growth", fmt::format("every {} updates, {} at least", scale->growth_interval, scale->least));
  if (scale && scale->dynamic)
    lines.add("loss_scale.hysteresis", fmt::format("{} overflows, {}", scale->hysteresis,
                                                   scale->restored_by_update ? "since an update" : "since it grew"));
  lines.add("units", fmt::format("[{}]", fmt::join(options.units, ", ")));
  lines.add("max_skipped_steps", options.max_skipped_steps);
  add_parameters(lines, options, specs);
  return std::move(lines).text();
}

void require_same_options(Communicator& comm, const AttachOptions& options, const std::vector<ParamSpec>& specs) {
  if (comm.world() > 1) require_same_lines(comm, "attach()", text_of_options(options, specs));
}

void require_same_lines(Communicator& comm, std::string_view call, const std::string& text) {
  if (comm.world() == 1) return;
  const auto hashes = all_gather_value(comm, static_cast<std::int64_t>(std::hash<std::string>()(text)));
  const auto differs = std::ranges::find_if(hashes, [&](std::int64_t other) { return other != hashes.front(); });
  if (differs == hashes.end()) return;
  const auto rank = static_cast<std::size_t>(differs - hashes.begin());
  const std::vector<std::string> texts = all_gather_text(comm, text);
  throw ConfigError(call, fmt::format("rank {}", rank),
                    fmt::format("differs from rank 0's: {}", differences(texts[rank], texts.front())),
                    "give every rank the same module and the same options");
}

void refuse_alike(Communicator& comm, const std::function<void()>& body) {
  std::exception_ptr own;
  std::string key, words;
  try {
    body();
  } catch (const ConfigError& error) {
    own = std::current_exception();
    key = error.key();
    words = error.what();
  }
  const auto keys = all_gather_text(comm, key), all = all_gather_text(comm, words);
  if (own != nullptr) std::rethrow_exception(own);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) throw ConfigError(keys[rank], "", fmt::format("rank {} rejects it", rank), all[rank]);
  }
}

}  // namespace zero
