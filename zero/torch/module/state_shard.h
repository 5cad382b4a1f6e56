// StateShard: the elements of one parameter's state that this rank owns.
//
//   StateShard shard = engine.state_shard("fc1.weight", "exp_avg");
//   whole.view(-1).narrow(0, shard.offset, shard.values.numel()) == shard.values
//
// The shards of all ranks together hold each element of the parameter once. Some ranks may own no element of a
// parameter: their shard is empty. With `shards = Cut::kHash` a rank may own several ranges of the parameter, and there
// is no StateShard.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace zero {

struct StateShard {
  std::int64_t offset = 0;  // index of the first element in the flattened parameter
  at::Tensor values;        // one dimension, fp32, a copy
};

}  // namespace zero
