// ParameterUses: what an operator holds of its parameters while it runs.
//
//   ParameterUses uses;
//   uses.add(weight, /*writes=*/false);   // its unit is gathered, and its memory can be read
//   run_the_operator();
//   uses.wrote();
//
// The destructor ends all uses, also after an exception. A tensor that is no attached parameter, and no view of such a
// parameter, needs nothing. Collective if the parameters are sharded.
#pragma once

#include <c10/util/SmallVector.h>

#include "zero/engine/gather/gathered_unit.h"
#include "zero/torch/seam/parameter_storage.h"

namespace zero {

class ParameterUses {
 public:
  ParameterUses() = default;
  ~ParameterUses();
  ParameterUses(const ParameterUses&) = delete;
  ParameterUses& operator=(const ParameterUses&) = delete;

  void add(const at::TensorBase& tensor, bool writes);
  // Called after an operator that writes.
  void wrote();
  // Returns the handle of the first parameter that is written; null: none is.
  const ParameterHandle* first_written() const;

 private:
  struct Use {
    ParameterHandle* handle;
    GatheredUnit held;
    bool writes;
  };
  c10::SmallVector<Use, 4> uses_;
};

}  // namespace zero
