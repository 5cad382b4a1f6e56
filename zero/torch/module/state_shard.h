// StateShard: the elements of one parameter's state that this rank owns.
//
//   StateShard shard = engine.state_shard("fc1.weight", "exp_avg");
//   whole.view(-1).narrow(0, shard.offset, shard.values.numel()) == shard.values
//
// Together the shards of all ranks are the whole parameter, each element once. A parameter may lie on some ranks alone; on
// the others its shard is empty. With `shards = Cut::kHash` a rank may own several ranges of it, and there is no StateShard.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace zero {

struct StateShard {
  std::int64_t offset = 0;  // of its first element in the flattened parameter
  at::Tensor values;        // one dimension, fp32, a copy
};

}  // namespace zero
