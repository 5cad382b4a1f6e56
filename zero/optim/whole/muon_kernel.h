// muon_direct(), muon_step(): the inner loops of Muon (Jordan et al., 2024), with the arithmetic of torch.optim.Muon.
// muon_direct() runs before the Newton-Schulz iterations (newton_schulz.h), muon_step() after them. For each element of
// a matrix, in fp32, with each operation rounded by itself:
//
//   g  = gradient * gradient_scale
//   m  = lerp(m, g, 1 - momentum)
//   u  = lerp(g, m, momentum)                   with Nesterov; else u = m
//
//   p  = p * decay                              1 - lr * weight_decay
//   p  = p + (-lr * scale) * o                  o: newton_schulz() of all u of the matrix
//
// scale: sqrt(max(1, rows / columns)), or 0.2 * sqrt(max(rows, columns)) for steps as long as AdamW's. All instruction
// sets and cuts give the same bits. Local.
#pragma once

#include "zero/optim/rule/update_slices.h"
#include "zero/optim/whole/muon_rule.h"

namespace zero {

// lerp(from, to, w): from + w (to - from) for w < 1/2, else to - (1 - w) (to - from), as in torch.
struct Lerp {
  float from_end = 0;  // 1 for the second form
  float factor = 0;    // w, or -(1 - w)
};

struct MuonDirectionConstants {
  float gradient_scale = 1;
  Lerp momentum, nesterov;
  bool looks_ahead = true;
};

struct MuonStepConstants {
  float decay = 1;
  float minus_lr = 0;  // -lr * scale
};

MuonDirectionConstants muon_direction_constants(const MuonOptions& options, const UpdateScalars& scalars);
MuonStepConstants muon_step_constants(const MuonOptions& options, const UpdateScalars& scalars);

// Updates state 0 of the span in place, and writes the directions u to the span's parameter memory.
void muon_direct(const UpdateSpan& span, const MuonDirectionConstants& constants);

// Runs muon_direct() for each slice.
using MuonDirectionArguments = UpdateSlices<MuonDirectionConstants>;
extern const Kernel kMuonDirect;
// Updates the span's parameter; the span's gradient is o, in fp32. Writes low_precision if it is not null.
void muon_step(const UpdateSpan& span, const MuonStepConstants& constants);

// Runs muon_step() for each slice.
using MuonStepArguments = UpdateSlices<MuonStepConstants>;
extern const Kernel kMuonStep;

}  // namespace zero
