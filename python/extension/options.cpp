#include "python/extension/options.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <pybind11/stl.h>

#include "zero/base/numbers/tier.h"
#include "zero/base/text/bytes.h"
#include "zero/base/text/name_lists.h"
#include "zero/plan/units/leaves.h"

namespace py = pybind11;

namespace zero::python {
namespace {

// One value of a dict, and the key that errors name.
struct Given {
  std::string key;
  py::handle value;

  [[noreturn]] void refuse(const std::string& wanted) const {
    throw ConfigError(key, py::cast<std::string>(py::repr(value)), fmt::format("not {}", wanted),
                      fmt::format("give {}", wanted));
  }
  template <typename T>
  T as(const std::string& wanted) const {
    try {
      return py::cast<T>(value);
    } catch (const py::cast_error&) {
      refuse(wanted);
    }
  }
  bool boolean() const { return as<bool>("True or False"); }
  double number() const { return as<double>("a number"); }
  int integer() const { return as<int>("an integer"); }
  std::string text() const { return as<std::string>("a string"); }
  std::int64_t bytes() const {
    if (py::isinstance<py::str>(value)) return parse_bytes(text(), key);
    return as<std::int64_t>("a size such as \"64MiB\", or a number of bytes");
  }
  MemoryBudget budget() const {
    if (py::isinstance<py::str>(value)) return MemoryBudget::parse(text(), key);
    return {MemoryBudget::Kind::kBytes, as<std::int64_t>("\"auto\", \"min\", or a size such as \"64MiB\"")};
  }
  std::vector<std::string> texts() const {
    if (py::isinstance<py::str>(value)) return {text()};
    return as<std::vector<std::string>>("a string, or a list of strings");
  }
  template <typename Table>
  auto one_of_words(const Table& words) const {
    const std::string word = text();
    std::string all;
    for (const auto& [name, found] : words) {
      if (name == word) return found;
      all += (all.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    refuse("one of " + all);
  }
};

// Calls use(name, value) for each entry of a dict, and refuses names that are not in `known`.
void each_entry(const Given& given, const std::vector<std::string_view>& known,
                const std::function<void(const std::string& name, const Given& entry)>& use) {
  if (!py::isinstance<py::dict>(given.value)) given.refuse("a dict with " + all_of(known));
  for (const auto& [name, value] : py::cast<py::dict>(given.value)) {
    const std::string text = py::cast<std::string>(py::str(name));
    if (std::ranges::find(known, text) == known.end())
      throw ConfigError(given.key, text, "no such entry", "use " + one_of(known));
    use(text, {given.key + "." + text, value});
  }
}

const std::map<std::string_view, DType> kTypes{
    {"fp32", DType::kFloat32}, {"bf16", DType::kBFloat16}, {"fp16", DType::kFloat16}};
const std::map<std::string_view, Reduce> kReduceWords{
    {"auto", Reduce::kAuto}, {"each", Reduce::kEach}, {"last", Reduce::kLast}};
const std::map<std::string_view, CutBy> kCutWords{{"work", CutBy::kWork}, {"measured", CutBy::kSeconds}};
WireCodec codec_from(const Given& given) {
  const std::optional<WireCodec> codec = wire_codec_named(given.text());
  if (!codec) given.refuse("one of " + one_of(kWireCodecNames));
  return *codec;
}

WireCodecs wire_from(const Given& given) {
  WireCodecs wire;
  each_entry(given, {"gather", "reduce", "outer", "outer_topk"}, [&](const std::string& name, const Given& entry) {
    if (name == "outer_topk") {
      wire.outer_topk = entry.number();
    } else {
      (name == "gather" ? wire.gather : name == "reduce" ? wire.reduce : wire.outer) = codec_from(entry);
    }
  });
  return wire;
}

LocalSteps local_from(const Given& given) {
  LocalSteps local;
  each_entry(given, {"steps", "outer_lr", "outer_momentum", "fragments", "overlap", "mix"},
             [&](const std::string& name, const Given& entry) {
               if (name == "steps") local.steps = entry.integer();
               if (name == "outer_lr") local.outer_lr = entry.number();
               if (name == "outer_momentum") local.outer_momentum = entry.number();
               if (name == "fragments") local.fragments = entry.integer();
               if (name == "overlap") local.overlap = entry.integer();
               if (name == "mix") local.mix = entry.number();
             });
  return local;
}

// True: states move if they must. False: none leaves the device. A dict: {"optimizer": {"host": 1}}, with the names of
// the tiers in the table of tiers.
void set_offload(AttachOptions& options, const Given& given) {
  if (py::isinstance<py::bool_>(given.value)) {
    options.offload.automatic = given.boolean();
    return;
  }
  std::vector<std::string_view> names;
  for (const Tier tier : kLowerTiers) names.push_back(name_of(tier));
  StateFractions& all = options.offload.fractions;
  each_entry(given, {"parameter", "gradient", "optimizer"}, [&](const std::string& state, const Given& tiers) {
    TierFractions& fractions = state == "parameter"  ? all.parameter
                               : state == "gradient" ? all.gradient
                                                     : all.optimizer;
    each_entry(tiers, names,
               [&](const std::string& name, const Given& share) { fractions[find_tier(name)->tier] = share.number(); });
  });
}

// "dynamic", a number, or the dynamic scale's numbers: {"first": 256, "interval": 1000}.
LossScaleOptions loss_scale_from(const Given& given) {
  if (py::isinstance<py::dict>(given.value)) {
    LossScaleOptions options;
    each_entry(given, {"first", "interval", "least", "hysteresis", "restored_by_update"},
               [&](const std::string& key, const Given& entry) {
                 if (key == "first") options.value = entry.number();
                 if (key == "interval") options.growth_interval = entry.integer();
                 if (key == "least") options.least = entry.number();
                 if (key == "hysteresis") options.hysteresis = entry.integer();
                 if (key == "restored_by_update") options.restored_by_update = entry.boolean();
               });
    return options;
  }
  if (py::isinstance<py::str>(given.value)) {
    if (given.text() != "dynamic") given.refuse("\"dynamic\", a number, a dict, or None");
    return {};
  }
  return LossScaleOptions::fixed(given.number());
}

OptimizerOptions optimizer_from(const Given& given) {
  const auto [name, values] = given.as<std::pair<std::string, py::dict>>("an optimizer");
  RuleKeys keys;
  keys.betas = {0.9, 0.999};
  keys.weight_decay = 0;
  each_entry({"optimizer", values},
             {"lr", "betas", "eps", "weight_decay", "momentum", "nesterov", "trust_ratio", "muon_scale", "adamw_lr",
              "beta2_decay", "eps1", "eps2", "clip"},
             [&](const std::string& key, const Given& entry) {
               if (key == "lr") keys.lr = entry.number();
               if (key == "betas") keys.betas = entry.as<std::array<double, 2>>("two numbers");
               if (key == "eps") keys.eps = entry.number();
               if (key == "weight_decay") keys.weight_decay = entry.number();
               if (key == "momentum") keys.momentum = entry.number();
               if (key == "nesterov") keys.nesterov = entry.boolean();
               if (key == "trust_ratio") keys.trust_ratio = entry.as<std::array<double, 2>>("two numbers");
               if (key == "muon_scale") keys.muon_scale = entry.text();
               if (key == "adamw_lr") keys.adamw_lr = entry.number();
               if (key == "beta2_decay") keys.beta2_decay = entry.number();
               if (key == "eps1") keys.eps1 = entry.number();
               if (key == "eps2") keys.eps2 = entry.number();
               if (key == "clip") keys.clip = entry.number();
             });
  return optimizer_options(name, keys);
}

// Each entry has the names of its parameters: (names, weight_decay, lr_scale, muon).
std::vector<ParameterGroup> groups_from(const Given& given) {
  using Row = std::tuple<std::set<std::string>, double, double, std::optional<bool>>;
  std::vector<ParameterGroup> groups;
  for (auto& [names, weight_decay, lr_scale, muon] : given.as<std::vector<Row>>("groups of parameters")) {
    const auto own = std::make_shared<const std::set<std::string>>(std::move(names));
    groups.push_back({.matches = [own](const ParamSpec& spec) { return own->contains(spec.name); },
                      .weight_decay = weight_decay,
                      .lr_scale = lr_scale,
                      .muon = muon});
  }
  return groups;
}

using Setter = void (*)(AttachOptions& options, const Given& given);

const std::map<std::string_view, Setter> kSetters{
    {"stage", [](AttachOptions& o, const Given& v) { o.stage = v.integer(); }},
    {"group", [](AttachOptions& o, const Given& v) { o.group = v.integer(); }},
    {"secondary_group", [](AttachOptions& o, const Given& v) { o.secondary_group = v.integer(); }},
    {"shards", [](AttachOptions& o, const Given& v) { o.shards = cut_of(v.text()); }},
    {"shard_weights",
     [](AttachOptions& o, const Given& v) { o.shard_weights = v.as<std::vector<double>>("a list of numbers"); }},
    {"local", [](AttachOptions& o, const Given& v) { o.local = local_from(v); }},
    {"wire", [](AttachOptions& o, const Given& v) { o.wire = wire_from(v); }},
    {"optimizer", [](AttachOptions& o, const Given& v) { o.optimizer = optimizer_from(v); }},
    {"groups", [](AttachOptions& o, const Given& v) { o.groups = groups_from(v); }},
    {"clip", [](AttachOptions& o, const Given& v) { o.clip = v.number(); }},
    {"reduce", [](AttachOptions& o, const Given& v) { o.reduce = v.one_of_words(kReduceWords); }},
    {"accumulate", [](AttachOptions& o, const Given& v) { o.accumulate = v.integer(); }},
    {"leaves", [](AttachOptions& o, const Given& v) { o.leaves = v.integer(); }},
    {"average_micro_batches", [](AttachOptions& o, const Given& v) { o.average_micro_batches = v.boolean(); }},
    {"delayed_update", [](AttachOptions& o, const Given& v) { o.delayed_update = v.boolean(); }},
    {"exact_steps", [](AttachOptions& o, const Given& v) { o.exact_steps = v.integer(); }},
    {"ema", [](AttachOptions& o, const Given& v) { o.ema = v.number(); }},
    {"dtype", [](AttachOptions& o, const Given& v) { o.dtype = v.one_of_words(kTypes); }},
    {"reduce_dtype", [](AttachOptions& o, const Given& v) { o.reduce_dtype = v.one_of_words(kTypes); }},
    {"loss_scale", [](AttachOptions& o, const Given& v) { o.loss_scale = loss_scale_from(v); }},
    {"device_memory", [](AttachOptions& o, const Given& v) { o.device_memory = v.budget(); }},
    {"host_memory", [](AttachOptions& o, const Given& v) { o.offload.host_memory = v.budget(); }},
    {"disk", [](AttachOptions& o, const Given& v) { o.offload.disk = v.texts(); }},
    {"disk_memory", [](AttachOptions& o, const Given& v) { o.offload.disk_memory = v.bytes(); }},
    {"offload", [](AttachOptions& o, const Given& v) { set_offload(o, v); }},
    {"checksums", [](AttachOptions& o, const Given& v) { o.offload.checksums = v.boolean(); }},
    {"units", [](AttachOptions& o, const Given& v) { o.units = v.texts(); }},
    {"threads", [](AttachOptions& o, const Given& v) { o.threads = v.integer(); }},
    {"max_skipped_steps", [](AttachOptions& o, const Given& v) { o.max_skipped_steps = v.integer(); }},
    {"device", [](AttachOptions& o, const Given& v) { o.device = v.text(); }},
    {"awaits_load", [](AttachOptions& o, const Given& v) { o.awaits_load = v.boolean(); }},
};

}  // namespace

AttachOptions options_from(const py::dict& given) {
  AttachOptions options;
  for (const auto& [key, value] : given) {
    const std::string name = py::cast<std::string>(py::str(key));
    const auto setter = kSetters.find(name);
    if (setter == kSetters.end()) throw ConfigError("attach", name, "no such option", "use a name of option_names()");
    if (!value.is_none()) setter->second(options, {name, value});
  }
  return options;
}

PipelineOptions pipeline_options_from(const py::dict& given) {
  PipelineOptions options;
  each_entry({"pipeline", given}, {"pipeline", "sections", "schedule", "depth", "cut", "activation_memory"},
             [&](const std::string& key, const Given& entry) {
               const Given named{key, entry.value};
               if (entry.value.is_none()) return;
               if (key == "pipeline") options.pipeline = named.integer();
               if (key == "sections") options.sections = named.integer();
               if (key == "schedule") options.schedule = pass_order_of(named.text());
               if (key == "depth") options.depth = named.integer();
               if (key == "activation_memory") options.activation_memory = named.bytes();
               if (key != "cut") return;
               if (!py::isinstance<py::str>(entry.value)) {
                 options.first_units = named.texts();
               } else {
                 options.cut = named.one_of_words(kCutWords);
               }
             });
  return options;
}

std::vector<int> leaves_of_rank(const py::dict& given, int ranks, int rank) {
  const AttachOptions options = options_from(given);
  std::vector<int> numbers;
  if (options.leaves == 0) return numbers;
  const Leaves leaves(options.leaves, ranks, options.reduce);
  for (int micro = 0; micro < leaves.passes(); ++micro) numbers.push_back(leaves.leaf(rank, micro));
  return numbers;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const auto& [name, setter] : kSetters) names.emplace_back(name);
  return names;
}

}  // namespace zero::python
