#include "zero/torch/attached/first_values.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <sstream>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <c10/core/GradMode.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/deferred/deferred.h"
#include "zero/torch/deferred/tagged_tensor.h"
#include "zero/torch/seam/tensor_type.h"

namespace zero {
namespace {

void load_unit(RankEngine& engine, const Unit& unit, const WeightSource& source) {
  Communicator& comm = engine.resources().comm;
  std::vector<float> flat(static_cast<std::size_t>(padded_numel(unit, engine.resources().copy.world())));
  std::exception_ptr thrown;
  std::string failure;
  if (comm.rank() == 0) {
    try {
      for (const Slice& slice : unit.slices)
        source(engine.specs()[static_cast<std::size_t>(slice.param)].name,
               std::span(flat).subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.numel)));
    } catch (const std::exception& error) {
      thrown = std::current_exception();
      failure = error.what();
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown != nullptr && failure.empty()) failure = "an exception without a message";
  }
  failure = broadcast_text(comm, failure);
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (!failure.empty()) throw IoError("weights", "read", 0, fmt::format("rank 0: {}", failure));
  const auto bytes = std::as_writable_bytes(std::span(flat));
  broadcast(comm, bytes, 0, {.unit = unit.index, .control = true});
  engine.states().load(unit.index, bytes.data(), DType::kFloat32);
}

// Returns a line for each buffer, "NAME = [SHAPE] TYPE", each tensor once.
std::string text_of(const std::vector<ModelTensors::Buffer>& buffers) {
  std::string text;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const ModelTensors::Buffer& buffer : buffers) {
    if (!buffer.tensor.defined() || !seen.insert(buffer.tensor.unsafeGetTensorImpl()).second) continue;
    text += fmt::format("{} = [{}] {}\n", buffer.name, fmt::join(buffer.tensor.sizes().vec(), ", "),
                        c10::toString(buffer.tensor.scalar_type()));
  }
  return text;
}

// Returns the first line in which the texts differ, of `theirs` and of rank 0. A text that has ended gives an empty
// line.
std::pair<std::string, std::string> first_difference(const std::string& theirs, const std::string& first) {
  std::istringstream left(theirs), right(first);
  std::string one, other;
  do {
    if (!std::getline(left, one)) one.clear();
    if (!std::getline(right, other)) other.clear();
  } while (one == other && !one.empty());
  return {one, other};
}

}  // namespace

void require_same_buffers(const std::vector<ModelTensors::Buffer>& buffers, Communicator& comm) {
  if (comm.world() == 1) return;
  const std::string text = text_of(buffers);
  const auto hashes = all_gather_value(comm, static_cast<std::int64_t>(std::hash<std::string>()(text)));
  const auto differs = std::ranges::find_if(hashes, [&](std::int64_t other) { return other != hashes.front(); });
  if (differs == hashes.end()) return;
  const auto rank = static_cast<std::size_t>(differs - hashes.begin());
  const std::vector<std::string> texts = all_gather_text(comm, text);
  const auto [theirs, first] = first_difference(texts[rank], texts.front());
  const auto said = [](const std::string& line) { return line.empty() ? std::string("no such buffer") : line; };
  const std::string& named = theirs.empty() ? first : theirs;
  throw ConfigError("attach", named.substr(0, named.find(" = ")),
                    fmt::format("rank {} has {}, and rank 0 has {}", rank, said(theirs), said(first)),
                    "give every rank the same module: buffers of one name, shape and type, in one order");
}

void load_from_source(RankEngine& engine, const WeightSource& source) {
  for (const Unit& unit : engine.units()) load_unit(engine, unit, source);
}

void load_from_tensors(RankEngine& engine, const Unit& unit, const AttachedParameters& parameters) {
  Communicator& comm = engine.resources().comm;
  c10::AutoGradMode no_gradients(false);
  torch::Tensor flat = torch::zeros({padded_numel(unit, engine.resources().copy.world())}, torch::kFloat32);
  bool deferred = true;
  for (const Slice& slice : unit.slices) {
    torch::Tensor value = parameters.tensor(slice.param);
    if (is_deferred(value)) {
      value = build_deferred(value, parameters.spec(slice.param).name);
    } else {
      deferred = false;
    }
    flat.narrow(0, slice.offset, slice.numel).copy_(value.detach().reshape({-1}));
  }
  const std::span<std::byte> bytes{static_cast<std::byte*>(flat.mutable_data_ptr()), flat.nbytes()};
  if (!deferred) broadcast(comm, bytes, 0, {.unit = unit.index, .control = true});
  engine.states().load(unit.index, bytes.data(), DType::kFloat32);
}

std::vector<std::pair<std::string, torch::Tensor>> first_buffers(const std::vector<ModelTensors::Buffer>& buffers,
                                                                 std::optional<DType> dtype, c10::Device place,
                                                                 Communicator& comm) {
  c10::AutoGradMode no_gradients(false);
  std::vector<std::pair<std::string, torch::Tensor>> found;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& [name, buffer, becomes_fp32, keeps_type] : buffers) {
    if (!buffer.defined() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    if (is_deferred(buffer)) replace_data(buffer, build_deferred(buffer, name).to(place));
    if (dtype && buffer.is_floating_point() && (becomes_fp32 || !keeps_type))
      replace_data(buffer, buffer.to(to_scalar_type(becomes_fp32 ? DType::kFloat32 : *dtype)));
    found.emplace_back(name, buffer);
    torch::Tensor contiguous = buffer.cpu().resolve_conj().resolve_neg().contiguous();
    broadcast(comm, {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()}, 0,
              {.control = true});
    if (!contiguous.is_same(buffer)) buffer.copy_(contiguous);
  }
  return found;
}

}  // namespace zero
