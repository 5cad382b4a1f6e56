// Replacements: how a rank whose process was lost comes back as a new process, while the others go on.
//
//   Replacements& replacements = *comm.arrivals()->replacements();       // on rank 0, which leads
//   if (const int rank = replacements.waiting(lost); rank >= 0) {
//     replacements.introduce(rank, only(1));             // 1. tells the process to meet rank 1 and rank 0
//     ...tells rank 1...                                 // 2. on rank 1 and on rank 0:
//     replacements.take_back(rank);
//     ...rank 1 answers...
//     replacements.let_in(rank);                         // 3. the process begins; its messages are numbered anew
//   }
//
// is_one() tells the process that it is a replacement. It takes part in no collective of the run: it exchanges messages
// only with rank 0 and the ranks that took it back. The other ranks do not learn of it. Messages of the lost process
// that nobody has received are gone: drop the works that wait for them. If the new process ends at any point, it is
// lost like its predecessor. shared_memory and gloo have replacements. Local.
#pragma once

#include "zero/comm/rendezvous/rank_set.h"

namespace zero {

class Replacements {
 public:
  virtual ~Replacements() = default;

  // Returns true if this process is a replacement.
  virtual bool is_one() const = 0;
  // Returns how many replacements this run allows, over all ranks, as the launcher says.
  virtual int most() const = 0;

  // On rank 0: returns one of `lost` whose new process waits; -1: none. Never waits.
  virtual int waiting(RankSet lost) = 0;
  virtual void introduce(int rank, RankSet peers) = 0;
  virtual void take_back(int rank) = 0;
  virtual void let_in(int rank) = 0;
};

}  // namespace zero
