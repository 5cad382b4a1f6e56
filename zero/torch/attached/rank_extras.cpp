#include "zero/torch/attached/rank_extras.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <c10/core/GradMode.h>

#include "zero/base/error/error.h"
#include "zero/torch/deferred/surroundings.h"

namespace zero {
namespace {

constexpr std::string_view kGenerator = "rng/cpu", kSharedGenerator = "rng/shared";

constexpr std::array kTypes{
    std::pair(at::kBool, ElementType::kBool),       std::pair(at::kByte, ElementType::kU8),
    std::pair(at::kChar, ElementType::kI8),         std::pair(at::kShort, ElementType::kI16),
    std::pair(at::kInt, ElementType::kI32),         std::pair(at::kLong, ElementType::kI64),
    std::pair(at::kHalf, ElementType::kF16),        std::pair(at::kBFloat16, ElementType::kBF16),
    std::pair(at::kFloat, ElementType::kF32),       std::pair(at::kDouble, ElementType::kF64),
    std::pair(at::kComplexFloat, ElementType::kC64)};

ElementType element_type_of(const std::string& name, const at::Tensor& tensor) {
  const auto found = std::ranges::find(kTypes, tensor.scalar_type(), [](const auto& pair) { return pair.first; });
  if (found == kTypes.end())
    throw ConfigError("checkpoint", name, fmt::format("a buffer of type {}", c10::toString(tensor.scalar_type())),
                      "keep it in a type that safetensors supports");
  return found->second;
}

const Extra& find(const std::vector<Extra>& extras, const std::string& name, const std::string& path) {
  const auto found = std::ranges::find(extras, name, &Extra::name);
  if (found == extras.end())
    throw ConfigError("checkpoint", path, fmt::format("has no {}", name), "load a checkpoint of this model");
  return *found;
}

void take(const Extra& extra, at::Tensor& tensor, const std::string& path) {
  if (extra.shape != tensor.sizes().vec() || extra.dtype != element_type_of(extra.name, tensor))
    throw ConfigError("checkpoint", path, fmt::format("{} has another shape or type there", extra.name),
                      "load a checkpoint of this model");
  at::Tensor values = at::empty(tensor.sizes(), tensor.scalar_type());
  if (!extra.bytes.empty()) std::memcpy(values.mutable_data_ptr(), extra.bytes.data(), extra.bytes.size());
  tensor.copy_(values);
}

std::vector<std::int64_t> generator_shape() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  return generator.get_state().sizes().vec();
}

const SavedExtra* saved_extra(const SavedFile& file, std::string_view name) {
  const auto found = std::ranges::find(file.extras, name, &SavedExtra::name);
  return found == file.extras.end() ? nullptr : &*found;
}

}  // namespace

Extra extra_of(std::string name, const at::Tensor& tensor) {
  const at::Tensor own = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous();
  Extra extra{.name = std::move(name), .dtype = element_type_of(extra.name, own), .shape = own.sizes().vec()};
  extra.bytes.resize(own.nbytes());
  if (!extra.bytes.empty()) std::memcpy(extra.bytes.data(), own.const_data_ptr(), extra.bytes.size());
  return extra;
}

void require_generators(const Manifest& manifest, const std::string& path) {
  const auto refuse = [&path](const SavedFile& file, std::string_view reason) {
    throw IoError(path, "load", 0, fmt::format("{} {}", file.name, reason));
  };
  const bool shared = saved_extra(manifest.files.front(), kSharedGenerator) != nullptr;
  for (const SavedFile& file : manifest.files) {
    const SavedExtra* const state = saved_extra(file, shared ? kSharedGenerator : kGenerator);
    if (state == nullptr)
      refuse(file, fmt::format("has no {}: it is damaged, or written by an earlier version", kGenerator));
    if (!shared && (state->dtype != ElementType::kU8 || state->shape != generator_shape()))
      refuse(file, fmt::format("has the {} of a generator that is not torch's", kGenerator));
  }
}

void require_buffers(const std::vector<SavedExtra>& saved, const NamedBuffers& buffers, const std::string& path) {
  for (const auto& [name, tensor] : buffers) {
    const std::string full = fmt::format("{}{}", kBufferPrefix, name);
    const auto found = std::ranges::find(saved, full, &SavedExtra::name);
    if (found == saved.end() || found->shape != tensor.sizes().vec() || found->dtype != element_type_of(full, tensor))
      throw ConfigError("checkpoint", path,
                        fmt::format("{} {}", found == saved.end() ? "has no" : "has another shape or type of", full),
                        "load a checkpoint of this model");
  }
}

std::vector<Extra> extras_of(const NamedBuffers& buffers, bool with_generator) {
  std::vector<Extra> extras;
  for (const auto& [name, tensor] : buffers)
    extras.push_back(extra_of(fmt::format("{}{}", kBufferPrefix, name), tensor));
  if (!with_generator) {
    extras.push_back({.name = std::string(kSharedGenerator), .dtype = ElementType::kU8, .shape = {0}, .bytes = {}});
    return extras;
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  extras.push_back(extra_of(std::string(kGenerator), generator.get_state()));
  return extras;
}

Extra generator_extra(std::string_view name, c10::Device place) {
  return extra_of(std::string(name), generator_state(place));
}

void take_generator(const std::vector<Extra>& extras, std::string_view name, c10::Device place,
                    const std::string& path) {
  const auto found = std::ranges::find(extras, name, &Extra::name);
  if (found == extras.end()) return;
  const at::Tensor state = generator_state(place);
  if (found->dtype != ElementType::kU8 || found->shape != state.sizes().vec())
    throw IoError(path, "load", 0, fmt::format("has the {} of a generator that is not torch's", name));
  std::memcpy(state.mutable_data_ptr(), found->bytes.data(), found->bytes.size());
  set_generator_state(state, place);
}

void take_extras(const std::vector<Extra>& extras, NamedBuffers& buffers, bool with_generator,
                 const std::string& path) {
  c10::AutoGradMode no_gradients(false);
  for (auto& [name, tensor] : buffers) take(find(extras, fmt::format("{}{}", kBufferPrefix, name), path), tensor, path);
  if (!with_generator || std::ranges::find(extras, kSharedGenerator, &Extra::name) != extras.end()) return;
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::scoped_lock lock(generator.mutex());
  at::Tensor state = generator.get_state();
  take(find(extras, std::string(kGenerator), path), state, path);
  generator.set_state(state);
}

}  // namespace zero
