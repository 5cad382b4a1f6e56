// UpdateRule: one optimizer step over flat spans.
//
// A rule sees spans and a step number; never ranks, units or tiers. One pass over memory does everything: unscale and
// clip (one factor), moments, decay, update, and the low-precision copy. Three kinds of rules do more. A rule with sums
// over whole parameters (LAMB) first reads everything once, in add_sums(), and writes nothing there. A rule that keeps
// states of rows and columns (Adafactor) is a FactorRule, too: add_squares() and update_factors() come before that. A rule
// that steps along whole matrices (Muon) is a MatrixRule, too: direct() and complete() come before update(). Apart from
// that, elements are independent (with states in 8 bits: blocks of kCodeBlock), so any cut between them, any number of
// threads and any instruction set gives the same bits.
//
//   auto rule = make_update_rule(AdamWOptions{.beta2 = 0.95});
//   rule->update(span, {.step = 1, .lr = 3e-4, .gradient_scale = clip / world, .weight_decay = 0.1});
//
// lr and weight_decay come with each update, because a schedule changes the one and the parameter group decides the
// other; learning_rate() and weight_decay() say what the options hold. A rule is immutable: many threads may share one.
// Local, all of it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/base/exact_sum.h"
#include "zero/base/parallel.h"
#include "zero/base/state_spec.h"
#include "zero/device/device.h"
#include "zero/optim/eight_bit_code.h"

namespace zero {

constexpr std::size_t kMostOwnStates = 4;                // of a rule
constexpr std::size_t kMostStates = kMostOwnStates + 3;  // with those of what wraps it: an average, or an outer step

// What one update touches: numel elements of each, aligned as their type asks and no further; no two overlap. States
// that the rule does not have are null; those it has start as zeros.
struct UpdateSpan {
  float* parameter = nullptr;           // fp32: the parameter itself, or the master copy
  const std::byte* gradient = nullptr;  // of gradient_dtype
  DType gradient_dtype = DType::kFloat32;
  std::array<float*, kMostStates> states{};      // in the order of UpdateRule::states(); null for those in 8 bits
  std::array<CodedState, kMostStates> coded{};   // of those; the span begins at a block of theirs
  std::byte* low_precision = nullptr;            // written with the rounded parameter when given
  DType low_precision_dtype = DType::kBFloat16;  // of that: bf16 or fp16
  std::int64_t numel = 0;
  std::int64_t first = 0;  // its first element's place in the parameter

  // What an update reads and writes of memory.
  std::vector<Access> accesses() const;
  // Elements [begin, begin + count) of it; `begin` is a multiple of kCodeBlock where a state is in 8 bits.
  UpdateSpan part(std::int64_t begin, std::int64_t count) const;

  // For rules that go element by element: an element of the gradient; and the last thing to do, the rounded copy.
  float gradient_at(std::int64_t i) const {
    return with_type_of(gradient_dtype, [&]<typename G>(std::type_identity<G>) {
      return to_float(reinterpret_cast<const G*>(gradient)[i]);
    });
  }
  void write_low_precision() const {
    if (low_precision != nullptr)
      convert_elements(reinterpret_cast<const std::byte*>(parameter), DType::kFloat32, low_precision,
                       low_precision_dtype, numel);
  }
};

// Rows are a parameter's first dimension, columns all others together.
struct MatrixShape {
  std::int64_t rows = 0, columns = 0;
};

// The states of a matrix of which a rule keeps a mean square of each row and each column (FactorRule).
struct Factors {
  std::span<const float> row_var, col_var;
  float row_mean = 0;  // of row_var, as the rule wants it
};

struct UpdateScalars {
  std::int64_t step = 1;  // counted from 1: bias correction
  double lr = 0;
  double gradient_scale = 1;  // the gradient is multiplied by this before anything else
  double weight_decay = 0;
  // Of a rule that has sums: over the whole parameter, of all ranks; see UpdateRule::add_sums().
  std::span<const double> sums;
  // Of a matrix that is updated as a whole, whose completed directions update() finds as gradient (MatrixRule), and of
  // one with states of rows and columns (FactorRule). Of other parameters no rows.
  MatrixShape matrix{};
  Factors factors{};       // of a FactorRule's matrix: after the step
  std::int64_t numel = 0;  // of the whole parameter
};

// Defaults are torch.optim's. Decay is decoupled.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // coupled, as in torch.optim.Adam: added to the gradient
};

struct SgdOptions {
  double lr = 1e-2;
  double momentum = 0;
  double weight_decay = 0;  // coupled, as in torch.optim.SGD: added to the gradient
  bool nesterov = false;    // needs momentum
};

// Defaults are the paper's.
struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // decoupled
};

// Defaults are DeepSpeed's. Decay is part of the direction.
struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double least_ratio = 0.01;  // of a parameter's norm to its direction's
  double most_ratio = 10;
};

// AdamW with moments in 8 bits; weights are as precise as AdamW's.
struct AdamW8bitOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

// How long the steps of a matrix are, as torch.optim.Muon's adjust_lr_fn; muon_kernel.h has the formulas.
enum class MuonScale : std::uint8_t { kOriginal, kMatchRmsAdamW };

// Of matrices, with torch.optim.Muon's defaults; `adamw`: of all other parameters. Decay is decoupled.
struct MuonOptions {
  double lr = 1e-3;
  double momentum = 0.95;
  bool nesterov = true;
  MuonScale scale = MuonScale::kOriginal;
  int steps = 5;                   // of Newton-Schulz
  double weight_decay = 0.1;       // of all parameters with two or more dimensions
  AdamWOptions adamw = {.lr = 0};  // lr 0: that of matrices. Its weight_decay is not used
};

// Defaults are torch.optim.Adafactor's. Decay is decoupled.
struct AdafactorOptions {
  double lr = 1e-2;  // most of a relative step: 1 / sqrt(step) where that is less
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();  // torch's eps[0]: bounds variances from below
  double eps2 = 1e-3;                                   // torch's eps[1]: least rms of a parameter that scales its step
  double clip = 1;                                      // torch's d: rms of a direction from which it is shortened
  double weight_decay = 0;
};

class UpdateRule;

// A rule that the user wrote.
struct OwnRuleOptions {
  std::shared_ptr<const UpdateRule> rule;
  double lr = 1e-3;
  double weight_decay = 0;
};

using OptimizerOptions = std::variant<AdamWOptions, AdamOptions, SgdOptions, LionOptions, LambOptions, AdamW8bitOptions,
                                      MuonOptions, AdafactorOptions, OwnRuleOptions>;

// What a rule does with matrices that it updates as wholes (Unit::matrices), before update(): each rank directs its shard
// of them, all directions of a matrix are brought together, and whoever updates a part of it completes them.
class MatrixRule {
 public:
  virtual ~MatrixRule() = default;
  // The direction of each element, from its gradient and state 0, which is updated. The directions are written where
  // the span has its parameter, which is not read; spans are as update()'s.
  virtual void direct(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // All directions of a matrix, row by row, become what update() takes as gradient. `workspace`: as many floats as
  // workspace_numel() in zero/engine/matrix_directions.cpp says; for Muon newton_schulz_numel().
  virtual void complete(float* directions, const MatrixShape& matrix, std::span<float> workspace,
                        ThreadTeam& team) const = 0;
};

// What a rule does with matrices of which it keeps a mean square of each row and each column, in place of one of each
// element (Unit::factored), before add_sums() and update().
class FactorRule {
 public:
  virtual ~FactorRule() = default;
  // Adds the squares of the span's gradients, scaled, to the sum of each row and each column of their matrix. Reads
  // gradients alone. Spans begin at multiples of kSumBlock in their parameter. Several threads may call it with spans of
  // one matrix: it adds to the sums while it holds `lock`.
  virtual void add_squares(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> rows,
                           std::span<ExactSum> columns, std::mutex& lock) const = 0;
  // The states after the step. `sums`: of whole rows, then of whole columns.
  virtual Factors update_factors(std::span<float> row_var, std::span<float> col_var, std::span<const double> sums,
                                 const UpdateScalars& scalars) const = 0;
};

// Of a rule that a user writes, update() computes an element from that element alone and from the sums, if it has any,
// and alike however spans are cut. It is called by several threads at once, each with a span of its own.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  virtual std::string_view name() const = 0;
  // At most kMostOwnStates. Adam has two, Lion one, SGD none or one. Of a rule that a user writes they are fp32.
  virtual std::vector<StateSpec> states() const = 0;
  // How many sums over a whole parameter update() wants: most rules none, LAMB two.
  virtual int num_sums() const { return 0; }
  // Adds this span's share to each sum, and writes nothing else. update() finds the totals of all ranks in
  // `scalars.sums`. `scalars` here are those of the update to come, without sums.
  // Spans begin at multiples of kSumBlock in their unit.
  virtual void add_sums(const UpdateSpan& /*span*/, const UpdateScalars& /*scalars*/,
                        std::span<ExactSum> /*sums*/) const {}
  virtual void update(const UpdateSpan& span, const UpdateScalars& scalars) const = 0;
  // Queues the same over memory of a device. A rule that a user writes has the host's code alone: other devices refuse it,
  // and what `scalars` and the rule point to outlives the work.
  virtual void queue(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars) const;
  // Null: every parameter is updated element by element.
  virtual const MatrixRule* matrices() const { return nullptr; }
  // Null: every parameter has the states of states().
  virtual const FactorRule* factors() const { return nullptr; }
};

// What plans and memory need to know of it.
OptimizerSpec spec_of(const UpdateRule& rule);

// Throws ConfigError under keys "optimizer.lr", "optimizer.betas" ... for values out of range or not finite, and under
// "optimizer.rule" for a rule that is null, has more states or states of another type.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);
std::string_view name_of(const OptimizerOptions& options);  // "adamw", "lamb" ..., or the user's rule's
double learning_rate(const OptimizerOptions& options);
double weight_decay(const OptimizerOptions& options);

// The instruction set that the kernels chose on this machine: "AVX2", "AVX3", "NEON", "SCALAR" ...
std::string kernel_target();

}  // namespace zero
