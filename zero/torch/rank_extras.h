// extras_of(), take_extras(): a rank's part of a checkpoint beside the engine's states: module buffers, and the state
// of torch's random generator.
//
//   std::vector<Extra> extras = extras_of(buffers, /*with_generator=*/true);     // "buffer/NAME", "rng/cpu"
//   require_generators(manifest, path);                                          // of a world of the same size
//   take_extras(extras, buffers, /*with_generator=*/true, path);
//
// Ranks that are threads share one generator, which belongs to none of them: they save "rng/shared", which is empty,
// instead of its state. A file with neither is damaged. Of a rank that trains on a GPU there is that one's generator, too ("rng/cuda").
//
// Local. Throws ConfigError for a buffer that is missing in the checkpoint, or is another there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "zero/checkpoint/image/rank_layout.h"

namespace zero {

using NamedBuffers = std::vector<std::pair<std::string, at::Tensor>>;

// Throws what take_extras() would, by what a manifest says.
void require_buffers(const std::vector<SavedExtra>& saved, const NamedBuffers& buffers, const std::string& path);

// Throws IoError (error_number() 0), by what the manifest says and so on every rank alike, unless every rank has saved
// its generator's state, of the size that this torch's has, or every rank that it shared one.
void require_generators(const Manifest& manifest, const std::string& path);

// A copy of one tensor. ConfigError, by this name, for a type that safetensors does not have.
Extra extra_of(std::string name, const at::Tensor& tensor);
std::vector<Extra> extras_of(const NamedBuffers& buffers, bool with_generator);
// The state of the default generator of a GPU, or of any other device.
Extra generator_extra(std::string_view name, c10::Device place);
// No-op where there is none of that name: the rank was not on a GPU, or an earlier version saved it. IoError for a state of another size.
void take_generator(const std::vector<Extra>& extras, std::string_view name, c10::Device place,
                    const std::string& path);
inline constexpr std::string_view kGpuGenerator = "rng/cuda";
// A generator that was shared is left as it is.
void take_extras(const std::vector<Extra>& extras, NamedBuffers& buffers, bool with_generator, const std::string& path);

}  // namespace zero
