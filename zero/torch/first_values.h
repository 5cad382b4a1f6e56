// The first values of an attached model: where they come from, and how an engine gets them. One unit is whole at a
// time.
//
//   load_from_source(engine, source);                 // the caller's: asked for on rank 0 alone
//   load_from_tensors(engine, unit, tensors);         // the model's own: rank 0's, or a deferred construction's
//
// Collective.
#pragma once

#include <optional>
#include <vector>

#include "zero/engine/engine.h"
#include "zero/torch/attached_parameters.h"

namespace zero {

// What `source` throws ends it on every rank: as it is on rank 0, as an IoError on the others. No tensor is changed.
void load_from_source(Engine& engine, const WeightSource& source);

// Before the unit's tensors are taken over.
void load_from_tensors(Engine& engine, const Unit& unit, const AttachedParameters& parameters);

// Before anything is allocated. Throws ConfigError, on every rank alike, for the first buffer of which name, shape or type is
// another one on a rank than on rank 0.
void require_same_buffers(const std::vector<ModelTensors::Buffer>& buffers, Communicator& comm);

// The model's buffers, each once: built at `place` where they were deferred, of `dtype` or fp32 (ModelTensors::Buffer) where a
// dtype is given and they are no whole numbers, and then rank 0's on every rank.
std::vector<std::pair<std::string, torch::Tensor>> first_buffers(const std::vector<ModelTensors::Buffer>& buffers,
                                                                 std::optional<DType> dtype, c10::Device place,
                                                                 Communicator& comm);

}  // namespace zero
