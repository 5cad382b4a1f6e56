// extras_of(), take_extras(): a rank's module buffers and the state of torch's random generator, in a checkpoint.
//
//   std::vector<Extra> extras = extras_of(buffers, /*with_generator=*/true);     // "buffer/NAME", "rng/cpu"
//   require_generators(manifest, path);                                          // saved by a world of the same size
//   take_extras(extras, buffers, /*with_generator=*/true, path);
//
// Ranks that are threads share one generator, which belongs to none of them. They save an empty "rng/shared" instead of
// its state. A file with neither is damaged. A rank that trains on a GPU also saves the GPU's generator ("rng/cuda").
//
// Local. Throws ConfigError if a buffer is missing in the checkpoint, or has another shape or type there.
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

// Throws what take_extras() would throw for these buffers, from the entries of a manifest.
void require_buffers(const std::vector<SavedExtra>& saved, const NamedBuffers& buffers, const std::string& path);

// Throws IoError (error_number() 0) unless each rank has saved a generator state of this torch's size, or each has
// saved that it shared one. The check reads only the manifest, so every rank throws or none.
void require_generators(const Manifest& manifest, const std::string& path);

// Copies one tensor. Throws ConfigError with this name if safetensors does not have the tensor's type.
Extra extra_of(std::string name, const at::Tensor& tensor);
std::vector<Extra> extras_of(const NamedBuffers& buffers, bool with_generator);
// Returns the state of the default generator of `place`, a GPU or another device.
Extra generator_extra(std::string_view name, c10::Device place);
// Sets the state of the default generator of `place` to the extra `name`. No-op if there is no such extra: the rank was
// not on a GPU, or an earlier version saved it. Throws IoError if the state has another size.
void take_generator(const std::vector<Extra>& extras, std::string_view name, c10::Device place,
                    const std::string& path);
inline constexpr std::string_view kGpuGenerator = "rng/cuda";
// Copies buffers and generator from `extras`. If the ranks that saved shared a generator, the generator is unchanged.
void take_extras(const std::vector<Extra>& extras, NamedBuffers& buffers, bool with_generator, const std::string& path);

}  // namespace zero
