// A model shaped like GPT-2, and the trace of one step of it, for tests of plans.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/plan/schedule/trace.h"
#include "zero/plan/units/unit.h"

namespace zero {

struct GptShape {
  int layers = 2;
  std::int64_t width = 8;
  std::int64_t vocab = 32;
  std::int64_t context = 16;
  DType dtype = DType::kFloat32;
};

inline std::vector<ParamSpec> gpt_specs(const GptShape& shape) {
  const auto w = shape.width;
  std::vector<ParamSpec> specs;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> dims, bool own_unit = false) {
    specs.push_back({.name = name, .shape = std::move(dims), .dtype = shape.dtype, .own_unit = own_unit});
  };
  add("wte.weight", {shape.vocab, w}, true);
  specs.back().aliases = {"lm_head.weight"};
  add("wpe.weight", {shape.context, w}, true);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string block = "h." + std::to_string(layer) + ".";
    for (const char* norm : {"ln_1", "ln_2"}) {
      add(block + norm + ".weight", {w});
      add(block + norm + ".bias", {w});
    }
    add(block + "attn.c_attn.weight", {3 * w, w});
    add(block + "attn.c_attn.bias", {3 * w});
    add(block + "attn.c_proj.weight", {w, w});
    add(block + "attn.c_proj.bias", {w});
    add(block + "mlp.c_fc.weight", {4 * w, w});
    add(block + "mlp.c_fc.bias", {4 * w});
    add(block + "mlp.c_proj.weight", {w, 4 * w});
    add(block + "mlp.c_proj.bias", {w});
  }
  add("ln_f.weight", {w});
  add("ln_f.bias", {w});
  return specs;
}

inline std::vector<Unit> gpt_units(const GptShape& shape) {
  return make_units(gpt_specs(shape), {});
}

// `passes` micro-batches that access every unit once forward and once backward, in reversed order, and a step.
inline Trace straight_trace(const std::vector<Unit>& units, int passes = 1) {
  Trace trace;
  for (int pass = 0; pass < passes; ++pass) {
    for (const Unit& unit : units) trace.events.push_back({EventKind::kAccess, unit.index, {}});
    trace.events.push_back({EventKind::kBackward, -1, {}});
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      trace.events.push_back({EventKind::kAccess, unit->index, {}});
      if (unit->trainable) trace.events.push_back({EventKind::kGradient, unit->index, {}});
    }
    trace.events.push_back({EventKind::kEndBackward, -1, {}});
  }
  trace.events.push_back({EventKind::kStep, -1, {}});
  return trace;
}

// The same trace if the head is tied to the token embedding (unit 0): the step accesses unit 0 first and last.
inline Trace tied_trace(const std::vector<Unit>& units) {
  Trace trace = straight_trace(units);
  const auto backward = trace.events.begin() + static_cast<std::ptrdiff_t>(units.size());
  trace.events.insert(backward + 1, {EventKind::kAccess, 0, {}});
  trace.events.insert(trace.events.begin() + static_cast<std::ptrdiff_t>(units.size()), {EventKind::kAccess, 0, {}});
  return trace;
}

// Bytes of all padded ranges in the parameters' own type.
inline std::int64_t padded_bytes(const std::vector<Unit>& units, int world) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) {
    const std::int64_t align = 64 / static_cast<std::int64_t>(size_of(unit.dtype));
    const std::int64_t share = (unit.numel + world - 1) / world;
    bytes += (share + align - 1) / align * align * world * static_cast<std::int64_t>(size_of(unit.dtype));
  }
  return bytes;
}

}  // namespace zero
