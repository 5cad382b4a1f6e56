// Replacements: how a rank whose process was lost comes back as a new process, while the others go on.
//
//   Replacements& replacements = *comm.arrivals()->replacements();       // on rank 0, which leads
//   if (const int rank = replacements.waiting(lost); rank >= 0) {
//     replacements.introduce(rank, only(1));            // 1. the process hears whom it is to meet: rank 1 and this one
//     ...tells rank 1...                                 // 2. there, and on rank 0:
//     replacements.take_back(rank);
//     ...rank 1 answers...
//     replacements.let_in(rank);                         // 3. the process begins; messages to and from it are new ones
//   }
//
// The process is told that it is a replacement (is_one()). It has been in no collective of the run and takes part in none:
// it exchanges messages with rank 0 and the ranks that took it back. Others never hear of it. Messages of its predecessor
// that nobody has received are gone; works that waited for them are to be dropped. Should the process end at any point of
// this, it is lost as its predecessor was. shared_memory and gloo have it. Local.
#pragma once

#include "zero/rendezvous/rank_set.h"

namespace zero {

class Replacements {
 public:
  virtual ~Replacements() = default;

  // This process is one.
  virtual bool is_one() const = 0;
  // That may come in this run, of all ranks: what the launcher says.
  virtual int most() const = 0;

  // On rank 0: one of `lost` whose new process waits; -1: none. Waits for nobody.
  virtual int waiting(RankSet lost) = 0;
  virtual void introduce(int rank, RankSet peers) = 0;
  virtual void take_back(int rank) = 0;
  virtual void let_in(int rank) = 0;
};

}  // namespace zero
