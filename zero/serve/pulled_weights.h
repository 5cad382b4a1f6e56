// PulledWeights: this server's part of the weights that each worker computes with, the version that it was last sent.
//
//   PulledWeights pulled(workers, versions.bytes_each(), ledger);
//   pulled.keep(1, versions.kept(7));                 // worker 1 is sent version 7
//   compensate(gradient, DType::kFloat32, now, then, DType::kFloat32, numel, lambda);
//
// compensate() corrects a worker's gradient for the updates since that version (DC-ASGD; Zheng et al., arXiv
// 1609.08326). It changes a gradient g of the weights `then`, which is applied to the weights `now`, to
//
//   g + lambda * g * g * (now - then)
//
// in fp32, each operation rounded by itself, and then rounds the result to the gradient's type. To first order, the
// result is the gradient at `now`, with lambda * g * g for the Hessian's diagonal. Memory is charged as staging. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zero/base/numbers/dtype.h"
#include "zero/memory/account/buffer.h"

namespace zero {

class PulledWeights {
 public:
  // `bytes_each`: bytes of this server's part of one version.
  PulledWeights(int workers, std::int64_t bytes_each, Ledger& ledger);

  void keep(int worker, std::span<const std::byte> version);
  // Returns the worker's weights in the layout of WeightVersions::kept().
  std::span<const std::byte> of(int worker) const;

 private:
  std::size_t bytes_each_;
  Buffer memory_;
};

// Corrects `gradient`, which has `numel` elements, in place.
void compensate(std::byte* gradient, DType gradient_dtype, const std::byte* now, const std::byte* then,
                DType weight_dtype, std::int64_t numel, float lambda);

}  // namespace zero
