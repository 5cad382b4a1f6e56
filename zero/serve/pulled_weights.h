// PulledWeights: the weights that each worker computes with: this server's part of the version that it was last sent; and the
// correction of the worker's gradient for the updates since then (DC-ASGD; Zheng et al., arXiv 1609.08326).
//
//   PulledWeights pulled(workers, versions.bytes_each(), ledger);
//   pulled.keep(1, versions.kept(7));                 // worker 1 is sent version 7
//   compensate(gradient, DType::kFloat32, now, then, DType::kFloat32, numel, lambda);
//
// A gradient g of the weights `then` is applied to the weights `now` as
//
//   g + lambda * g * g * (now - then)
//
// in fp32, each operation rounded on its own, and then rounded to the gradient's type. To first order that is the gradient at
// `now`, where lambda g * g stands for the Hessian's diagonal. Memory is charged as staging. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zero/base/dtype.h"
#include "zero/memory/buffer.h"

namespace zero {

class PulledWeights {
 public:
  // `bytes_each`: of a server's part of a version.
  PulledWeights(int workers, std::int64_t bytes_each, Ledger& ledger);

  void keep(int worker, std::span<const std::byte> version);
  // As WeightVersions::kept() had them.
  std::span<const std::byte> of(int worker) const;

 private:
  std::size_t bytes_each_;
  Buffer memory_;
};

// `gradient`: of `numel` elements, changed in place.
void compensate(std::byte* gradient, DType gradient_dtype, const std::byte* now, const std::byte* then,
                DType weight_dtype, std::int64_t numel, float lambda);

}  // namespace zero
