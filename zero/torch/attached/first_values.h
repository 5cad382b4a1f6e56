// load_from_source(), load_from_tensors(): give an engine its first values. One unit is whole at a time.
//
//   load_from_source(engine, source);                 // the caller's values: only rank 0 calls `source`
//   load_from_tensors(engine, unit, parameters);      // the model's own: rank 0's, or a deferred construction's
//
// Collective.
#pragma once

#include <optional>
#include <vector>

#include "zero/engine/rank_engine.h"
#include "zero/torch/attached/attached_parameters.h"

namespace zero {

// Loads all units from `source`. If `source` throws, rank 0 throws the same exception and the others throw an IoError.
// No tensor is changed.
void load_from_source(RankEngine& engine, const WeightSource& source);

// Call it before the unit's tensors are taken over.
void load_from_tensors(RankEngine& engine, const Unit& unit, const AttachedParameters& parameters);

// Throws ConfigError on every rank, before anything is allocated, if a buffer's name, shape or type differs between a
// rank and rank 0. The error names the first such buffer.
void require_same_buffers(const std::vector<ModelTensors::Buffer>& buffers, Communicator& comm);

// Returns the model's buffers, each once, with rank 0's values on every rank. Deferred buffers are built at `place`. If
// `dtype` is given, buffers of floating point get this type, or the one that ModelTensors::Buffer names.
std::vector<std::pair<std::string, torch::Tensor>> first_buffers(const std::vector<ModelTensors::Buffer>& buffers,
                                                                 std::optional<DType> dtype, c10::Device place,
                                                                 Communicator& comm);

}  // namespace zero
